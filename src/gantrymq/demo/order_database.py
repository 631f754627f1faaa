"""The database of the order service: the orders and their payments. It decides whether an order is paid.

The tables of ``gantrymq.sql`` are in it, too: a payment and the outcome row of its message commit together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gantrymq.sql import ConnectionTransaction, ConnectionTransactions

BUSY_TIMEOUT_SECONDS = 30.0
"""SQLite allows one writer at a time; a payment waits at most this long for others."""

LONGEST_PAYMENT_SECONDS = 2.0
"""A payment that takes longer is rolled back by a check-back. Shorter than the default of 60 s, so that the demo shows
it."""

SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY, user_id TEXT NOT NULL, amount_cents INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'paid', 'rolled_back')));
CREATE TABLE payments (
    order_id TEXT PRIMARY KEY REFERENCES orders, amount_cents INTEGER NOT NULL, card_limit_cents INTEGER NOT NULL,
    CONSTRAINT card_limit CHECK (amount_cents <= card_limit_cents));
"""


class CardDeclined(Exception):
    """The card's limit is lower than the amount."""


class AlreadyDecided(Exception):
    """The order is paid, or was given up."""


@dataclass(frozen=True, slots=True)
class Order:
    order_id: str
    user_id: str
    amount_cents: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Orders so far."""

    paid: int
    rolled_back: int

    @property
    def decided(self) -> int:
        return self.paid + self.rolled_back


def _nothing() -> None:
    """Most connections are not to fail."""


class OrderConnection(sqlite3.Connection):
    """A connection whose commit can be interrupted, for the failures of the demo."""

    before_commit: Callable[[], None] = staticmethod(_nothing)
    after_commit: Callable[[], None] = staticmethod(_nothing)

    def commit(self) -> None:
        self.before_commit()
        super().commit()
        self.after_commit()


def connect(path: Path) -> OrderConnection:
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, factory=OrderConnection)
    # With NORMAL a commit survives the death of the process, which the demo causes. FULL would be needed to survive a
    # power cut, too.
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def transactions_of(path: Path, group: str, name_servers: str, topic: str) -> ConnectionTransactions:
    """What every process of the order service has: it pays, and it answers check-backs for all of them."""
    return ConnectionTransactions(
        group, lambda: connect(path), name_servers=name_servers, topics=(topic,),
        longest_transaction=LONGEST_PAYMENT_SECONDS,
    )  # fmt: skip


def pay(tx: ConnectionTransaction, order: Order, card_limit_cents: int) -> None:
    """The statements of a payment. Raises CardDeclined or AlreadyDecided; then ``tx`` must not commit."""
    changed = tx.execute(
        "UPDATE orders SET status = 'paid' WHERE order_id = ? AND status = 'new'", (order.order_id,)
    ).rowcount
    if not changed:
        raise AlreadyDecided(order.order_id)
    try:
        tx.execute("INSERT INTO payments VALUES (?, ?, ?)", (order.order_id, order.amount_cents, card_limit_cents))
    except sqlite3.IntegrityError as error:
        raise CardDeclined(order.order_id) from error


class OrderDatabase:
    """One connection to the orders. Two threads must not use it at once."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.isolation_level = None

    def close(self) -> None:
        self._connection.close()

    def create(self, orders: Iterable[Order]) -> None:
        """Create the tables, and insert the orders as new."""
        self._connection.executescript(SCHEMA)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO orders (order_id, user_id, amount_cents) VALUES (?, ?, ?)",
            ((order.order_id, order.user_id, order.amount_cents) for order in orders),
        )
        self._connection.execute("COMMIT")

    def is_new(self, order_id: str) -> bool:
        found = self._connection.execute("SELECT status FROM orders WHERE order_id = ?", (order_id,)).fetchone()
        return found is not None and found[0] == "new"

    def give_up(self, order: Order) -> None:
        """Record that the order will not be paid, so that no worker tries again."""
        self._connection.execute(
            "UPDATE orders SET status = 'rolled_back' WHERE order_id = ? AND status = 'new'", (order.order_id,)
        )

    def has_outcome(self, transaction_id: str) -> bool:
        """Whether the transaction has an outcome row. One that is still running has got it from a check-back."""
        query = "SELECT 1 FROM gantrymq_outcomes WHERE id = ?"
        return self._connection.execute(query, (transaction_id,)).fetchone() is not None

    def counts(self) -> Counts:
        statuses = dict(self._connection.execute("SELECT status, count(*) FROM orders GROUP BY status").fetchall())
        return Counts(statuses.get("paid", 0), statuses.get("rolled_back", 0))

    def paid_orders(self) -> set[str]:
        return {
            order_id for (order_id,) in self._connection.execute("SELECT order_id FROM orders WHERE status = 'paid'")
        }
