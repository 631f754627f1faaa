"""Lite topics by frames, as proxies and clients of remoting ask for them. More rules: ``tests/broker/grpc``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.message.receipt_handle import ORDERLY, ReceiptHandle
from gantrymq.protocol.bodies.lite import LiteAction, LiteSubscriptionItem, LiteSubscriptions, OffsetOption
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.headers.lite import NotifyUnsubscribeLite, PopLiteMessage, PopLiteMessageAnswer
from gantrymq.protocol.headers.pop import AckMessage, ChangeInvisibleTime
from gantrymq.protocol.stored_message import scan
from tests.support.brokers import Cluster, new_client, on_broker

PARENT, GROUP = "Baskets", "readers"
FINE = ResponseCode.SUCCESS


async def prepare(c: Cluster, **attributes: str) -> None:
    await c.create_topic(PARENT, attributes="+message.type=LITE")
    signed = {"+lite.bind.topic": PARENT, **{f"+{name.replace('_', '.')}": value for name, value in attributes.items()}}
    body = Group(group_name=GROUP, attributes=signed).encode()
    assert (await c.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)).code == FINE


def subscription(action: LiteAction, *lite_topics: str, client: str = "c1", **fields: object) -> bytes:
    item = LiteSubscriptionItem(
        action=action, client_id=client, group=GROUP, topic=PARENT, lite_topic_set=list(lite_topics),
        **fields,  # type: ignore[arg-type]
    )  # fmt: skip
    return LiteSubscriptions(subscription_set=[item]).encode()


async def subscribe(c: Cluster, action: LiteAction, *lite_topics: str, **fields: object) -> Command:
    return await c.ask(RequestCode.LITE_SUBSCRIPTION_CTL, None, subscription(action, *lite_topics, **fields))  # type: ignore[arg-type]


async def send(c: Cluster, lite_topic: str, *bodies: str) -> None:
    for body in bodies:
        await c.sent(PARENT, body.encode(), f"__LITE_TOPIC\x01{lite_topic}\x02")


async def pop(c: Cluster, client: str = "c1", poll_ms: int = 0, count: int = 32) -> Command:
    header = PopLiteMessage(
        client_id=client, consumer_group=GROUP, topic=PARENT, max_msg_num=count, invisible_time=60_000,
        poll_time=poll_ms, born_time=0,
    )  # fmt: skip
    return await c.ask(RequestCode.POP_LITE_MESSAGE, header)


def bodies(answer: Command) -> list[str]:
    return [message.body.decode() for message in scan(answer.body)]


def test_a_subscribed_lite_topic_is_popped_acknowledged_and_given_back(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await prepare(c)
        await send(c, "a", "a1", "a2")
        await send(c, "b", "b1")
        assert (await subscribe(c, LiteAction.PARTIAL_ADD, "a")).code == FINE
        answer = await pop(c)
        header = answer.header(PopLiteMessageAnswer)
        assert (bodies(answer), header.revive_qid, header.order_count_info) == (["a1", "a2"], ORDERLY, "0;0")
        places = [(message.topic, message.queue_id, message.queue_offset) for message in scan(answer.body)]
        assert places == [(PARENT, 0, 0), (PARENT, 0, 1)]
        handles = [
            ReceiptHandle(0, header.pop_time, 60_000, ORDERLY, "0", "broker-a", 0, number) for number in range(2)
        ]
        named = {"consumer_group": GROUP, "topic": PARENT, "queue_id": 0, "lite_topic": "a"}
        change = ChangeInvisibleTime(**named, extra_info=str(handles[1]), offset=1, invisible_time=0)
        assert (await c.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change)).code == FINE
        ack = AckMessage(**named, extra_info=str(handles[0]), offset=0)
        assert (await c.ask(RequestCode.ACK_MESSAGE, ack)).code == FINE
        again = await pop(c, poll_ms=5_000)
        assert (bodies(again), again.header(PopLiteMessageAnswer).order_count_info) == (["a2"], "1")
        await subscribe(c, LiteAction.COMPLETE_REMOVE)
        assert (await pop(c)).code == ResponseCode.POLLING_TIMEOUT

    on_broker(work, tmp_path)


def test_a_held_pop_is_answered_by_the_message_that_comes(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await prepare(c)
        await subscribe(c, LiteAction.COMPLETE_ADD, "a")
        waiting = asyncio.create_task(pop(c, poll_ms=20_000))
        await asyncio.sleep(0.1)
        await send(c, "b", "b1")
        await send(c, "a", "a1")
        assert bodies(await waiting) == ["a1"]

    on_broker(work, tmp_path)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (OffsetOption(type="POLICY", value=1), ["1", "2", "3"]),
        (OffsetOption(type="POLICY", value=2), []),
        (OffsetOption(type="OFFSET", value=2), ["3"]),
        (OffsetOption(type="TAIL_N", value=2), ["2", "3"]),
        (OffsetOption(type="TIMESTAMP", value=0), ["1", "2", "3"]),
    ],
)
def test_a_subscription_says_where_it_begins(option: OffsetOption, expected: list[str], tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await prepare(c)
        await send(c, "a", "1", "2", "3")
        assert (await subscribe(c, LiteAction.PARTIAL_ADD, "a", offset_option=option)).code == FINE
        assert bodies(await pop(c)) == expected

    on_broker(work, tmp_path)


def test_a_client_is_told_that_another_one_of_an_exclusive_group_has_its_lite_topic(tmp_path: Path) -> None:
    told: asyncio.Queue[NotifyUnsubscribeLite] = asyncio.Queue()

    def heard(client: object, command: Command) -> None:
        told.put_nowait(command.header(NotifyUnsubscribeLite))

    async def work(c: Cluster) -> None:
        await prepare(c, lite_sub_model="Exclusive")
        first = new_client(heard)  # type: ignore[arg-type]
        body = subscription(LiteAction.PARTIAL_ADD, "a", "b")
        await first.call(c.broker.address, RequestCode.LITE_SUBSCRIPTION_CTL, None, body, timeout_ms=10_000)
        await subscribe(c, LiteAction.PARTIAL_ADD, "b", client="c2")
        assert await told.get() == NotifyUnsubscribeLite(lite_topic="b", consumer_group=GROUP, client_id="c1")
        await send(c, "b", "b1")
        assert (await pop(c, "c1")).code == ResponseCode.POLLING_TIMEOUT
        assert bodies(await pop(c, "c2")) == ["b1"]
        await first.close()

    on_broker(work, tmp_path)


def test_what_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await prepare(c, lite_sub_client_quota="1")
        empty = await c.ask(RequestCode.LITE_SUBSCRIPTION_CTL, None, LiteSubscriptions().encode())
        assert empty.code == ResponseCode.ILLEGAL_OPERATION
        assert (await c.ask(RequestCode.LITE_SUBSCRIPTION_CTL)).code == ResponseCode.ILLEGAL_OPERATION
        answer = await subscribe(c, LiteAction.PARTIAL_ADD, "a/b")
        assert (answer.code, "lite_topic must have" in (answer.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)
        answer = await subscribe(c, LiteAction.PARTIAL_ADD, "a", "b")
        assert answer.code == ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
        batch = PopLiteMessage(
            client_id="c1",
            consumer_group="unbound",
            topic=PARENT,
            max_msg_num=1,
            invisible_time=0,
            poll_time=0,
            born_time=0,
        )
        answer = await c.ask(RequestCode.POP_LITE_MESSAGE, batch)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert (answer.remark or "").startswith("subscription bind topic not match, unbound")
        assert (await pop(c, count=33)).code == ResponseCode.INVALID_PARAMETER

    on_broker(work, tmp_path)
