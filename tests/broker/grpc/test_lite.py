"""Lite topics through the gRPC door of a real broker. Official clients are in ``tests/interop``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.pop.lite.pops import SILENT_SECONDS
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import ClientType, Code, LiteSubscriptionAction, Message, MessageType, OffsetOption
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from tests.broker.grpc.test_door import story
from tests.support.brokers import Cluster
from tests.support.grpc_client import GrpcClient, consumer, message, resource

ADD, REMOVE = LiteSubscriptionAction.PARTIAL_ADD, LiteSubscriptionAction.PARTIAL_REMOVE
EXACTLY, LEAVE = LiteSubscriptionAction.COMPLETE_ADD, LiteSubscriptionAction.COMPLETE_REMOVE
PARENT = "baskets"


def to(lite_topic: str, body: str) -> Message:
    return message(PARENT, body.encode(), message_type=MessageType.LITE, lite_topic=lite_topic)


async def prepare(running: Cluster, group: str = "group", **attributes: str) -> None:
    await running.create_topic(PARENT, attributes="+message.type=LITE")
    signed = {"+lite.bind.topic": PARENT, **{f"+{name.replace('_', '.')}": value for name, value in attributes.items()}}
    body = Group(group_name=group, attributes=signed).encode()
    answer = await running.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def got(client: GrpcClient, **fields: Any) -> list[str]:
    _, received = await client.receive(PARENT, **fields)
    return [one.body.decode() for one in received]


def test_a_consumer_gets_the_lite_topics_that_it_subscribed_to(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        sent = await client.send(to("a", "a1"), to("b", "b1"), to("a", "a2"))
        assert sent.status.code == Code.OK, sent
        assert (await client.sync_lite(ADD, PARENT, "a")).code == Code.OK
        status, received = await client.receive(PARENT)
        assert status.code == Code.OK
        assert [one.body for one in received] == [b"a1", b"a2"]
        system = [one.system_properties for one in received]
        assert [(one.lite_topic, one.message_type) for one in system] == [("a", MessageType.LITE)] * 2
        assert {one.topic.name for one in received} == {PARENT}
        assert [dict(one.user_properties) for one in received] == [{}, {}]
        answer = await client.ack(PARENT, *received)
        assert [entry.status.code for entry in answer.entries] == [Code.OK, Code.OK]
        assert await got(client) == []
        assert (await client.sync_lite(EXACTLY, PARENT, "b")).code == Code.OK
        assert await got(client) == ["b1"]

    story(work, tmp_path)


def test_a_waiting_consumer_gets_a_message_at_once(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        assert (await client.sync_lite(EXACTLY, PARENT, "a", "b")).code == Code.OK
        async with client.telemetry(consumer("group", PARENT)):
            waiting = asyncio.create_task(got(client, seconds=20))
            await asyncio.sleep(0.2)
            await client.send(to("c", "c1"), to("b", "b1"))
            assert await waiting == ["b1"]

    story(work, tmp_path)


def test_a_lite_topic_is_blocked_while_one_of_its_messages_is_in_flight(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await client.sync_lite(EXACTLY, PARENT, "a", "b")
        await client.send(to("a", "a1"), to("a", "a2"), to("b", "b1"))
        _, first = await client.receive(PARENT, count=1)
        rest = await got(client)
        assert [first[0].body.decode(), *rest] in (["a1", "b1"], ["b1", "a1", "a2"])
        if first[0].body == b"a1":
            await client.ack(PARENT, first[0])
            assert await got(client) == ["a2"]

    story(work, tmp_path)


def test_a_message_that_is_not_acknowledged_comes_again_before_its_successors(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await client.sync_lite(EXACTLY, PARENT, "a")
        await client.send(to("a", "a1"), to("a", "a2"))
        await client.receive(PARENT, count=1, invisible=0.5)
        _, again = await client.receive(PARENT, seconds=5)
        assert [one.body for one in again] == [b"a1", b"a2"]
        assert [one.system_properties.delivery_attempt for one in again] == [2, 1]
        change = service.ChangeInvisibleDurationRequest(
            group=resource("group"), topic=resource(PARENT), lite_topic="a",
            receipt_handle=again[1].system_properties.receipt_handle,
        )  # fmt: skip
        change.invisible_duration.nanos = 300_000_000
        answer = await client.call("ChangeInvisibleDuration", change, service.ChangeInvisibleDurationResponse)
        assert answer.status.code == Code.OK
        await client.ack(PARENT, again[0])
        assert await got(client, seconds=5) == ["a2"]

    story(work, tmp_path)


def test_what_was_not_acknowledged_comes_after_a_restart_and_what_was_does_not(tmp_path: Path) -> None:
    async def before(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await client.sync_lite(EXACTLY, PARENT, "a", "b")
        await client.send(to("a", "a1"), to("a", "a2"), to("b", "b1"))
        _, (first,) = await client.receive(PARENT, count=1)
        await client.ack(PARENT, first)
        consumed.append(first.body.decode())

    async def after(running: Cluster, client: GrpcClient) -> None:
        await client.sync_lite(EXACTLY, PARENT, "a", "b")
        await client.send(to("a", "a3"))
        assert sorted([*consumed, *await got(client, seconds=5)]) == ["a1", "a2", "a3", "b1"]

    consumed: list[str] = []
    story(before, tmp_path)
    story(after, tmp_path)


def test_members_of_a_group_share_a_lite_topic_and_an_exclusive_group_gives_it_to_the_last_one(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await prepare(running, "alone", lite_sub_model="Exclusive")
        other = GrpcClient(client.channel, "client-2")
        for group, expected in (("group", ["1"]), ("alone", [])):
            for one in (client, other):
                assert (await one.sync_lite(EXACTLY, PARENT, "a", group=group)).code == Code.OK
            if group == "group":
                await client.send(to("a", "1"))
            assert await got(client, group=group) == expected
        assert await got(other, group="alone") == ["1"]

    story(work, tmp_path)


def test_a_client_is_told_that_another_one_has_its_lite_topic(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running, lite_sub_model="Exclusive")
        settings = consumer("group", PARENT)
        settings.client_type = ClientType.LITE_PUSH_CONSUMER
        async with client.telemetry(settings) as answer:
            assert answer.settings.subscription.lite_subscription_quota == 2000
            assert answer.settings.subscription.max_lite_topic_size == 64
            await client.sync_lite(ADD, PARENT, "a", "b")
            await GrpcClient(client.channel, "client-2").sync_lite(ADD, PARENT, "b")
            command = await client.commands.get()
            assert command.notify_unsubscribe_lite_command.lite_topic == "b"

    story(work, tmp_path)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (OffsetOption(policy=OffsetOption.Policy.MIN), ["a1", "a2", "a3"]),
        (OffsetOption(policy=OffsetOption.Policy.MAX), []),
        (OffsetOption(offset=1), ["a2", "a3"]),
        (OffsetOption(tail_n=1), ["a3"]),
        (OffsetOption(timestamp=0), ["a1", "a2", "a3"]),
        (OffsetOption(timestamp=1 << 50), []),
    ],
    ids=str,
)
def test_a_subscription_says_where_it_begins(option: OffsetOption, expected: list[str], tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await client.send(to("a", "a1"), to("a", "a2"), to("a", "a3"))
        assert (await client.sync_lite(ADD, PARENT, "a", offset_option=option)).code == Code.OK
        assert await got(client) == expected
        await client.send(to("a", "a4"))
        if not expected:
            assert await got(client, seconds=5) == ["a4"]

    story(work, tmp_path)


def test_a_forwarded_message_is_a_dead_letter_and_the_next_one_follows(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await client.sync_lite(EXACTLY, PARENT, "a")
        await client.send(to("a", "a1"), to("a", "a2"))
        _, (first,) = await client.receive(PARENT, count=1)
        request = service.ForwardMessageToDeadLetterQueueRequest(
            group=resource("group"), topic=resource(PARENT), lite_topic="a",
            message_id=first.system_properties.message_id, receipt_handle=first.system_properties.receipt_handle,
        )  # fmt: skip
        for _ in range(2):
            answer = await client.call(
                "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
            )
            assert answer.status.code == Code.OK, answer.status
        assert await got(client, seconds=5) == ["a2"]
        assert running.broker.store.queue_range("%DLQ%group", 0) == (0, 1)
        assert running.broker.store.queue_range(f"%LMQ%${PARENT}$a", 0) == (0, 2)

    story(work, tmp_path)


def test_what_breaks_a_rule_is_refused_with_the_code_that_says_which(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running, lite_sub_client_quota="2")
        await running.create_topic("plain", attributes="+message.type=NORMAL")

        async def refusal(made: Message) -> int:
            return (await client.send(made)).status.code

        lite = {"message_type": MessageType.LITE}
        assert await refusal(message(PARENT, **lite)) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert await refusal(message(PARENT, lite_topic="a")) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert await refusal(message(PARENT)) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert await refusal(message("plain", lite_topic="a", **lite)) == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert await refusal(message("orders", lite_topic="a", **lite)) == Code.BAD_REQUEST
        for name in ("", " ", "a/b", "../a", "a$b", "a,b", "x" * 65):
            assert await refusal(message(PARENT, lite_topic=name, **lite)) == Code.ILLEGAL_LITE_TOPIC
        sync = client.sync_lite
        assert (await sync(ADD, PARENT, "a/b")).code == Code.ILLEGAL_LITE_TOPIC
        assert (await sync(ADD, "orders", "a")).code == Code.BAD_REQUEST
        assert (await sync(ADD, "unknown", "a")).code == Code.TOPIC_NOT_FOUND
        assert (await sync(ADD, PARENT, "a", group="unbound")).code == Code.BAD_REQUEST
        assert (await sync(ADD, PARENT, "a", "b")).code == Code.OK
        assert (await sync(ADD, PARENT, "c")).code == Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
        assert (await sync(EXACTLY, PARENT, "c", "d")).code == Code.OK
        assert (await sync(REMOVE, PARENT, "c")).code == Code.OK
        assert (await sync(LEAVE, PARENT)).code == Code.OK
        status, _ = await client.receive(PARENT, group="unbound")
        assert status.code == Code.BAD_REQUEST

    story(work, tmp_path)


def test_a_consumer_goes_on_behind_a_restart_before_it_repeats_its_subscriptions(tmp_path: Path) -> None:
    async def before(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        await client.sync_lite(EXACTLY, PARENT, "a", "b")
        await client.sync_lite(REMOVE, PARENT, "b")
        await client.send(to("a", "a1"), to("b", "b1"))

    async def after(running: Cluster, client: GrpcClient) -> None:
        _, (received,) = await client.receive(PARENT)
        assert received.body == b"a1"
        await client.ack(PARENT, received)
        await client.send(to("a", "a2"))
        assert await got(client, seconds=5) == ["a2"]

    async def with_damage(running: Cluster, client: GrpcClient) -> None:
        assert await got(client) == []
        await client.sync_lite(EXACTLY, PARENT, "b")
        assert await got(client) == ["b1"]

    story(before, tmp_path)
    story(after, tmp_path)
    (tmp_path / "gantry" / "lite_subscriptions").write_text("{")
    story(with_damage, tmp_path)


def test_a_reader_that_is_silent_is_forgotten(tmp_path: Path) -> None:
    async def work(running: Cluster, client: GrpcClient) -> None:
        await prepare(running)
        lite = running.broker.popping.lite
        await client.sync_lite(EXACTLY, PARENT, "a")
        lite.expire()
        assert len(lite.subscriptions) == 1
        for reader in lite._heard:
            lite._heard[reader] -= SILENT_SECONDS
        lite.expire()
        assert len(lite.subscriptions) == 0

    story(work, tmp_path)
