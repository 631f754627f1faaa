"""The order service's listener and gate; the service as a whole is run by ``test_story``."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import LocalTransactionState, Message, MessageQueue, MessageView
from gantrymq.demo import order_service
from gantrymq.demo.order_database import Order, OrderDatabase
from gantrymq.demo.order_service import Attempt, Gate, OrderListener
from gantrymq.demo.plan import Fate
from gantrymq.message.queues import LogOffset, QueueOffset

COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)
ORDER = Order("o-1", "u-1", 500)
PATIENCE_SECONDS = 30


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[OrderListener]:
    path = tmp_path / "orders.db"
    database = OrderDatabase(path)
    database.create([ORDER])
    database.close()
    found = OrderListener(path)
    yield found
    found.database.close()


def half(transaction_id: str) -> Message:
    message = Message("orders-paid", b"{}", keys=["o-1"])
    message.properties["UNIQ_KEY"] = transaction_id
    return message


def question(transaction_id: str) -> MessageView:
    """What a check-back hands to the listener."""
    return MessageView(
        topic="orders-paid",
        body=b"{}",
        properties={"UNIQ_KEY": transaction_id, "KEYS": "o-1"},
        flag=0,
        queue=MessageQueue("orders-paid", "broker-a", 0),
        queue_offset=QueueOffset(0),
        message_id=transaction_id,
        offset_message_id="",
        born_timestamp=0,
        born_host="127.0.0.1:1",
        store_timestamp=0,
        store_host="127.0.0.1:2",
        reconsume_times=0,
        log_offset=LogOffset(0),
    )


@pytest.mark.parametrize(
    ("fate", "answer", "answer_to_check"),
    [
        (Fate.PAID, COMMIT, COMMIT),
        (Fate.DECLINED, ROLLBACK, ROLLBACK),
        (Fate.UNKNOWN_PAID, UNKNOWN, COMMIT),
        (Fate.UNKNOWN_DECLINED, UNKNOWN, ROLLBACK),
    ],
)
def test_each_fate_answers_as_planned_and_the_check_back_tells_the_truth(
    listener: OrderListener, fate: Fate, answer: LocalTransactionState, answer_to_check: LocalTransactionState
) -> None:
    assert listener.execute_local_transaction(half("T1"), Attempt(ORDER, fate)) is answer
    assert listener.check_local_transaction(question("T1")) is answer_to_check
    assert not listener.database.is_new("o-1")


def test_a_half_whose_send_failed_is_rolled_back_and_the_order_is_paid_by_the_next(listener: OrderListener) -> None:
    assert listener.check_local_transaction(question("T1")) is ROLLBACK
    assert listener.execute_local_transaction(half("T1"), Attempt(ORDER, Fate.PAID)) is ROLLBACK
    assert listener.database.is_new("o-1")
    assert listener.execute_local_transaction(half("T2"), Attempt(ORDER, Fate.PAID)) is COMMIT
    assert listener.check_local_transaction(question("T1")) is ROLLBACK
    assert listener.check_local_transaction(question("T2")) is COMMIT


def test_a_producer_to_be_killed_commits_tells_and_falls_silent(
    listener: OrderListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    monkeypatch.setattr(order_service, "tell", lambda event, **more: reported.append(f"{event} {more['order']}"))
    attempt = Attempt(ORDER, Fate.PRODUCER_KILLED)
    thread = threading.Thread(
        target=listener.execute_local_transaction, args=(half("T1"), attempt), daemon=True, name="silent"
    )
    thread.start()
    thread.join(0.5)
    while not reported:
        thread.join(0.05)
    assert thread.is_alive()
    assert reported == ["committed_and_silent o-1"]
    assert listener.check_local_transaction(question("T1")) is COMMIT


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
    assert (options.orders, options.database) == (20, Path("d"))
    with pytest.raises(SystemExit):
        order_service.parse(words[2:])
