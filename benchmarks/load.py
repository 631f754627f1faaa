"""The loads of the benchmarks: sending, transactions and consuming. Each returns its rate and latencies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gantrymq.aio import (
    ConsumeFromWhere,
    ConsumeStatus,
    LocalTransactionState,
    Message,
    MessageView,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
)

WARM_UP = 0.1
"""The share of the operations that comes first and is not counted."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Operations per second, and latencies in milliseconds (0 where single operations have none)."""

    per_second: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    operations: int = 0


async def _in_flight(total: int, width: int, operation: Callable[[int], Awaitable[object]]) -> Rate:
    """Run ``operation`` ``total`` times, ``width`` of them at the same time."""
    clock = time.perf_counter
    for share in (int(total * WARM_UP), total):
        numbers = iter(range(share))
        latencies: list[float] = []

        async def worker(numbers: object = numbers, latencies: list[float] = latencies) -> None:
            for number in numbers:  # type: ignore[attr-defined]
                begun = clock()
                await operation(number)
                latencies.append(clock() - begun)

        started = clock()
        await asyncio.gather(*(worker() for _ in range(width)))
        elapsed = clock() - started
    return Rate(total / elapsed, *_percentiles_ms(latencies), total)


def _percentiles_ms(latencies_s: list[float]) -> tuple[float, float]:
    """Median and 99th percentile, in milliseconds."""
    ordered = sorted(latencies_s)
    return ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.99)] * 1000


async def plain_send(name_server: str, topic: str, body_bytes: int, width: int, total: int) -> Rate:
    body = b"x" * body_bytes
    async with Producer("bench-producer", name_servers=name_server) as producer:
        await producer.send(Message(topic, body))
        return await _in_flight(total, width, lambda _: producer.send(Message(topic, body)))


class Commit:
    """Commits every transaction. The local transaction does nothing, so that only messaging is measured."""

    async def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


async def transaction(name_server: str, topic: str, body_bytes: int, width: int, total: int) -> Rate:
    body = b"x" * body_bytes
    async with TransactionProducer("bench-tx", name_servers=name_server, listener=Commit()) as producer:
        await producer.send_in_transaction(Message(topic, body))
        return await _in_flight(total, width, lambda _: producer.send_in_transaction(Message(topic, body)))


async def pull(name_server: str, topic: str) -> Rate:
    """Pull all messages of a topic, one queue after the other, and decode them. The latencies are those of pulls."""
    async with PullConsumer("bench-pull", name_servers=name_server) as consumer:
        clock = time.perf_counter
        started, count, latencies = clock(), 0, []
        for queue in await consumer.queues(topic):
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while offset < end:
                begun = clock()
                result = await consumer.pull(queue, offset, 1000)
                latencies.append(clock() - begun)
                count += len(result.messages)
                offset = result.next_offset
        elapsed = clock() - started
    return Rate(count / elapsed, *_percentiles_ms(latencies), count)


async def push(name_server: str, topic: str, expected: int, limit_s: float = 60.0) -> Rate:
    """Read all messages of a topic with a push consumer, whose listener only counts them."""
    received, first, done = 0, 0.0, asyncio.Event()

    async def listener(messages: list[MessageView]) -> ConsumeStatus:
        nonlocal received, first
        first = first or time.perf_counter()
        received += len(messages)
        if received >= expected:
            done.set()
        return ConsumeStatus.CONSUME_SUCCESS

    consumer = PushConsumer(
        f"bench-push-{topic}",
        name_servers=name_server,
        listener=listener,
        from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_batch_size=32,
    )
    consumer.subscribe(topic)
    async with consumer:
        async with asyncio.timeout(limit_s):
            await done.wait()
        return Rate(received / (time.perf_counter() - first), operations=received)
