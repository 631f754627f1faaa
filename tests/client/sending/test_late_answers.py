"""The outcome of a local transaction was not known when it ended, because its database was away. Its producer asks the
decisive checker until there is an answer, and does not wait until the broker asks."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.aio import LocalTransactionState, Message, MessageView, TransactionProducer
from gantrymq.client.listener import ListenerAnswer
from gantrymq.message import properties
from gantrymq.testing import LocalCluster

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


class Checker:
    """Says what it is told to say, one answer after the other."""

    def __init__(self, decisive: bool, *answers: LocalTransactionState) -> None:
        self.decisive = decisive
        self.answers = list(answers)
        self.asked: list[MessageView] = []

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        raise NotImplementedError

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.asked.append(message)
        return self.answers.pop(0)


async def end_as_unknown(gantry: LocalCluster, checker: Checker) -> TransactionProducer:
    producer = TransactionProducer("g", name_servers=gantry.name_servers, listener=checker)
    await producer.start()
    halves = producer.halves()
    # Nobody is asked about it by the broker for an hour.
    halves.add(0, Message("T", b"paid", keys=["o-1"], properties={properties.CHECK_IMMUNITY_SECONDS: "3600"}))
    await halves.stored()
    await halves.end(ListenerAnswer(UNKNOWN, remark="the database is away"))
    return producer


@pytest.mark.slow
@pytest.mark.parametrize(("last", "delivered"), [(COMMIT, [b"paid"]), (ROLLBACK, [])])
def test_the_checker_is_asked_until_it_knows(
    gantry: LocalCluster, last: LocalTransactionState, delivered: list[bytes]
) -> None:
    checker = Checker(True, UNKNOWN, last)

    async def play() -> None:
        producer = await end_as_unknown(gantry, checker)
        while gantry.open_transactions():
            await asyncio.sleep(0.05)
        await producer.close()

    asyncio.run(play())
    assert [message.body for message in gantry.messages("T")] == delivered
    assert not checker.answers
    assert [(view.body, view.keys) for view in checker.asked] == [(b"paid", ["o-1"])] * 2


def test_closing_does_not_wait_for_an_answer(gantry: LocalCluster) -> None:
    checker = Checker(True)

    async def play() -> None:
        await (await end_as_unknown(gantry, checker)).close()

    asyncio.run(play())
    assert len(gantry.open_transactions()) == 1


@pytest.mark.slow
def test_a_checker_that_is_not_decisive_is_asked_by_the_broker_only(gantry: LocalCluster) -> None:
    checker = Checker(False, COMMIT)

    async def play() -> None:
        producer = await end_as_unknown(gantry, checker)
        await asyncio.sleep(2.0)  # two late answers would have come
        await producer.close()

    asyncio.run(play())
    assert not checker.asked
    assert len(gantry.open_transactions()) == 1
