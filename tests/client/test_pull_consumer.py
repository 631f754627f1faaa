"""Reading over real sockets, against a scripted cluster."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.aio import Message, MessageQueue, Producer, PullConsumer, PullStatus
from gantrymq.errors import Closed, ConfigError, RequestRejected, RouteNotFound, Unreachable
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pull import PullMessage
from gantrymq.protocol.stored_message import scan
from gantrymq.remoting.session import Session
from tests.client.peer import ScriptedBroker, ScriptedCluster, cluster, run

Q = MessageQueue("T", "broker-a", 1)


async def fill(peers: ScriptedCluster, count: int) -> None:
    async with Producer("pg", name_servers=peers.address) as producer:
        for number in range(count):
            await producer.send(Message("T", b"%d" % number, tags="AB"[number % 2]), Q)


def test_messages_come_in_order_and_decoded() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            await fill(peers, 40)
            assert await consumer.queues("T") == [MessageQueue("T", "broker-a", number) for number in range(4)]
            first = await consumer.pull(Q, 0, 100)
            second = await consumer.pull(Q, first.next_offset, 100)
            bodies = [message.body for message in first.messages + second.messages]
            assert bodies == [b"%d" % number for number in range(40)]
            assert first.status is PullStatus.FOUND and second.next_offset == second.max_offset == 40
            message = first.messages[3]
            assert message.queue == Q and message.queue_offset == 3 and message.tags == "B"
            assert message.properties["MIN_OFFSET"] == "0" and message.properties["MAX_OFFSET"] == "40"
            assert (await consumer.pull(Q, 40)).status is PullStatus.NO_NEW_MSG
            assert (await consumer.pull(Q, 99)).status is PullStatus.OFFSET_ILLEGAL

    run(test)


def test_tags_travel_inline_and_are_compared_as_text() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            await fill(peers, 4)
            # The scripted broker filters nothing, as if all hashes collided.
            result = await consumer.pull(Q, 0, tags="A || C")
            assert [message.body for message in result.messages] == [b"0", b"2"]
            assert result.next_offset == 4
            header = next(c for c in peers.broker.requests if c.code == RequestCode.PULL_MESSAGE).header(PullMessage)
            assert (
                header.sys_flag == 4 and header.subscription == "A || C" and header.consumer_group == "TOOLS_CONSUMER"
            )

    run(test)


def test_raw_records_are_what_the_broker_sent() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            await fill(peers, 3)
            raw = await consumer.pull_raw(Q, 1, 32768, 4 * 1024 * 1024)
            assert [record.body for record in scan(raw.data)] == [b"1", b"2"]
            assert (raw.status, raw.next_offset, raw.min_offset, raw.max_offset) == (PullStatus.FOUND, 3, 0, 3)
            header = next(c for c in peers.broker.requests if c.code == RequestCode.PULL_MESSAGE).header(PullMessage)
            assert (header.max_msg_nums, header.max_msg_bytes) == (32768, 4 * 1024 * 1024)

    run(test)


def test_offsets_are_asked_and_stored() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer("cg", name_servers=peers.address) as consumer:
            await fill(peers, 3)
            assert await consumer.min_offset(Q) == 0
            assert await consumer.max_offset(Q) == 3
            assert await consumer.offset_by_time(Q, 12345) == 7
            assert await consumer.committed(Q) is None
            await consumer.commit(Q, 2)
            assert await consumer.committed(Q) == 2

    run(test)


def test_many_queues_are_asked_at_the_same_time() -> None:
    """The first question is answered when the second one is there; who asks for one after the other waits for ever."""

    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            await fill(peers, 3)
            ordinary, waiting = peers.broker.max_offset, list[tuple[Session, Command]]()

            def later(session: Session, command: Command) -> None:
                waiting.append((session, command))

            def both(session: Session, command: Command) -> bytes:
                ((first_session, first),) = waiting
                first_session.send(ordinary(first_session, first))
                return ordinary(session, command)

            queues = await consumer.queues("T")
            peers.broker.next(RequestCode.GET_MAX_OFFSET, later, both)
            assert await consumer.max_offsets([*queues, Q]) == {queue: 3 if queue == Q else 0 for queue in queues}
            assert peers.broker.codes().count(RequestCode.GET_MAX_OFFSET) == len(queues)
            assert await consumer.min_offsets(iter(queues)) == dict.fromkeys(queues, 0)
            assert await consumer.max_offsets([]) == {}
            peers.broker.next(RequestCode.GET_MIN_OFFSET, lambda s, c: encode_response(c, 16, remark="not readable"))
            with pytest.raises(RequestRejected, match="not readable"):
                await consumer.min_offsets(queues)
            assert (
                len(await consumer.min_offsets(MessageQueue("T", "broker-a", number) for number in range(200))) == 200
            )

    run(test)


def test_committed_offsets_need_a_group() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            with pytest.raises(ConfigError, match="group"):
                await consumer.committed(Q)

    run(test)


def test_refusals_are_raised_and_not_repeated() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            peers.broker.next(RequestCode.PULL_MESSAGE, lambda s, c: encode_response(c, 16, remark="not readable"))
            with pytest.raises(RequestRejected, match="not readable"):
                await consumer.pull(Q, 0)
            with pytest.raises(RouteNotFound):
                await consumer.queues("absent")

    run(test)


def test_a_restart_of_the_broker_is_survived() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address) as consumer:
            await fill(peers, 2)
            assert await consumer.max_offset(Q) == 2
            old = peers.brokers[0]
            await old.server.close()
            asking = asyncio.create_task(consumer.pull(Q, 0))
            await asyncio.sleep(0)
            new = ScriptedBroker("broker-a")
            new.queues = old.queues
            new.address = await new.server.start("127.0.0.1", 0)
            peers.brokers[0] = new
            assert len((await asking).messages) == 2

    run(test)


def test_without_reconnect_the_first_failure_is_raised() -> None:
    async def test() -> None:
        async with cluster() as peers, PullConsumer(name_servers=peers.address, reconnect=False) as consumer:
            await consumer.max_offset(Q)
            await peers.brokers[0].server.close()
            with pytest.raises(Unreachable):
                while True:
                    await consumer.max_offset(Q)

    run(test)


def test_calls_outside_of_the_life_of_a_consumer() -> None:
    async def test() -> None:
        consumer = PullConsumer(name_servers="127.0.0.1:1")
        with pytest.raises(Closed, match="not started"):
            await consumer.queues("T")
        async with consumer:
            with pytest.raises(Unreachable, match="gantry server"):
                await consumer.queues("T")
        with pytest.raises(Closed, match="create a new one"):
            await consumer.queues("T")

    run(test)
