"""The order database: an order is paid at most once, together with its message."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq.demo.order_database import (
    AlreadyDecided,
    CardDeclined,
    Order,
    OrderDatabase,
    connect,
    pay,
    transactions_of,
)
from gantrymq.sql import ConnectionTransactions
from gantrymq.testing import LocalCluster

ORDER = Order("o-1", "u-1", 500)
OTHER = Order("o-2", "u-1", 700)
LIMIT = 1_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OrderDatabase]:
    found = OrderDatabase(tmp_path / "orders.db")
    found.create([ORDER, OTHER])
    yield found
    found.close()


@pytest.fixture
def transactions(database: OrderDatabase, tmp_path: Path, gantry: LocalCluster) -> Iterator[ConnectionTransactions]:
    found = transactions_of(tmp_path / "orders.db", "order-service", gantry.name_servers, "orders-paid")
    found.create_table()
    with found:
        yield found


def test_an_order_is_paid_once_however_often_it_is_attempted(
    database: OrderDatabase, transactions: ConnectionTransactions
) -> None:
    assert database.is_new("o-1")
    with transactions.begin() as tx:
        pay(tx, ORDER, LIMIT)
    assert not database.is_new("o-1")
    assert database.paid_orders() == {"o-1"}
    with pytest.raises(AlreadyDecided), transactions.begin() as tx:
        pay(tx, ORDER, LIMIT)
    assert database.counts().paid == 1


def test_an_unknown_order_is_not_new(database: OrderDatabase) -> None:
    assert not database.is_new("o-404")


def test_a_declined_card_leaves_nothing_of_the_payment(
    database: OrderDatabase, transactions: ConnectionTransactions
) -> None:
    with pytest.raises(CardDeclined), transactions.begin() as tx:
        pay(tx, ORDER, 1)
    assert database.is_new("o-1")
    database.give_up(ORDER)
    assert not database.is_new("o-1")
    assert database.paid_orders() == set()
    counts = database.counts()
    assert (counts.paid, counts.rolled_back, counts.decided) == (0, 1, 1)


def test_to_give_up_changes_no_paid_order(database: OrderDatabase, transactions: ConnectionTransactions) -> None:
    with transactions.begin() as tx:
        pay(tx, ORDER, LIMIT)
    database.give_up(ORDER)
    assert database.paid_orders() == {"o-1"}


def test_a_commit_can_be_interrupted_before_and_after(database: OrderDatabase, tmp_path: Path) -> None:
    connection = connect(tmp_path / "orders.db")
    seen: list[bool] = []
    connection.before_commit = connection.after_commit = lambda: seen.append(database.is_new("o-1"))
    connection.execute("UPDATE orders SET status = 'paid' WHERE order_id = 'o-1'")
    connection.commit()
    connection.close()
    assert seen == [True, False]


def test_the_table_of_orders_is_what_reconcile_reads(
    database: OrderDatabase, transactions: ConnectionTransactions, tmp_path: Path
) -> None:
    with transactions.begin() as tx:
        pay(tx, ORDER, LIMIT)
    with sqlite3.connect(tmp_path / "orders.db") as other:
        rows = other.execute("SELECT order_id, user_id, amount_cents, status FROM orders ORDER BY order_id").fetchall()
    assert rows == [("o-1", "u-1", 500, "paid"), ("o-2", "u-1", 700, "new")]
