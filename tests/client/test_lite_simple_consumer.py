"""Receiving from lite topics, with a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq.aio import Admin, LiteSimpleConsumer, Message, Producer
from gantrymq.demo.ports import free_port
from gantrymq.errors import Closed, ConfigError, MessageIllegal, RequestRejected
from gantrymq.message.message import MessageView
from gantrymq.protocol.files.groups import LITE_BIND_TOPIC, LITE_EXCLUSIVE, LITE_SUB_MODEL, Group
from tests.client.peer import run, until
from tests.client.real import broker, name_server, server

LONG_MS = 60_000
PARENT, GROUP = "Baskets", "basket-readers"


async def prepare(address: str, *bound: str, **attributes: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic(PARENT, queues=2, message_type="LITE")
        signed = {LITE_BIND_TOPIC: PARENT, **attributes}
        for group in bound or (GROUP,):
            await admin.groups.put(group, lambda now: Group(group_name=now.group_name, attributes=signed))


def consumer(address: str, group: str = GROUP, **settings: Any) -> LiteSimpleConsumer:
    return LiteSimpleConsumer(group, PARENT, name_servers=address, **{"await_duration_ms": 300, **settings})


async def send(address: str, lite_topic: str, *texts: str) -> None:
    async with Producer("PG", name_servers=address) as producer:
        for text in texts:
            await producer.send(Message(PARENT, text, lite_topic=lite_topic))


def bodies(found: list[MessageView]) -> list[str]:
    return [view.body.decode() for view in found]


async def receive(one: LiteSimpleConsumer, count: int, invisible_ms: int = LONG_MS) -> list[MessageView]:
    """Until there are so many."""
    found: list[MessageView] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await one.receive(32, invisible_ms)
    return found


def test_messages_of_the_subscribed_lite_topics_come_in_their_order_and_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await prepare(address)
            await send(address, "a", "a1", "a2", "a3")
            await send(address, "b", "b1")
            async with consumer(address) as one:
                with pytest.raises(ConfigError, match="subscribe_lite"):
                    await one.receive(1, LONG_MS)
                await one.subscribe_lite("a")
                assert one.lite_topics == {"a"}
                found = await receive(one, 3)
                assert bodies(found) == ["a1", "a2", "a3"]
                assert {(view.topic, view.lite_topic, view.reconsume_times) for view in found} == {(PARENT, "a", 0)}
                await send(address, "a", "a4")
                assert await one.receive(32, LONG_MS) == [], "somebody has those before it in hand"
                for view in found:
                    await one.ack(view)
                (after,) = await receive(one, 1)
                await one.ack(after)
                await one.unsubscribe_lite("a")
                await one.subscribe_lite("b")
                await send(address, "a", "a5")
                (other,) = await receive(one, 1)
                assert bodies([after, other]) == ["a4", "b1"]
                assert await one.receive(32, LONG_MS) == []

    run(test)


def test_what_was_not_acknowledged_comes_again_before_the_next(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await prepare(address)
            await send(address, "a", "first", "second")
            async with consumer(address) as one:
                await one.subscribe_lite("a")
                (view,) = await one.receive(1, LONG_MS)
                await one.change_invisible_duration(view, 0)
                again = await receive(one, 2)
                await one.change_invisible_duration(view, 0)  # the delivery has ended: it changes nothing
                assert bodies(again) == ["first", "second"]
                assert await one.receive(32, LONG_MS) == []
                assert again[0].reconsume_times == 1
                await one.change_invisible_duration(again[0], LONG_MS)
                for one_of_them in again:
                    await one.ack(one_of_them)
                assert await one.receive(32, LONG_MS) == []

    run(test)


def test_a_cancelled_wait_has_taken_nothing_and_a_message_ends_a_wait(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await prepare(address)
            async with consumer(address, await_duration_ms=20_000) as one:
                await one.subscribe_lite("a")
                given_up = asyncio.create_task(one.receive(1, LONG_MS))
                await asyncio.sleep(0.3)
                given_up.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await given_up
                waiting = asyncio.create_task(receive(one, 2))
                await send(address, "a", "one", "two")
                assert sorted(bodies(await waiting)) == ["one", "two"]
                left = asyncio.create_task(one.receive(1, LONG_MS))
                await asyncio.sleep(0.1)
            with pytest.raises(Closed):
                await left

    run(test)


def test_bad_names_and_groups_that_are_not_bound_are_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await prepare(address)
            with pytest.raises(ConfigError, match="leave out orderly"):
                consumer(address, orderly=True)
            async with consumer(address, "unbound") as one:
                with pytest.raises(MessageIllegal, match="lite_topic must have"):
                    await one.subscribe_lite("a b")
                with pytest.raises(RequestRejected):
                    await one.subscribe_lite("a")
                assert one.lite_topics == set()

    run(test)


def test_a_restarted_broker_knows_the_subscriptions_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with name_server() as address:
            port = free_port()
            async with broker(tmp_path, address, listen_port=port):
                await prepare(address)
                one = consumer(address, await_duration_ms=1_000)
                await one.start()
                await one.subscribe_lite("a")
            async with broker(tmp_path, address, listen_port=port):
                await send(address, "a", "behind the restart")
                async with asyncio.timeout(30):
                    while not (found := await _tried(one)):
                        await asyncio.sleep(0.1)
                assert bodies(found) == ["behind the restart"]
                await one.close()

    run(test)


async def _tried(one: LiteSimpleConsumer) -> list[MessageView]:
    try:
        return await one.receive(1, LONG_MS)
    except gantrymq.GantryError:
        return []


def test_an_exclusive_lite_topic_goes_to_the_client_that_asks_last(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await prepare(address, **{LITE_SUB_MODEL: LITE_EXCLUSIVE})
            async with consumer(address) as first, consumer(address) as second:
                await first.subscribe_lite("a")
                await second.subscribe_lite("a")
                await until(lambda: not first.lite_topics)
                await send(address, "a", "one")
                assert bodies(await receive(second, 1)) == ["one"]

    run(test)


def test_the_blocking_consumer_does_the_same(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await prepare(address)
            await send(address, "a", "one")

            def work() -> list[str]:
                with gantrymq.LiteSimpleConsumer(GROUP, PARENT, name_servers=address, await_duration_ms=300) as one:
                    one.subscribe_lite("a")
                    found = one.receive(1, LONG_MS)
                    one.change_invisible_duration(found[0], LONG_MS)
                    one.ack(found[0])
                    assert one.receive(1, LONG_MS) == []
                    one.unsubscribe_lite("a")
                    assert one.lite_topics == set()
                    return bodies(found)

            assert await asyncio.to_thread(work) == ["one"]

    run(test)
