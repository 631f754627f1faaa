"""How many rows at once leave the outbox, and what that costs the database."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq import Message
from gantrymq.sql import Transactions
from tests.sql.outbox.rows_shop import RowsShop, shop, until

__all__ = ["shop"]
ROWS = 200


def test_many_rows_need_few_transactions_and_few_connections(shop: RowsShop) -> None:
    connections: list[Any] = []

    def connect() -> Any:
        connections.append(shop.place.connect())
        return connections[-1]

    transactions = Transactions(
        "order-service", connect, name_servers="127.0.0.1:9876", when_broker_is_away="always", send_timeout_ms=5000
    )
    shop.made.append(transactions)
    transactions.start()
    with shop.broker_away():
        with transactions.begin() as tx:
            shop.pay(tx, *range(ROWS))
        until(lambda: transactions._started()[0].waiting.away, "the relay has found that no broker answers")
        before = len(connections)
    shop.wait_until_agreed()
    # One outcome is that of the block. A batch grows from one row to 500, and begins again with one where a broker is
    # away: on a slow machine with a short time-out it seems to be.
    assert len(shop.outcomes()) < 1 + ROWS // 5
    assert len(connections) - before < (ROWS // 5 if shop.place.kind == "sqlite" else 10)


@pytest.mark.gantry(broker={"autoCreateTopicEnable": "false"})
def test_one_refused_row_among_many_stops_none_of_them(shop: RowsShop) -> None:
    transactions = shop.service("always")
    with transactions.begin() as tx:
        shop.pay(tx, 1, 2, 3)
        tx.send(Message("no-such-topic", b"x"))
        shop.pay(tx, 4, 5, 6)
    until(lambda: shop.bodies() == [1, 2, 3, 4, 5, 6], "all others are sent")
    until(lambda: not shop.gantry.open_transactions(), "what was sent in vain is rolled back")
    assert shop.bodies() == [1, 2, 3, 4, 5, 6], "no message twice"
    until(lambda: shop.rows() == 1, "the row that is refused is left")
