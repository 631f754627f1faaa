"""Receiving and acknowledging, with a real broker."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq.aio import Admin, ConsumeFromWhere, Message, MessageQueue, Producer, SimpleConsumer
from gantrymq.errors import Closed, ConfigError, MessageIllegal, RequestRejected, RouteNotFound, Unreachable
from gantrymq.message.message import MessageView
from tests.client.peer import run, until
from tests.client.real import broker, name_server, server

FIRST = ConsumeFromWhere.FIRST_OFFSET
LONG_MS = 60_000


def consumer(address: str, group: str = "SG", **settings: Any) -> SimpleConsumer:
    values: dict[str, Any] = {"from_where": FIRST, "await_duration_ms": 300, **settings}
    return SimpleConsumer(group, name_servers=address, **values)


async def receive(one: SimpleConsumer, count: int, invisible_ms: int = LONG_MS) -> list[MessageView]:
    """Until there are so many."""
    found: list[MessageView] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await one.receive(32, invisible_ms)
    return found


def bodies(found: list[MessageView]) -> list[str]:
    return sorted(view.body.decode() for view in found)


async def send(address: str, topic: str, *texts: str, **fields: Any) -> None:
    async with Producer("PG", name_servers=address) as producer:
        for text in texts:
            await producer.send(Message(topic, text, **fields))


def test_what_is_acknowledged_stays_away_and_the_rest_comes_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await send(address, "T", "a", "b", "c" * 20_000)
            async with consumer(address).subscribe("T") as one:
                found = await receive(one, 3, 1_500)
                assert bodies(found) == ["a", "b", "c" * 20_000]
                assert {view.topic for view in found} == {"T"} and {view.reconsume_times for view in found} == {0}
                assert await one.receive(32, 1_000) == []
                for view in found:
                    if view.body != b"b":
                        await one.ack(view)
                (again,) = await receive(one, 1)
                assert (again.body, again.topic, again.reconsume_times) == (b"b", "T", 1)
                await one.ack(again)
                await one.ack(again)
                assert await one.receive(32, 1_000) == []

    run(test)


def test_a_changed_duration_gives_time_or_gives_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await send(address, "T", "back")
            async with consumer(address).subscribe("T") as one:
                (view,) = await receive(one, 1)
                await one.change_invisible_duration(view, 1_000)
                await one.change_invisible_duration(view, LONG_MS)
                assert await one.receive(32, 1_000) == []
                await one.change_invisible_duration(view, 0)
                (again,) = await receive(one, 1)
                assert again.reconsume_times == 1
                with pytest.raises(RequestRejected, match="has ended"):
                    await one.change_invisible_duration(view, LONG_MS)
                await one.change_invisible_duration(again, LONG_MS)
                await one.ack(again)

    run(test)


def test_a_message_ends_a_wait_in_whichever_topic_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await send(address, "A", "old a")
            await send(address, "B", "old b")
            async with consumer(address, await_duration_ms=20_000).subscribe("A").subscribe("B") as one:
                for view in await receive(one, 2):
                    await one.ack(view)
                for topic in "ABBA":
                    waiting = asyncio.create_task(one.receive(1, LONG_MS))
                    await until(lambda: len(one._receiver._notices) == 2)
                    await send(address, topic, f"new {topic}")
                    (view,) = await waiting
                    assert view.topic == topic
                    await one.ack(view)

    run(test)


def test_those_who_receive_at_the_same_time_share_the_messages(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, consumer(address).subscribe("T") as one:
            found: list[MessageView] = []

            async def take() -> None:
                while len(found) < 40:
                    for view in await one.receive(3, LONG_MS):
                        found.append(view)
                        await one.ack(view)

            async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
                for _ in range(5):
                    tasks.create_task(take())
                await send(address, "T", *map(str, range(40)))
            assert bodies(found) == sorted(map(str, range(40)))
            assert len(one._receiver._notices) == 1, "they share a question"

    run(test)


def test_only_what_is_subscribed_is_received_and_subscriptions_may_change(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path, enable_property_filter=True) as address, consumer(address) as one:
            with pytest.raises(ConfigError, match="no topic is subscribed"):
                await one.receive(1, 1_000)
            one.subscribe("T", "A || B")
            await send(address, "T", "1", tags="A")
            await send(address, "T", "2", tags="C")
            await send(address, "T", "3", tags="B")
            assert bodies(await receive(one, 2)) == ["1", "3"]
            one.subscribe("T", sql="price > 10")
            assert one.subscriptions == {"T": "price > 10"}
            await send(address, "T", "4", properties={"price": "9"})
            await send(address, "T", "5", properties={"price": "11"})
            assert bodies(await receive(one, 1)) == ["5"]
            one.subscribe("T", sql="price >")
            with pytest.raises(RequestRejected):
                await one.receive(1, 1_000)
            one.unsubscribe("T").subscribe("U")
            await send(address, "T", "6")
            await send(address, "U", "7")
            assert bodies(await receive(one, 1)) == ["7"]

    run(test)


def test_a_tag_with_the_same_hash_is_passed_over(tmp_path: Path) -> None:
    """Java's hash of "Aa" is that of "BB", and brokers compare hashes."""

    async def test() -> None:
        async with server(tmp_path) as address, consumer(address).subscribe("T", "Aa") as one:
            await send(address, "T", "other", tags="BB")
            await send(address, "T", "wanted", tags="Aa")
            assert bodies(await receive(one, 1)) == ["wanted"]
            assert await one.receive(32, 1_000) == []

    run(test)


def test_a_cancelled_receive_has_taken_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await send(address, "T", *map(str, range(10)))
            async with consumer(address, await_duration_ms=10_000).subscribe("T") as one:
                for turns in range(30):
                    task = asyncio.create_task(one.receive(32, LONG_MS))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        one.give_back(await task)
                assert bodies(await receive(one, 10)) == sorted(map(str, range(10)))

    run(test)


def test_closing_ends_waits_and_what_is_in_hand_comes_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            one = consumer(address, await_duration_ms=60_000).subscribe("T")
            await one.start()
            await send(address, "T", "x")
            (view,) = await receive(one, 1, 1_000)
            waiting = asyncio.create_task(one.receive(1, LONG_MS))
            await until(lambda: len(one._receiver._notices) == 1)
            await one.close()
            with pytest.raises(Closed):
                await waiting
            for call in (one.receive(1, 1_000), one.ack(view), one.change_invisible_duration(view, 1)):
                with pytest.raises(Closed):
                    await call
            with pytest.raises(Closed):
                one.subscribe("U")
            async with consumer(address).subscribe("T") as other:
                assert bodies(await receive(other, 1)) == ["x"]

    run(test)


def test_a_topic_that_is_made_later_is_found_and_one_that_is_missing_is_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, consumer(address, await_duration_ms=100).subscribe("Later") as one:
            with pytest.raises(RouteNotFound, match="Later"):
                await one.receive(1, 1_000)
            await send(address, "Later", "x")
            assert bodies(await receive(one, 1)) == ["x"]

    run(test)


def test_a_message_in_hand_is_acknowledged_after_its_broker_was_away(tmp_path: Path) -> None:
    async def test() -> None:
        async with name_server() as address:
            async with broker(tmp_path, address):
                await send(address, "T", "a", "b")
            one = consumer(address, call_timeout_ms=10_000, await_duration_ms=1_000).subscribe("T")
            async with broker(tmp_path, address):
                await one.start()
                first, second = await receive(one, 2, 30_000)
            with pytest.raises(Unreachable):
                await one.receive(1, 1_000)
            acking = asyncio.create_task(one.ack(first))
            async with broker(tmp_path, address):
                await acking
                await one.change_invisible_duration(second, 0)
                assert bodies(await receive(one, 1)) == [second.body.decode()]
            await one.close()

    run(test)


def test_while_one_of_two_brokers_is_away_the_messages_of_the_other_are_received(tmp_path: Path) -> None:
    async def test() -> None:
        async with name_server() as address, broker(tmp_path / "b", address, broker_name="broker-b") as other:
            async with broker(tmp_path / "a", address, broker_name="broker-a"), Admin(address) as admin:
                await admin.create_topic("T", 1)
                await until(lambda: other.topics.get("T") is not None)
                one = consumer(address, await_duration_ms=10_000).subscribe("T")
                await one.start()
                async with Producer("PG", name_servers=address) as producer:
                    for number, queue in enumerate(2 * await producer.queues("T")):
                        await producer.send(Message("T", f"{number}"), queue)
                found = await receive(one, 4)
                assert {view.queue.broker_name for view in found} == {"broker-a", "broker-b"}
                for view in found:
                    await one.ack(view)
            async with Producer("PG", name_servers=address, call_timeout_ms=500) as producer:
                for number in range(3):
                    await producer.send(Message("T", f"{number}"), MessageQueue("T", "broker-b", 0))
                    (view,) = await receive(one, 1)
                    await one.ack(view)
            await one.close()

    run(test)


def test_a_body_that_grows_too_large_is_a_dead_letter(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, consumer(address, max_body_bytes=65_536).subscribe("T") as one:
            await send(address, "T", "x" * 100_000, "small")
            assert bodies(await receive(one, 1, 1_000)) == ["small"]
            async with consumer(address, "Dead").subscribe("%DLQ%SG") as dead:
                assert bodies(await receive(dead, 1)) == ["x" * 100_000]
            assert bodies(await receive(one, 1)) == ["small"]

    run(test)


def test_two_threads_receive_with_the_blocking_one(tmp_path: Path) -> None:
    got: list[str] = []

    def work(consumer: gantrymq.SimpleConsumer) -> None:
        while len(got) < 10:
            for view in consumer.receive(2, LONG_MS):
                got.append(view.body.decode())
                consumer.ack(view)

    async def test() -> None:
        async with server(tmp_path) as address:
            blocking = gantrymq.SimpleConsumer("SG", name_servers=address, from_where=FIRST, await_duration_ms=300)
            with pytest.raises(Closed, match="not started"):
                blocking.receive(1, 1)
            await asyncio.to_thread(blocking.subscribe("T").start)
            working = [asyncio.to_thread(work, blocking) for _ in range(2)]
            async with asyncio.timeout(30):
                await asyncio.gather(send(address, "T", *map(str, range(10))), *working)
            assert sorted(got) == sorted(map(str, range(10)))
            await asyncio.to_thread(blocking.subscribe, "U", sql="a > 1")
            await asyncio.to_thread(blocking.unsubscribe, "T")
            assert blocking.subscriptions == {"U": "a > 1"}
            await asyncio.to_thread(blocking.close)
            for call in (lambda: blocking.receive(1, 1), lambda: blocking.subscribe("T")):
                with pytest.raises(Closed, match="is closed"):
                    call()

    run(test)


def test_namespaces_are_put_on_and_taken_off(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address, namespace="ns") as producer:
            await producer.send(Message("T", "x"))
            async with consumer(address, namespace="ns").subscribe("T") as one:
                (view,) = await receive(one, 1, 500)
                assert view.topic == "T"
                (view,) = await receive(one, 1)
                assert (view.topic, view.reconsume_times) == ("T", 1)
                await one.ack(view)

    run(test)


def test_a_queue_is_received_in_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            await producer.send(Message("T", "0"))
            queue = (await producer.queues("T"))[0]
            async with consumer(address, orderly=True).subscribe("T") as one:
                for view in await receive(one, 1):
                    await one.ack(view)
                for number in range(1, 4):
                    await producer.send(Message("T", f"{number}"), queue)
                (first,) = await one.receive(1, 1_000)
                assert (first.body, await one.receive(1, 1_000)) == (b"1", [])
                found = await receive(one, 1)
                assert [(view.body, view.reconsume_times) for view in found] == [(b"1", 1), (b"2", 0), (b"3", 0)]
                await one.change_invisible_duration(found[0], 0)
                for view in found[1:]:
                    await one.ack(view)
                assert [view.body for view in await receive(one, 3)] == [b"1", b"2", b"3"]

    run(test)


NUMBERS: list[Any] = [0, 33, -1, 1.5, "1", None, True, b"1", [1]]


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            await send(address, "T", "x")
            async with consumer(address).subscribe("T") as one:
                for wrong in NUMBERS:
                    with pytest.raises(ConfigError, match="max_message_num must be a whole number"):
                        await one.receive(wrong, 1_000)
                for wrong in [0, 43_200_001, *NUMBERS[2:]]:
                    with pytest.raises(ConfigError, match="invisible_duration_ms must be a whole number"):
                        await one.receive(1, wrong)
                (view,) = await receive(one, 1)
                for wrong in [43_200_001, *NUMBERS[2:]]:
                    with pytest.raises(ConfigError, match="invisible_duration_ms must be a whole number"):
                        await one.change_invisible_duration(view, wrong)
                nothing: Any
                for nothing in ("x", None, 3, [view], view.message_id):
                    for call in (one.ack(nothing), one.change_invisible_duration(nothing, 1)):
                        with pytest.raises(ConfigError, match="message must be a MessageView"):
                            await call
                view.properties["POP_CK"] = "no handle"
                with pytest.raises(ConfigError, match="not a receipt handle"):
                    await one.ack(view)
                del view.properties["POP_CK"]
                with pytest.raises(ConfigError, match="has no receipt handle"):
                    await one.ack(view)
                for topic in (3, None, "", "a b", b"T"):
                    for change in (one.subscribe, one.unsubscribe):
                        with pytest.raises(MessageIllegal, match="topic"):
                            change(topic)  # type: ignore[operator]
                for tags in (3, None, b"A", "||"):
                    with pytest.raises(ConfigError, match="tag"):
                        one.subscribe("T", tags)  # type: ignore[arg-type]
            for where in (ConsumeFromWhere.TIMESTAMP, "first", None, 0):
                with pytest.raises(ConfigError, match="from_where must be"):
                    consumer(address, from_where=where)

    run(test)
