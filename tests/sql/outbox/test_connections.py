"""Messages by row on DB-API connections: every driver, in its real database."""

from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError, GantryError, OutboxFull
from gantrymq.sql import Transactions
from tests.sql.outbox.rows_shop import RowsShop, shop, until

__all__ = ["shop"]


@pytest.mark.parametrize("away", ["row", "always"])
def test_orders_are_paid_while_the_broker_is_away_and_their_messages_follow(shop: RowsShop, away: str) -> None:
    transactions = shop.service(away)
    with transactions.begin() as tx:
        shop.pay(tx, 1)
    with shop.broker_away():
        for number in range(2, 6):
            with transactions.begin() as tx:
                shop.pay(tx, 10 * number, 10 * number + 1)
        assert shop.paid() == [1, 20, 21, 30, 31, 40, 41, 50, 51]
        assert shop.rows() == (8 if away == "row" else shop.rows())
    shop.wait_until_agreed()
    sent = {message.body: message for message in shop.gantry.messages("orders")}[b"20"]
    assert (sent.keys, sent.properties["colour"]) == (["key-20"], "blue")


def test_with_always_nothing_waits_for_a_broker(shop: RowsShop) -> None:
    transactions = shop.service("always")
    for number in range(1, 4):
        with transactions.begin() as tx:
            shop.pay(tx, number)
    shop.wait_until_agreed()
    assert shop.outcomes().count(3) == 3


def test_with_row_a_broker_that_answers_gets_the_messages_itself(shop: RowsShop) -> None:
    transactions = shop.service("row", row_after_ms=30_000, send_timeout_ms=30_000)
    with transactions.begin() as tx:
        shop.pay(tx, 1)
    assert shop.bodies() == [1]
    assert shop.outcomes() == [1]


def test_what_is_rolled_back_leaves_no_row(shop: RowsShop) -> None:
    transactions = shop.service("always")
    with pytest.raises(ZeroDivisionError), transactions.begin() as tx:
        shop.pay(tx, 1)
        print(1 // 0)
    with transactions.begin() as tx:
        shop.pay(tx, 2)
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            shop.pay(tx, 3)
            print(1 // 0)
    shop.wait_until_agreed()
    assert shop.paid() == [2]


def test_refuse_is_the_way_of_old(shop: RowsShop) -> None:
    transactions = shop.service("refuse", send_timeout_ms=300)
    with transactions.begin() as tx:
        shop.pay(tx, 1)
    with shop.broker_away(), pytest.raises(GantryError), transactions.begin() as tx:
        shop.pay(tx, 2)
    shop.wait_until_agreed()
    assert shop.paid() == [1]


def test_a_process_that_has_died_leaves_its_rows_to_a_sibling(shop: RowsShop) -> None:
    dead = shop.service("always")
    with dead.begin() as tx:
        shop.pay(tx, 1)
    shop.wait_until_agreed()
    with shop.broker_away():
        with dead.begin() as tx:
            shop.pay(tx, 2, 3)
        dead.close()
        assert shop.rows() == 2
    shop.place.execute("UPDATE gantrymq_outbox SET taken_until = 0")  # its time is over
    shop.service("row").start()
    shop.wait_until_agreed()


def test_row_limit_refuses_new_transactions(shop: RowsShop) -> None:
    transactions = shop.service("always", row_limit=3)
    with transactions.begin() as tx:
        shop.pay(tx, 1)
    shop.wait_until_agreed()
    with shop.broker_away():
        for number in range(2, 5):
            with transactions.begin() as tx:
                shop.pay(tx, number)
        with pytest.raises(OutboxFull, match=r"row_limit is 3.*gantry sql rows"), transactions.begin() as tx:
            shop.pay(tx, 5)
    shop.wait_until_agreed()
    assert shop.paid() == [1, 2, 3, 4]

    def there_is_room() -> bool:
        try:
            with transactions.begin() as tx:
                shop.pay(tx, 6)
        except OutboxFull:  # it counts again within seconds
            return False
        return True

    until(there_is_room, "the limit is forgotten")
    shop.wait_until_agreed()


@pytest.mark.parametrize("away", ["row", "always"])
def test_without_the_table_it_says_what_to_do(shop: RowsShop, away: str) -> None:
    shop.place.execute("DROP TABLE gantrymq_outbox")
    with pytest.raises(ConfigError, match="gantry sql ddl"):
        shop.service(away).start()
    with shop.service("refuse").begin() as tx:
        shop.pay(tx, 1)
    assert shop.bodies() == [1]


def test_one_table_cannot_be_two() -> None:
    with pytest.raises(ConfigError, match="name three tables"):
        Transactions("g", lambda: None, name_servers="127.0.0.1:9876", outbox_table="gantrymq_outcomes")
