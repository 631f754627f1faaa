"""Pulls over real sockets: reading, filters, long polling, refusals."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumerData, MessageModel, SubscriptionData
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType
from gantrymq.protocol.headers.pull import PullMessageAnswer
from gantrymq.protocol.stored_message import scan
from tests.support.brokers import COMMIT, INLINE_SUBSCRIPTION, SUSPEND, Cluster, on_broker, until

FOREVER_MS = 20_000


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in scan(answer.body)]


def place(answer: Command) -> tuple[int, int, int]:
    """(next, min, max)"""
    header = answer.header(PullMessageAnswer)
    assert header.suggest_which_broker_id == 0
    return header.next_begin_offset, header.min_offset, header.max_offset


@pytest.mark.parametrize("serialize", list(SerializeType))
def test_messages_come_in_order_with_all_four_offsets(tmp_path: Path, serialize: SerializeType) -> None:
    async def work(c: Cluster) -> None:
        for number in range(5):
            await c.sent("T", b"%d" % number)
        answer = await c.pull("T", offset=1)
        assert (answer.code, answer.remark, answer.serialize) == (ResponseCode.SUCCESS, "FOUND", serialize)
        assert bodies(answer) == [b"1", b"2", b"3", b"4"]
        assert place(answer) == (5, 0, 5)

    on_broker(work, tmp_path, serialize=serialize)


@pytest.mark.parametrize(
    ("offset", "code", "then"),
    [
        (2, ResponseCode.PULL_NOT_FOUND, (2, 0, 2)),
        (3, ResponseCode.PULL_OFFSET_MOVED, (2, 0, 2)),
        (-1, ResponseCode.PULL_OFFSET_MOVED, (0, 0, 2)),
    ],
)
def test_offsets_without_a_message(tmp_path: Path, offset: int, code: ResponseCode, then: tuple[int, int, int]) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"a")
        await c.sent("T", b"b")
        answer = await c.pull("T", offset=offset)
        assert (answer.code, place(answer)) == (code, then)

    on_broker(work, tmp_path)


def test_an_empty_queue(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        zero = await c.pull("T", offset=0)
        assert (zero.code, place(zero)) == (ResponseCode.PULL_NOT_FOUND, (0, 0, 0))
        five = await c.pull("T", offset=5)
        assert (five.code, place(five)) == (ResponseCode.PULL_OFFSET_MOVED, (0, 0, 0))

    on_broker(work, tmp_path)


def test_counts_and_bytes_are_limited_by_the_client_and_by_us(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for _ in range(20):
            await c.sent("T", bytes(60_000))
        assert len(bodies(await c.pull("T", max_msg_nums=3))) == 3
        assert len(bodies(await c.pull("T", max_msg_nums=0))) == 1
        assert len(bodies(await c.pull("T"))) == 4, "256 KiB unless more is asked for"
        assert len(bodies(await c.pull("T", max_msg_bytes=1_000_000))) == 16
        assert len(bodies(await c.pull("T", max_msg_bytes=1))) == 1, "never none"
        assert len(bodies(await c.pull("T", max_msg_bytes=2**31 - 1, max_msg_nums=10))) == 10

    on_broker(work, tmp_path)


def test_large_pulls_are_honoured(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await asyncio.gather(*(c.sent("T", b"x") for _ in range(3000)))
        answer = await c.pull("T", max_msg_nums=32_768, max_msg_bytes=4 << 20)
        assert len(bodies(answer)) == 3000

    on_broker(work, tmp_path, flush_disk_type="ASYNC_FLUSH")


@pytest.mark.parametrize("serialize", list(SerializeType))
def test_a_large_answer_is_whole_and_others_go_on_around_it(tmp_path: Path, serialize: SerializeType) -> None:
    """Its records are sent behind its header without being copied into one frame with it."""

    async def work(c: Cluster) -> None:
        for topic in ("T", "U", "V"):
            await c.create_topic(topic, queues=1)
        large = [b"%d" % number * 50_000 for number in range(8)]
        for body in large:
            await c.sent("T", body)
        held = asyncio.ensure_future(
            c.pull("U", sys_flag=SUSPEND | INLINE_SUBSCRIPTION, suspend_timeout_millis=FOREVER_MS)
        )
        pulls = [c.pull("T", max_msg_bytes=1 << 20) for _ in range(4)]
        small = [c.pull("T", offset=8), c.sent("V", b"small")]
        answers = await asyncio.gather(*pulls, *small)
        for answer in answers[:4]:
            assert isinstance(answer, Command)
            assert (answer.code, answer.serialize, bodies(answer)) == (ResponseCode.SUCCESS, serialize, large)
            assert place(answer) == (8, 0, 8)
        await c.sent("U", b"x" * 100_000)
        assert bodies(await held) == [b"x" * 100_000]

    on_broker(work, tmp_path, serialize=serialize)


def test_an_inline_tag_filter(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for tag in ("A", "B", "C", "A"):
            await c.sent("T", tag.encode(), f"TAGS\x01{tag}\x02")
        answer = await c.pull("T", subscription="A || C")
        assert (bodies(answer), place(answer)) == ([b"A", b"C", b"A"], (4, 0, 4))
        none = await c.pull("T", subscription="Z")
        assert (none.code, none.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert place(none) == (4, 0, 4)

    on_broker(work, tmp_path)


async def subscribe(c: Cluster, expression: str = "*", version: int = 1, **fields: object) -> None:
    data = ConsumerData(
        group_name="CG", subscription_data_set=[SubscriptionData.of_tags("T", expression, version)], **fields
    )  # type: ignore[arg-type]
    body = HeartbeatData(client_id="client-1", consumer_data_set=[data]).encode()
    assert (await c.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS


def test_the_subscription_of_the_group_filters_whoever_pulls(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"a", "TAGS\x01A\x02")
        await c.sent("T", b"b", "TAGS\x01B\x02")
        nobody = await c.pull("T", sys_flag=0)
        assert nobody.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await subscribe(c, "B", version=10)
        assert bodies(await c.pull("T", sys_flag=0, sub_version=10)) == [b"b"]
        older = await c.pull("T", sys_flag=0, sub_version=11)
        assert older.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await c.create_topic("Other")
        other = await c.pull("Other", sys_flag=0)
        assert other.code == ResponseCode.SUBSCRIPTION_NOT_EXIST

    on_broker(work, tmp_path)


def test_refusals(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert (await c.pull("Nowhere")).code == ResponseCode.TOPIC_NOT_EXIST
        await c.create_topic("T")
        assert (await c.pull("T", queue_id=4)).code == ResponseCode.INVALID_PARAMETER
        assert (await c.pull("T", queue_id=-1)).code == ResponseCode.INVALID_PARAMETER
        sql = await c.pull("T", expression_type="SQL92", subscription="a > 1")
        assert (sql.code, "enablePropertyFilter" in (sql.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        await c.create_topic("WriteOnly", perm=2)
        assert (await c.pull("WriteOnly")).code == ResponseCode.NO_PERMISSION
        bad_group = await c.pull("T", consumer_group="not a group!")
        assert bad_group.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    on_broker(work, tmp_path)


@pytest.mark.parametrize("topic", sorted(system_topics.TRANSACTION_TOPICS))
def test_undecided_messages_are_for_the_owners_tools_only(tmp_path: Path, topic: str) -> None:
    """X5: they may never be delivered."""

    async def work(c: Cluster) -> None:
        if topic == system_topics.PARKED:
            c.broker.topics.ensure(topic, 1)
        refused = await c.pull(topic)
        assert refused.code == ResponseCode.NO_PERMISSION
        assert "undecided" in (refused.remark or "")
        for group in (system_topics.TOOLS_CONSUMER, system_topics.TRANSACTION_GROUP):
            assert (await c.pull(topic, consumer_group=group)).code == ResponseCode.PULL_NOT_FOUND

    on_broker(work, tmp_path)


def test_a_broadcasting_group_can_be_forbidden(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        group = c.broker.groups.find("CG")
        assert group is not None
        import msgspec

        c.broker.groups.update(msgspec.structs.replace(group, consume_broadcast_enable=False))
        await c.create_topic("T")
        await subscribe(c, message_model=MessageModel.BROADCASTING)
        assert (await c.pull("T", sys_flag=0)).code == ResponseCode.NO_PERMISSION
        c.broker.groups.update(msgspec.structs.replace(group, consume_enable=False))
        assert (await c.pull("T", sys_flag=0)).code == ResponseCode.NO_PERMISSION

    on_broker(work, tmp_path)


HOLD = SUSPEND | INLINE_SUBSCRIPTION


def test_a_pull_is_held_until_a_message_comes(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        waiting = asyncio.ensure_future(c.pull("T", sys_flag=HOLD, suspend_timeout_millis=FOREVER_MS))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await c.sent("T", b"other queue", queue_id=1)
        assert not waiting.done()
        await c.sent("T", b"news")
        answer = await waiting
        assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"news"])
        assert len(c.broker.held_pulls) == 0

    on_broker(work, tmp_path)


def test_a_held_pull_waits_for_a_tag_that_it_wants(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        waiting = asyncio.ensure_future(c.pull("T", sys_flag=HOLD, suspend_timeout_millis=FOREVER_MS, subscription="B"))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await c.sent("T", b"a", "TAGS\x01A\x02")
        assert len(c.broker.held_pulls) == 1
        await c.sent("T", b"b", "TAGS\x01B\x02")
        assert bodies(await waiting) == [b"b"]

    on_broker(work, tmp_path)


def test_a_held_pull_ends_when_its_time_is_over(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        started = time.monotonic()
        answer = await c.pull("T", sys_flag=HOLD, suspend_timeout_millis=300)
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert place(answer) == (0, 0, 0)
        assert time.monotonic() - started >= 0.3

    on_broker(work, tmp_path)


def test_nobody_is_remembered_who_hung_up(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        waiting = asyncio.ensure_future(c.pull("T", sys_flag=HOLD, suspend_timeout_millis=FOREVER_MS))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await c.client.close()
        await until(lambda: len(c.broker.held_pulls) == 0)
        await asyncio.gather(waiting, return_exceptions=True)

    on_broker(work, tmp_path)


def test_a_pull_can_carry_the_groups_offset(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.sent("T", b"x")
        await c.pull("T", commit_offset=1, sys_flag=INLINE_SUBSCRIPTION | COMMIT)
        assert c.broker.offsets.get("CG", "T", 0) == 1
        await c.pull("T", commit_offset=9, sys_flag=INLINE_SUBSCRIPTION)
        assert c.broker.offsets.get("CG", "T", 0) == 1

    on_broker(work, tmp_path)


def test_lite_pulls_are_pulls(tmp_path: Path) -> None:
    from tests.support.brokers import pull_header

    async def work(c: Cluster) -> None:
        await c.sent("T", b"x")
        answer = await c.ask(RequestCode.LITE_PULL_MESSAGE, pull_header("T", sys_flag=16 | INLINE_SUBSCRIPTION))
        assert bodies(answer) == [b"x"]

    on_broker(work, tmp_path)
