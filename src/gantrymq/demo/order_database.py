"""The database of the order service. It decides whether an order is paid.

The table ``attempts`` makes the check-back decisive. It has a row for every transaction id that is decided. A payment
inserts its row in the *same* transaction as the payment itself. A check-back that finds no row inserts one that says
"refused". The transaction id is the primary key, so only one of the two succeeds: a payment that is still running when
its message is checked can no longer commit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUSY_TIMEOUT_SECONDS = 30.0
"""SQLite allows one writer at a time; a payment waits at most this long for others."""

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, amount_cents INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'paid', 'rolled_back')), transaction_id TEXT);
CREATE TABLE payments (
    order_id TEXT PRIMARY KEY REFERENCES orders, amount_cents INTEGER NOT NULL, card_limit_cents INTEGER NOT NULL,
    CONSTRAINT card_limit CHECK (amount_cents <= card_limit_cents));
CREATE TABLE attempts (
    transaction_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, outcome TEXT NOT NULL,
    confirmed INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE checks (transaction_id TEXT PRIMARY KEY, order_id TEXT NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID;
"""

SETTLE = "INSERT INTO attempts (transaction_id, order_id, outcome) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"


class CardDeclined(Exception):
    """The card's limit is lower than the amount; the payment was rolled back."""


class AttemptRefused(Exception):
    """A check-back decided this transaction id first; the payment was rolled back."""


@dataclass(frozen=True, slots=True)
class Order:
    order_id: str
    user_id: str
    amount_cents: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Orders and transactions so far."""

    paid: int
    rolled_back: int
    checked: int
    """Transactions that a check-back decided."""
    unconfirmed: int
    """Transactions whose end no broker has confirmed, and for which no check-back has come."""

    @property
    def decided(self) -> int:
        return self.paid + self.rolled_back


class OrderDatabase:
    """One connection to the database. Two threads must not use it at once."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
        # With NORMAL a commit survives the death of the process, which the demo causes. FULL would be needed to survive
        # a power cut, too.
        self._connection.execute("PRAGMA synchronous = NORMAL")

    def close(self) -> None:
        self._connection.close()

    def create(self, orders: Iterable[Order]) -> None:
        """Create the tables, and insert the orders as new."""
        self._connection.executescript(SCHEMA)
        with self._transaction() as connection:
            connection.executemany(
                "INSERT INTO orders (order_id, user_id, amount_cents) VALUES (?, ?, ?)",
                ((order.order_id, order.user_id, order.amount_cents) for order in orders),
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """BEGIN IMMEDIATE, then COMMIT; ROLLBACK when the block raises."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def is_new(self, order_id: str) -> bool:
        found = self._connection.execute("SELECT status FROM orders WHERE order_id = ?", (order_id,)).fetchone()
        return found is not None and found[0] == "new"

    def pay(self, order: Order, transaction_id: str, card_limit_cents: int) -> None:
        """The local transaction. Raises CardDeclined or AttemptRefused, after a rollback."""
        try:
            with self._transaction() as connection:
                connection.execute(
                    "UPDATE orders SET status = 'paid', transaction_id = ? WHERE order_id = ? AND status = 'new'",
                    (transaction_id, order.order_id),
                )
                connection.execute(
                    "INSERT INTO attempts (transaction_id, order_id, outcome) VALUES (?, ?, 'paid')",
                    (transaction_id, order.order_id),
                )
                connection.execute(
                    "INSERT INTO payments VALUES (?, ?, ?)", (order.order_id, order.amount_cents, card_limit_cents)
                )
        except sqlite3.IntegrityError as error:
            if "card_limit" in str(error):
                raise CardDeclined(order.order_id) from error
            raise AttemptRefused(transaction_id) from error

    def give_up(self, order: Order, transaction_id: str) -> None:
        """Record that the order will not be paid, so that no worker tries again."""
        with self._transaction() as connection:
            connection.execute(SETTLE, (transaction_id, order.order_id, "declined"))
            connection.execute(
                "UPDATE orders SET status = 'rolled_back', transaction_id = ? WHERE order_id = ? AND status = 'new'",
                (transaction_id, order.order_id),
            )

    def settle(self, order_id: str, transaction_id: str) -> bool:
        """Whether the transaction paid the order, for the answer to a check-back. From now on it cannot change."""
        with self._transaction() as connection:
            connection.execute(SETTLE, (transaction_id, order_id, "refused"))
            (outcome,) = connection.execute(
                "SELECT outcome FROM attempts WHERE transaction_id = ?", (transaction_id,)
            ).fetchone()
            paid: bool = outcome == "paid"
            connection.execute(
                "INSERT INTO checks VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (transaction_id, order_id, "COMMIT" if paid else "ROLLBACK"),
            )
        return paid

    def confirm(self, transaction_id: str) -> None:
        """Record that a broker has confirmed the end of this transaction, so that no check-back will come for it."""
        with self._transaction() as connection:
            connection.execute("UPDATE attempts SET confirmed = 1 WHERE transaction_id = ?", (transaction_id,))

    def counts(self) -> Counts:
        ask = self._connection.execute
        statuses = dict(ask("SELECT status, count(*) FROM orders GROUP BY status").fetchall())
        (checked,) = ask("SELECT count(*) FROM checks").fetchone()
        (unconfirmed,) = ask(
            "SELECT count(*) FROM attempts WHERE confirmed = 0"
            " AND transaction_id NOT IN (SELECT transaction_id FROM checks)"
        ).fetchone()
        return Counts(statuses.get("paid", 0), statuses.get("rolled_back", 0), checked, unconfirmed)

    def paid_orders(self) -> set[str]:
        return {
            order_id for (order_id,) in self._connection.execute("SELECT order_id FROM orders WHERE status = 'paid'")
        }
