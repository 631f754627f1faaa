"""The end of a transaction is acknowledged. When that fails: which attempts are made, and what the caller gets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gantrymq.aio import Message, SendStatus, TransactionProducer
from gantrymq.errors import RequestRejected, TimedOut
from gantrymq.protocol.command import encode_response
from gantrymq.runtime.addresses import split_address
from tests.client.peer import cluster, run
from tests.client.test_transaction_producer import COMMIT, END, AsyncListener, Listener


def test_a_refused_end_is_in_the_result_and_not_repeated() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener()) as producer,
        ):
            peers.broker.next(END, lambda s, c: encode_response(c, 13, remark="illegal"))
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.status, result.state, result.decided) == (SendStatus.SEND_OK, COMMIT, False)
            assert isinstance(result.decision_error, RequestRejected) and "illegal" in str(result.decision_error)
            assert not peers.broker.ended

    run(test)


def test_a_broker_that_refuses_for_ever_is_asked_a_few_times() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer("tpg", name_servers=peers.address, listener=Listener(), end_retries=2) as producer,
        ):
            peers.broker.next(END, *[lambda s, c: encode_response(c, 1, remark="disk full")] * 10)
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.state, result.decided) == (COMMIT, False)
            assert isinstance(result.decision_error, RequestRejected) and "disk full" in str(result.decision_error)
            assert peers.broker.codes().count(END) == 3

    run(test)


def test_a_broker_that_is_gone_and_back_gets_the_decision() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer(
                "tpg", name_servers=peers.address, listener=AsyncListener(), end_retries=30
            ) as producer,
        ):
            listener = producer.listener
            listener.go_on.clear()  # type: ignore[attr-defined]
            sending = asyncio.create_task(producer.send_in_transaction(Message("T", b"x")))
            await listener.running.wait()  # type: ignore[attr-defined]
            await peers.broker.server.close()
            listener.go_on.set()  # type: ignore[attr-defined]
            for _ in range(20):
                await asyncio.sleep(0)
            assert not sending.done(), "the first attempt failed, another one will be made"
            host, port = split_address(peers.broker.address)
            await peers.broker.server.start(host, port)
            result = await sending
            assert (result.state, result.decided, result.decision_error) == (COMMIT, True, None)
            assert len(peers.broker.ended) == 1

    run(test)


def test_a_commit_answered_too_late_is_repeated_and_its_second_answer_counts() -> None:
    """Ends are idempotent: the broker accepted the first one, and confirms it when it gets the second."""

    async def test() -> None:
        late: list[Any] = []

        def keep(session: Any, command: Any) -> None:
            late.append((session, peers.broker.end(session, command)))

        async with (
            cluster() as peers,
            TransactionProducer(
                "tpg", name_servers=peers.address, listener=Listener(), send_timeout_ms=1000
            ) as producer,
        ):
            peers.broker.next(END, keep)
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.state, result.decided, result.decision_error) == (COMMIT, True, None)
            ((session, answer),) = late
            session.send(answer)  # nobody waits for it any more, and nobody is confused by it
            assert [end.commit_or_rollback for end in peers.broker.ended] == [8, 8]
            assert (await producer.send_in_transaction(Message("T", b"y"))).decided

    run(test)


@pytest.mark.slow
def test_a_commit_that_is_never_answered_says_so() -> None:
    async def test() -> None:
        async with (
            cluster() as peers,
            TransactionProducer(
                "tpg", name_servers=peers.address, listener=Listener(), send_timeout_ms=1000, end_retries=1
            ) as producer,
        ):
            peers.broker.next(END, lambda s, c: None, lambda s, c: None)
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert (result.state, result.decided) == (COMMIT, False)
            assert isinstance(result.decision_error, TimedOut)

    run(test)
