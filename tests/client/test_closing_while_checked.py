"""A transaction producer is closed while its checker is at work: it leaves its group, answers, and then disconnects."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gantrymq import LocalTransactionState, Message, TransactionProducer, aio
from gantrymq.protocol.codes import RequestCode
from gantrymq.testing import LocalCluster
from tests.client.peer import cluster, run, until
from tests.client.test_transaction_producer import COMMIT, UNKNOWN, Listener

GROUP = "closing"
SOON = pytest.mark.gantry(broker={"transactionTimeOut": 50})


class SlowChecker(Listener):
    """Its checks take until ``go_on`` is set."""

    def __init__(self) -> None:
        super().__init__(execute=UNKNOWN, check=COMMIT)
        self.asked, self.go_on = threading.Event(), threading.Event()

    def check_local_transaction(self, message: aio.MessageView) -> LocalTransactionState:
        self.asked.set()
        self.go_on.wait(30)
        return COMMIT


def test_a_check_that_is_running_is_answered_behind_the_farewell_and_before_the_connection_closes() -> None:
    async def test() -> None:
        listener = SlowChecker()
        async with cluster() as peers:
            producer = aio.TransactionProducer("tpg", name_servers=peers.address, listener=listener)
            await producer.start()
            await producer.send_in_transaction(Message("T", b"x"))
            await until(lambda: peers.broker.ended_one_way)
            peers.broker.check(0)
            await until(listener.asked.is_set)
            closing = asyncio.ensure_future(producer.close())
            await until(lambda: RequestCode.UNREGISTER_CLIENT in peers.broker.codes())
            assert not peers.broker.ended
            listener.go_on.set()
            await closing
            (answer,) = peers.broker.ended
            assert answer.from_transaction_check

    run(test)


@SOON
def test_a_broker_accepts_the_answer_of_a_producer_that_is_closing(gantry: LocalCluster) -> None:
    gantry.create_topic("T")
    listener = SlowChecker()
    producer = TransactionProducer(GROUP, name_servers=gantry.name_servers, listener=listener)
    producer.start()
    producer.send_in_transaction(Message("T", b"x"))
    gantry.wait_until(listener.asked.is_set)
    closing = threading.Thread(target=producer.close)
    closing.start()
    gantry.wait_until(lambda: not gantry.broker.producers.members(GROUP))
    listener.go_on.set()
    closing.join(30)
    gantry.wait_until(lambda: not gantry.open_transactions())
    assert [message.body for message in gantry.messages("T")] == [b"x"]


@SOON
def test_a_checker_that_takes_too_long_is_left_and_another_member_is_asked(gantry: LocalCluster) -> None:
    gantry.create_topic("T")
    slow = SlowChecker()
    producer = TransactionProducer(GROUP, name_servers=gantry.name_servers, listener=slow, close_timeout_ms=50)
    producer.start()
    producer.send_in_transaction(Message("T", b"x"))
    gantry.wait_until(slow.asked.is_set)
    with TransactionProducer(GROUP, name_servers=gantry.name_servers, listener=Listener(check=COMMIT), topics=["T"]):
        gantry.wait_until(lambda: len(gantry.broker.producers.members(GROUP)) == 2)
        producer.close()
        gantry.wait_until(lambda: not gantry.open_transactions())
    assert [message.body for message in gantry.messages("T")] == [b"x"]
    slow.go_on.set()
