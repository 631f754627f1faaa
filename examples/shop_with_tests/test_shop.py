"""Tests of the shop, with the fixture ``gantry``: run ``pytest`` in this directory. No server has to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shop import TOPIC, Payments, Shipping

from gantrymq import LocalTransactionState, Message
from gantrymq.testing import LocalCluster

pytestmark = pytest.mark.gantry(virtual_time=True)


@pytest.fixture
def database(tmp_path: Path, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAMESRV_ADDR", gantry.name_servers)
    gantry.create_topic(TOPIC)
    return tmp_path / "payments.db"


def test_a_paid_order_is_shipped(gantry: LocalCluster, database: Path) -> None:
    with Payments(database) as payments, Shipping() as shipping:
        assert payments.pay("o-1") == "COMMIT"
        gantry.settle()
        assert shipping.shipped == ["o-1"]


def test_nobody_hears_of_a_payment_that_was_declined(gantry: LocalCluster, database: Path) -> None:
    with Payments(database) as payments:
        assert payments.pay("o-1", card="declined") == "ROLLBACK"
    assert gantry.messages(TOPIC) == []
    assert gantry.open_transactions() == []


class DiesBehindTheRow(Payments):
    """Its process is killed when the row is in the database and the broker does not know it yet."""

    gantry: LocalCluster

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        state = super().execute_local_transaction(message, arg)
        self.gantry.kill(self.producer)
        return state


def test_the_broker_asks_back_when_the_service_was_killed(gantry: LocalCluster, database: Path) -> None:
    with DiesBehindTheRow(database) as payments:
        payments.gantry = gantry
        payments.pay("o-1")
    assert gantry.messages(TOPIC) == []
    assert [half.producer_group for half in gantry.open_transactions()] == ["payments"]

    with Payments(database):  # the supervisor starts it again
        gantry.advance(6)  # transactionTimeOut: the broker asks
        assert [message.body for message in gantry.messages(TOPIC)] == [b"o-1"]
        assert gantry.open_transactions() == []


def test_what_could_not_be_shipped_comes_again(gantry: LocalCluster, database: Path) -> None:
    with Payments(database) as payments, Shipping() as shipping:
        shipping.carrier_answers = False
        payments.pay("o-1")
        gantry.settle()
        assert shipping.shipped == []

        shipping.carrier_answers = True
        gantry.advance(10)  # the first retry
        assert shipping.shipped == ["o-1"]


def test_a_crash_of_the_broker_loses_nothing(gantry: LocalCluster, database: Path) -> None:
    with Payments(database) as payments, Shipping() as shipping:
        payments.pay("o-1")
        gantry.restart_broker()
        payments.pay("o-2")
        gantry.wait_until(lambda: sorted(shipping.shipped) == ["o-1", "o-2"], seconds=60)
