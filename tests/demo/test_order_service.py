"""The order service's payments and gate; the service as a whole is run by ``test_script``."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq.demo import order_service
from gantrymq.demo.decisions import CheckBacks, open_transactions
from gantrymq.demo.layout import GROUP, TOPIC
from gantrymq.demo.order_database import Order, OrderDatabase
from gantrymq.demo.order_service import Gate, Payments
from gantrymq.demo.plan import Fate
from gantrymq.errors import TransactionClaimed
from gantrymq.testing import LocalCluster

ORDER = Order("o-1", "u-1", 500)
PATIENCE_SECONDS = 30
pytestmark = pytest.mark.gantry(broker={"brokerName": "broker-x", "transactionCheckInterval": "500"})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OrderDatabase]:
    found = OrderDatabase(tmp_path / "orders.db")
    found.create([ORDER])
    yield found
    found.close()


@pytest.fixture
def payments(database: OrderDatabase, tmp_path: Path, gantry: LocalCluster) -> Iterator[Payments]:
    gantry.create_topic(TOPIC)
    found = Payments(tmp_path / "orders.db", GROUP, gantry.name_servers, TOPIC)
    found.transactions.create_table()
    with found.transactions:
        yield found
        found.ended.set()


def delivered(gantry: LocalCluster) -> list[str]:
    return [message.keys[0] for message in gantry.messages(TOPIC)]


def test_a_payment_and_its_message(payments: Payments, database: OrderDatabase, gantry: LocalCluster) -> None:
    payments.try_to_pay(ORDER, Fate.PAID)
    assert database.paid_orders() == {"o-1"}
    payments.try_to_pay(ORDER, Fate.PAID)  # another try changes nothing, and sends nothing
    assert delivered(gantry) == ["o-1"]
    assert not payments.is_new(ORDER)
    assert not open_transactions(gantry.name_servers)


def test_a_declined_payment_sends_nothing(payments: Payments, database: OrderDatabase, gantry: LocalCluster) -> None:
    payments.try_to_pay(ORDER, Fate.DECLINED)
    assert database.counts().rolled_back == 1
    assert not delivered(gantry)
    assert not open_transactions(gantry.name_servers)


@pytest.fixture
def sibling(payments: Payments, tmp_path: Path, gantry: LocalCluster) -> Iterator[Payments]:
    """Another worker: about a transaction that still runs, its own producer answers UNKNOWN."""
    found = Payments(tmp_path / "orders.db", GROUP, gantry.name_servers, TOPIC)
    with found.transactions:
        yield found


@pytest.mark.slow
@pytest.mark.usefixtures("sibling")
def test_a_payment_that_hangs_is_rolled_back_by_a_check_back_and_paid_by_the_next(
    payments: Payments, database: OrderDatabase, gantry: LocalCluster
) -> None:
    checks = CheckBacks(gantry.name_servers, "broker-x")
    with pytest.raises(TransactionClaimed):
        payments.try_to_pay(ORDER, Fate.HANGS_BEFORE_COMMIT)
    assert database.is_new("o-1")
    assert not delivered(gantry)
    assert checks.update() == 1
    payments.try_to_pay(ORDER, Fate.PAID)
    assert delivered(gantry) == ["o-1"]
    assert checks.update() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("sibling")
def test_a_payment_that_hangs_after_its_commit_is_committed_by_a_check_back(
    payments: Payments, database: OrderDatabase, gantry: LocalCluster
) -> None:
    payments.try_to_pay(ORDER, Fate.HANGS_AFTER_COMMIT)
    assert database.paid_orders() == {"o-1"}
    assert delivered(gantry) == ["o-1"]
    assert CheckBacks(gantry.name_servers, "broker-x").update() == 1


@pytest.mark.parametrize(
    ("fate", "event", "paid"),
    [
        (Fate.KILLED_AFTER_COMMIT, "committed_and_silent", {"o-1"}),
        (Fate.KILLED_BEFORE_COMMIT, "uncommitted_and_silent", set()),
    ],
)
def test_a_producer_to_be_killed_tells_and_falls_silent(
    payments: Payments, database: OrderDatabase, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch,
    fate: Fate, event: str, paid: set[str],
) -> None:  # fmt: skip
    """Its message is stored. It is silent until the test lets it go on."""
    reported: list[str] = []
    said, go_on = threading.Event(), threading.Event()

    def fall_silent(event: str, order: Order) -> None:
        reported.append(f"{event} {order.order_id}")
        said.set()
        go_on.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(order_service, "fall_silent", fall_silent)
    thread = threading.Thread(target=payments.try_to_pay, args=(ORDER, fate))
    thread.start()
    assert said.wait(PATIENCE_SECONDS)
    assert reported == [f"{event} o-1"]
    assert database.paid_orders() == paid
    assert len(open_transactions(gantry.name_servers)) == 1
    go_on.set()
    thread.join(PATIENCE_SECONDS)
    assert delivered(gantry) == ["o-1"]


def test_the_gate_holds_orders_back_until_the_limit_is_raised() -> None:
    gate = Gate()
    passed: list[int] = []

    def pass_through(number: int) -> None:
        if gate.wait_for(number):
            passed.append(number)

    threads = [threading.Thread(target=pass_through, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    gate.raise_to(2)
    for thread in threads[:2]:
        thread.join(PATIENCE_SECONDS)
    assert sorted(passed) == [0, 1]
    gate.raise_to(1)  # a limit never goes back
    gate.close()
    for thread in threads[2:]:
        thread.join(PATIENCE_SECONDS)
    assert sorted(passed) == [0, 1]
    assert gate.closed


def test_its_command_line_needs_everything() -> None:
    words = ["--name-servers", "a", "--topic", "t", "--group", "g", "--database", "d"]
    words += ["--orders", "20", "--seed", "1", "--share", "0", "--shares", "3"]
    options = order_service.parse(words)
    assert isinstance(options, argparse.Namespace)
    assert (options.orders, options.database, options.unharmed) == (20, Path("d"), [])
    assert order_service.parse([*words, "--unharmed", "o-1", "o-2"]).unharmed == ["o-1", "o-2"]
    with pytest.raises(SystemExit):
        order_service.parse(words[2:])
