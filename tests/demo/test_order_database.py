"""The order database: an order is paid at most once, and a check-back's answer is final."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq.demo.order_database import AttemptRefused, CardDeclined, Order, OrderDatabase

ORDER = Order("o-1", "u-1", 500)
OTHER = Order("o-2", "u-1", 700)
LIMIT = 1_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OrderDatabase]:
    found = OrderDatabase(tmp_path / "orders.db")
    found.create([ORDER, OTHER])
    yield found
    found.close()


def test_a_payment_is_seen_by_the_check_back(database: OrderDatabase) -> None:
    assert database.is_new("o-1")
    database.pay(ORDER, "T1", LIMIT)
    assert not database.is_new("o-1")
    assert database.settle("o-1", "T1") is True
    assert database.paid_orders() == {"o-1"}


def test_an_unknown_order_is_not_new(database: OrderDatabase) -> None:
    assert not database.is_new("o-404")


def test_a_declined_card_leaves_nothing_of_the_payment(database: OrderDatabase) -> None:
    with pytest.raises(CardDeclined):
        database.pay(ORDER, "T1", 1)
    assert database.is_new("o-1")
    database.give_up(ORDER, "T1")
    assert not database.is_new("o-1")
    assert database.settle("o-1", "T1") is False
    assert database.paid_orders() == set()
    assert database.counts().rolled_back == 1


def test_a_check_back_that_finds_nothing_makes_the_late_payment_impossible(database: OrderDatabase) -> None:
    assert database.settle("o-1", "T1") is False
    with pytest.raises(AttemptRefused):
        database.pay(ORDER, "T1", LIMIT)
    assert database.settle("o-1", "T1") is False
    database.pay(ORDER, "T2", LIMIT)  # the order itself can still be paid, by another attempt
    assert database.settle("o-1", "T2") is True
    assert database.settle("o-1", "T1") is False


def test_an_order_is_paid_once_however_often_it_is_attempted(database: OrderDatabase) -> None:
    database.pay(ORDER, "T1", LIMIT)
    with pytest.raises(AttemptRefused):
        database.pay(ORDER, "T2", LIMIT)
    assert database.settle("o-1", "T2") is False
    assert database.settle("o-1", "T1") is True


def test_payment_and_check_back_racing_agree_on_one_outcome(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    rounds = 50
    first = OrderDatabase(path)
    first.create(Order(f"o-{number}", "u", 1) for number in range(rounds))
    first.close()
    paid: dict[int, bool] = {}
    answered: dict[int, bool] = {}
    barrier = threading.Barrier(2)

    def pay() -> None:
        database = OrderDatabase(path)
        for number in range(rounds):
            barrier.wait(30)
            try:
                database.pay(Order(f"o-{number}", "u", 1), f"T{number}", LIMIT)
                paid[number] = True
            except AttemptRefused:
                paid[number] = False
        database.close()

    def check() -> None:
        database = OrderDatabase(path)
        for number in range(rounds):
            barrier.wait(30)
            answered[number] = database.settle(f"o-{number}", f"T{number}")
        database.close()

    threads = [threading.Thread(target=pay), threading.Thread(target=check)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(paid) == rounds
    assert paid == answered


def test_counts_follow_the_life_of_transactions(database: OrderDatabase) -> None:
    assert database.counts().decided == 0
    database.pay(ORDER, "T1", LIMIT)
    assert (database.counts().paid, database.counts().unconfirmed) == (1, 1)
    database.confirm("T1")
    assert database.counts().unconfirmed == 0
    database.pay(OTHER, "T2", LIMIT)
    assert database.counts().unconfirmed == 1
    database.settle("o-2", "T2")
    database.settle("o-2", "T2")  # a broker may ask twice
    counts = database.counts()
    assert (counts.unconfirmed, counts.checked, counts.decided) == (0, 1, 2)


def test_the_table_of_orders_is_what_reconcile_reads(database: OrderDatabase, tmp_path: Path) -> None:
    database.pay(ORDER, "T1", LIMIT)
    with sqlite3.connect(tmp_path / "orders.db") as other:
        rows = other.execute("SELECT order_id, user_id, amount_cents, status FROM orders ORDER BY order_id").fetchall()
    assert rows == [("o-1", "u-1", 500, "paid"), ("o-2", "u-1", 700, "new")]
