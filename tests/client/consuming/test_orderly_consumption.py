"""Consuming in order, with a real broker's locks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gantrymq.aio import (
    ConsumeFromWhere,
    ConsumeStatus,
    Message,
    MessageView,
    Producer,
    PullConsumer,
    PushConsumer,
    ReconsumeLater,
)
from gantrymq.client.consuming.queue_locks import QueueLocks
from gantrymq.message.queues import MessageQueue
from tests.client.peer import run, until
from tests.client.real import server

TOPIC = "Ordered"


def consumer_of(address: str, listener: Any, **settings: Any) -> PushConsumer:
    consumer = PushConsumer(
        "CG", name_servers=address, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET, orderly=True,
        **{"rebalance_interval_ms": 100, "lock_interval_ms": 200, "suspend_ms": 20, **settings},
    )  # fmt: skip
    return consumer.subscribe(TOPIC)


async def send(producer: Producer, *bodies: str, key: str = "k") -> None:
    for body in bodies:
        await producer.send_ordered(Message(TOPIC, body), key)


def test_what_fails_comes_again_before_anything_else(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[tuple[str, int]] = []

        def listener(messages: list[MessageView]) -> object:
            (view,) = messages
            observed.append((view.body.decode(), view.reconsume_times))
            if view.body == b"1" and view.reconsume_times == 0:
                return ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            if view.body == b"2" and view.reconsume_times == 0:
                raise ValueError("not yet")
            return ReconsumeLater(suspend_ms=1) if view.body == b"3" and view.reconsume_times < 2 else None

        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            async with consumer_of(address, listener):
                await send(producer, *"012345")
                await until(lambda: observed and observed[-1][0] == "5")
            expected = [("0", 0), ("1", 0), ("1", 1), ("2", 0), ("2", 1), ("3", 0), ("3", 1), ("3", 2)]
            assert observed == [*expected, ("4", 0), ("5", 0)]

    run(test)


def test_after_the_maximum_it_is_a_dead_letter_and_the_queue_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[str] = []

        async def listener(messages: list[MessageView]) -> ConsumeStatus:
            observed.extend(view.body.decode() for view in messages)
            failed = any(view.body == b"bad" for view in messages)
            return ConsumeStatus.RECONSUME_LATER if failed else ConsumeStatus.CONSUME_SUCCESS

        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            async with consumer_of(address, listener, max_reconsume_times=2):
                await send(producer, "good", "bad", "better")
                await until(lambda: "better" in observed)
            assert observed == ["good", "bad", "bad", "bad", "better"]
            async with PullConsumer(name_servers=address) as reader:
                (queue,) = await reader.queues("%DLQ%CG")
                (view,) = (await reader.pull(queue, 0)).messages
                assert (view.body, view.reconsume_times) == (b"bad", 3)
                assert view.properties["RETRY_TOPIC"] == TOPIC and "DELAY" not in view.properties

    run(test)


def test_a_queue_is_handed_over_only_when_the_listener_has_done_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        release = threading.Event()
        observed: list[tuple[str, str]] = []

        def listener(who: str) -> Callable[[list[MessageView]], None]:
            def listen(messages: list[MessageView]) -> None:
                observed.append((who, messages[0].body.decode()))
                if messages[0].body == b"slow":
                    release.wait(20)
                    observed.append((who, "slow done"))

            return listen

        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            await send(producer, "first")
            queues = await producer.queues(TOPIC)
            async with consumer_of(address, listener("one")) as one:
                await until(lambda: observed)
                await until(lambda: len(one.assigned) >= len(queues))
                # Something slow in every queue, then something that the other member will get of its half.
                for queue in queues:
                    await producer.send(Message(TOPIC, "slow"), queue)
                await until(lambda: [body for _, body in observed].count("slow") == len(queues))
                async with consumer_of(address, listener("two")) as two:
                    for queue in queues:
                        await producer.send(Message(TOPIC, "next"), queue)
                    await until(lambda: len(_of_topic(one)) == len(queues) // 2)
                    assert not _of_topic(two) and ("two", "next") not in observed
                    release.set()
                    await until(lambda: len(_of_topic(two)) == len(queues) // 2)
                    await until(lambda: [body for _, body in observed].count("next") == len(queues))
        bodies = [body for _, body in observed]
        assert bodies.count("slow") == len(queues)
        assert min(observed.index(("two", "next")), len(observed)) > bodies.index("slow done")

    run(test, 60)


def _of_topic(consumer: PushConsumer) -> list[MessageQueue]:
    return [queue for queue in consumer.assigned if queue.topic == TOPIC]


def test_queues_whose_listener_hangs_are_free_when_their_consumer_is_closed(tmp_path: Path) -> None:
    async def test() -> None:
        observed: list[str] = []
        released, begun = threading.Event(), threading.Event()

        def stuck(messages: list[MessageView]) -> None:
            begun.set()
            released.wait(20)

        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            await send(producer, "first", "second")
            first = consumer_of(address, stuck, close_timeout_ms=50)
            await first.start()
            await until(begun.is_set)
            await first.close()
            async with consumer_of(address, lambda messages: observed.extend(view.body.decode() for view in messages)):
                await until(lambda: observed == ["first", "second"])
            released.set()

    run(test)


def test_a_start_that_is_cancelled_leaves_no_lock_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers keep a lock for a minute, also when the connection of its holder is gone."""

    async def test() -> None:
        observed: list[str] = []
        asked = asyncio.Event()
        lock = QueueLocks._lock

        async def asking(self: QueueLocks, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
            confirmed = await lock(self, broker_name, queues)
            if not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return confirmed

        monkeypatch.setattr(QueueLocks, "_lock", asking)
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            await send(producer, "first")
            starting = asyncio.create_task(consumer_of(address, lambda messages: None).start())
            await asked.wait()
            starting.cancel()
            await asyncio.wait([starting])
            async with consumer_of(address, lambda messages: observed.extend(view.body.decode() for view in messages)):
                await until(lambda: observed == ["first"])

    run(test)
