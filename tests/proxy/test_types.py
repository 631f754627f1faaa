"""Messages with a priority, and to lite topics, through a proxy before two brokers. Official clients: tests/interop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import ClientType, Code, LiteSubscriptionAction, Message, MessageType, OffsetOption
from gantrymq.message.receipt_handle import parse
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.groups import Group
from tests.proxy.test_proxy import Before, story
from tests.support.brokers import until
from tests.support.grpc_client import GrpcClient, consumer, message, resource

ADD, REMOVE = LiteSubscriptionAction.PARTIAL_ADD, LiteSubscriptionAction.PARTIAL_REMOVE
EXACTLY, LEAVE = LiteSubscriptionAction.COMPLETE_ADD, LiteSubscriptionAction.COMPLETE_REMOVE
PARENT, GROUP = "baskets", "group"
NAMES = [f"basket-{number}" for number in range(8)]


async def prepare(before: Before, client: GrpcClient, **attributes: str) -> None:
    signed = {"+lite.bind.topic": PARENT, **{f"+{name.replace('_', '.')}": value for name, value in attributes.items()}}
    body = Group(group_name=GROUP, attributes=signed).encode()
    for broker in before.brokers:
        await broker.create_topic(PARENT, queues=2, attributes="+message.type=LITE")
        answer = await broker.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
    await until_on_both(client, PARENT)


async def until_on_both(client: GrpcClient, topic: str) -> None:
    """Clients are told that the topic is on both brokers."""
    request = service.QueryRouteRequest(topic=resource(topic))

    async def both() -> bool:
        route = await client.call("QueryRoute", request, service.QueryRouteResponse)
        return len({queue.broker.name for queue in route.message_queues}) == 2

    await until(both)


def to(lite_topic: str, body: str) -> Message:
    return message(PARENT, body.encode(), message_type=MessageType.LITE, lite_topic=lite_topic)


async def sent(client: GrpcClient, *messages: Message) -> None:
    for one in messages:
        answer = await client.send(one)
        assert answer.status.code == Code.OK, answer.status


async def got(client: GrpcClient, count: int, /, **fields: Any) -> list[Message]:
    """So many messages. Each call asks the next broker."""
    found: list[Message] = []
    while len(found) < count:
        status, some = await client.receive(PARENT, **fields)
        assert status.code in (Code.OK, Code.MESSAGE_NOT_FOUND), status
        found += some
    return found


async def nothing_comes(client: GrpcClient) -> None:
    for _ in range(2):
        assert (await client.receive(PARENT))[0].code == Code.MESSAGE_NOT_FOUND


@pytest.mark.slow
def test_each_lite_topic_comes_in_its_order_from_one_broker_to_who_reads_it(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client)
        assert (await client.sync_lite(ADD, PARENT, *NAMES)).code == Code.OK
        await sent(client, *(to(name, str(number)) for number in range(3) for name in [*NAMES, "unread"]))
        received = await got(client, 3 * len(NAMES), count=32)
        of_topic: dict[str, list[str]] = {}
        for one in received:
            of_topic.setdefault(one.system_properties.lite_topic, []).append(one.body.decode())
        assert of_topic == {name: ["0", "1", "2"] for name in NAMES}
        assert {one.topic.name for one in received} == {PARENT}
        assert {one.system_properties.message_type for one in received} == {MessageType.LITE}
        assert [dict(one.user_properties) for one in received] == [{}] * len(received)
        brokers = {
            (one.system_properties.lite_topic, parse(one.system_properties.receipt_handle).broker_name)
            for one in received
        }  # fmt: skip
        assert len(brokers) == len(NAMES), "one broker for each"
        assert {broker for _, broker in brokers} == {"broker-a", "broker-b"}
        answer = await (await before.proxy()).ack(PARENT, *received)
        assert {entry.status.code for entry in answer.entries} == {Code.OK}
        await nothing_comes(client)

    story(work, tmp_path)


@pytest.mark.slow
def test_a_lite_topic_is_blocked_until_its_message_is_acknowledged_or_comes_again(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client)
        await client.sync_lite(EXACTLY, PARENT, "a")
        await sent(client, to("a", "a1"), to("a", "a2"))
        (first,) = await got(client, 1, count=1)
        await nothing_comes(client)
        change = service.ChangeInvisibleDurationRequest(
            group=resource(GROUP), topic=resource(PARENT), lite_topic="a",
            receipt_handle=first.system_properties.receipt_handle,
        )  # fmt: skip
        change.invisible_duration.seconds = 0
        answer = await client.call("ChangeInvisibleDuration", change, service.ChangeInvisibleDurationResponse)
        assert answer.status.code == Code.OK, answer.status
        again = await got(client, 2)
        assert [one.body for one in again] == [b"a1", b"a2"]
        assert [one.system_properties.delivery_attempt for one in again] == [2, 1]
        assert {entry.status.code for entry in (await client.ack(PARENT, *again)).entries} == {Code.OK}
        await nothing_comes(client)

    story(work, tmp_path)


@pytest.mark.slow
def test_a_call_that_waits_gets_a_message_at_once_and_one_that_is_given_up_leaves_it_to_the_next(
    tmp_path: Path,
) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client)
        await client.sync_lite(EXACTLY, PARENT, "a")
        async with client.telemetry(consumer(GROUP, PARENT)):
            given_up = [asyncio.create_task(client.receive(PARENT, seconds=8, invisible=60)) for _ in range(2)]
            await asyncio.sleep(0.3)
            for one in given_up:
                one.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)
            await asyncio.sleep(0.1)
            await sent(client, to("a", "a1"))
            (first,) = await got(client, 1)
            await client.ack(PARENT, first)
            waiting = [asyncio.create_task(client.receive(PARENT, seconds=20)) for _ in range(2)]
            await asyncio.sleep(0.2)
            await sent(client, to("a", "a2"))
            done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert [one.body for task in done for one in task.result()[1]] == [b"a2"]
            for task in others:
                task.cancel()

    story(work, tmp_path)


@pytest.mark.slow
def test_a_subscription_says_where_it_begins_and_what_it_ends_with(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client)
        for name, option, expected in (
            ("min", OffsetOption(policy=OffsetOption.Policy.MIN), ["1", "2", "3"]),
            ("offset", OffsetOption(offset=1), ["2", "3"]),
            ("tail", OffsetOption(tail_n=1), ["3"]),
            ("time", OffsetOption(timestamp=0), ["1", "2", "3"]),
            ("max", OffsetOption(policy=OffsetOption.Policy.MAX), []),
        ):
            await sent(client, to(name, "1"), to(name, "2"), to(name, "3"))
            assert (await client.sync_lite(ADD, PARENT, name, offset_option=option)).code == Code.OK
            received = await got(client, len(expected))
            assert [one.body.decode() for one in received] == expected
            await nothing_comes(client)
            if received:
                await client.ack(PARENT, *received)
            assert (await client.sync_lite(REMOVE, PARENT, name)).code == Code.OK
        assert readers(before) == []

    story(work, tmp_path)


def test_a_client_is_told_that_another_one_has_its_lite_topic_and_goodbye_ends_subscriptions(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client, lite_sub_model="Exclusive", lite_sub_client_quota="7")
        settings = consumer(GROUP, PARENT)
        settings.client_type = ClientType.LITE_PUSH_CONSUMER
        async with client.telemetry(settings) as answer:
            assert answer.settings.subscription.lite_subscription_quota == 7
            await client.sync_lite(ADD, PARENT, "a", "b")
            other = GrpcClient((await before.proxy()).channel, "client-2")
            assert (await other.sync_lite(ADD, PARENT, "b")).code == Code.OK
            told = {(await client.commands.get()).notify_unsubscribe_lite_command.lite_topic for _ in before.brokers}
            assert told == {"b"}
            goodbye = service.NotifyClientTerminationRequest()
            await other.call("NotifyClientTermination", goodbye, service.NotifyClientTerminationResponse)
            await until(lambda: readers(before) == [LiteReader("client-1\n", GROUP)] * 2)
            assert (await client.sync_lite(LEAVE, PARENT)).code == Code.OK
            assert readers(before) == []

    story(work, tmp_path)


def readers(before: Before) -> list[LiteReader]:
    """Of both brokers."""
    return [
        reader for broker in before.brokers for reader in broker.broker.popping.lite.subscriptions.all_readers()
    ]  # fmt: skip


def test_a_subscription_counts_while_one_broker_of_two_is_away(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client)
        await before.brokers[1].broker.close()
        assert (await client.sync_lite(EXACTLY, PARENT, *NAMES)).code == Code.OK
        assert len(before.brokers[0].broker.popping.lite.subscriptions) == len(NAMES)

    story(work, tmp_path)


@pytest.mark.slow
def test_a_message_of_a_lite_topic_goes_to_the_dead_letters(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client)
        await client.sync_lite(EXACTLY, PARENT, "a")
        await sent(client, to("a", "a1"), to("a", "a2"))
        (first,) = await got(client, 1, count=1)
        request = service.ForwardMessageToDeadLetterQueueRequest(
            group=resource(GROUP), topic=resource(PARENT), lite_topic="a",
            message_id=first.system_properties.message_id, receipt_handle=first.system_properties.receipt_handle,
        )  # fmt: skip
        answer = await client.call(
            "ForwardMessageToDeadLetterQueue", request, service.ForwardMessageToDeadLetterQueueResponse
        )
        assert answer.status.code == Code.OK, answer.status
        assert [one.body for one in await got(client, 1)] == [b"a2"]
        ends = [broker.broker.store.queue_range(f"%DLQ%{GROUP}", 0) for broker in before.brokers]
        assert (0, 1) in ends

    story(work, tmp_path)


def test_what_breaks_a_rule_of_lite_topics_is_refused_with_the_code_that_says_which(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        await prepare(before, client, lite_sub_client_quota="2")
        sync = client.sync_lite
        assert (await sync(ADD, PARENT, "a/b")).code == Code.ILLEGAL_LITE_TOPIC
        assert (await sync(ADD, "orders", "a")).code == Code.BAD_REQUEST
        assert (await sync(ADD, "unknown", "a")).code == Code.TOPIC_NOT_FOUND
        assert (await sync(ADD, PARENT, "a", group="unbound")).code == Code.BAD_REQUEST
        assert (await sync(ADD, PARENT, "a", "b", "c")).code == Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
        assert (await client.receive(PARENT, group="unbound"))[0].code == Code.BAD_REQUEST
        assert (await client.send(message(PARENT))).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE

    story(work, tmp_path)


def test_priorities_reach_the_brokers_and_each_gives_its_highest_ones_first(tmp_path: Path) -> None:
    async def work(before: Before, client: GrpcClient) -> None:
        for broker in before.brokers:
            await broker.create_topic("ranked", attributes="+message.type=PRIORITY")
        await until_on_both(client, "ranked")
        for priority in (0, 0, 3, 3, 1, 1):  # to the brokers in turn
            one = message("ranked", b"x", message_type=MessageType.PRIORITY, priority=priority)
            assert (await client.send(one)).status.code == Code.OK
        ranks: dict[str, list[int]] = {}
        for _ in range(6):
            _, (one,) = await client.receive("ranked", count=1)
            broker_name = parse(one.system_properties.receipt_handle).broker_name
            ranks.setdefault(broker_name, []).append(one.system_properties.priority)
            assert one.system_properties.message_type == MessageType.PRIORITY
        assert ranks == {"broker-a": [3, 1, 0], "broker-b": [3, 1, 0]}
        wrong = message("orders", message_type=MessageType.NORMAL, priority=1)
        assert (await client.send(wrong)).status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE

    story(work, tmp_path)
