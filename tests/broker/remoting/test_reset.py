"""A group is set back or forth, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.progress import OffsetsByQueue
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pull import PullMessageAnswer
from gantrymq.protocol.headers.tools import ResetOffset
from tests.support.brokers import INLINE_SUBSCRIPTION as INLINE
from tests.support.brokers import SUSPEND, Cluster, on_broker, until
from tests.support.consumers import Consumer

QUEUE = MessageQueue("T", "broker-a", 0)


def reset(timestamp: int, *, force: bool = True, queue_id: int | None = None, offset: int | None = None) -> ResetOffset:
    return ResetOffset(topic="T", group="CG", timestamp=timestamp, is_force=force, queue_id=queue_id, offset=offset)


async def consumed(c: Cluster) -> Consumer:
    await c.create_topic("T", 1)
    for _ in range(3):
        await c.sent("T")
    consumer = Consumer(c, "one")
    await consumer.beat("T")
    await consumer.commit("T", 0, 3)
    return consumer


def test_the_next_pull_of_the_group_learns_of_it(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = await consumed(c)
        held = asyncio.create_task(consumer.pull("T", 0, 3, sys_flag=SUSPEND | INLINE, suspend_timeout_millis=20_000))
        await until(lambda: len(c.broker.held_pulls) == 1)
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(0))
        assert OffsetsByQueue.decode(answer.body).by_queue() == {QUEUE: 0}
        assert (await held).code == ResponseCode.PULL_NOT_FOUND, "who waits is answered, so that it asks again"
        ignored = await consumer.commit("T", 0, 3)
        assert (ignored.code, c.broker.offsets.get("CG", "T", 0)) == (ResponseCode.SUCCESS, 0)
        moved = await consumer.pull("T", 0, 3)
        assert (moved.code, moved.header(PullMessageAnswer).next_begin_offset) == (ResponseCode.PULL_OFFSET_MOVED, 0)
        assert (await consumer.pull("T", 0, 0)).code == ResponseCode.SUCCESS
        await consumer.commit("T", 0, 1)
        assert c.broker.offsets.get("CG", "T", 0) == 1
        await consumer.close()

    on_broker(work, tmp_path)


def test_one_queue_to_one_offset(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = await consumed(c)
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(-1, queue_id=0, offset=2))
        assert OffsetsByQueue.decode(answer.body).by_queue() == {QUEUE: 2}
        beyond = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(-1, queue_id=0, offset=9))
        assert beyond.code == ResponseCode.SYSTEM_ERROR
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(-1))
        assert OffsetsByQueue.decode(answer.body).by_queue() == {QUEUE: 3}, "-1 is the end"
        await consumer.close()

    on_broker(work, tmp_path)


def test_members_are_told_when_the_broker_shall_not_do_it(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        consumer = await consumed(c)
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(-1, force=False))
        assert OffsetsByQueue.decode(answer.body).by_queue() == {QUEUE: 3}
        await until(lambda: len(consumer.heard(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)) == 1)
        reported = consumer.heard(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)[0]
        assert (
            reported.is_one_way
            and reported.body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:3}}'
        )
        assert c.broker.offsets.get("CG", "T", 0) == 3, "the members commit it themselves"
        await consumer.close()
        await until(lambda: c.broker.consumers.get("CG") is None)
        offline = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(0))
        assert offline.code == ResponseCode.CONSUMER_NOT_ONLINE

    on_broker(work, tmp_path, use_server_side_reset_offset=False)


def test_unknown_topics_and_groups(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(0))
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        await c.create_topic("T", 1)
        answer = await c.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(0))
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    on_broker(work, tmp_path)
