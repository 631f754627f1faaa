"""GantryMQ's client as the load of ``bench apache``: processes that send as fast as they can for some seconds."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

import uvloop

from benchmarks import load, machine
from benchmarks.machine import Placement
from benchmarks.processes import START_LIMIT_S, Running
from benchmarks.rows import Row
from benchmarks.samples import Figures, figures, sampler
from gantrymq.aio import Message, Producer, TransactionProducer
from gantrymq.errors import GantryError

START_S = 1.0
"""The approximate time that its processes need to start."""
WARM_UP_S = 1.5
SHARE = 0.3
"""The length of its turns, as a part of the turns of Apache's programs. It can be shorter, because no JVM compiles."""


def own_turn(row: Row, running: Running, placement: Placement, topic: str, seconds: float) -> Figures:
    """Measure one turn, with one process for each core of the client: a Python process uses one core, a JVM all."""
    count = min(len(placement.client), row.threads)
    context = multiprocessing.get_context("spawn")
    ready, shares = context.Barrier(count + 1), context.SimpleQueue()
    share = (row.kind, running.name_server, topic, row.size, row.threads // count, seconds)
    children = [context.Process(target=own_share, args=(*share, ready, shares), daemon=True) for _ in range(count)]
    with machine.started_on(placement.client):
        for child in children:
            child.start()
    ready.wait(START_LIMIT_S)
    sample = sampler(running, placement.cores, [child.pid for child in children if child.pid is not None])
    time.sleep(WARM_UP_S)
    before = sample()
    time.sleep(seconds)
    after = sample()
    found: list[tuple[list[float], int]] = [shares.get() for _ in children]
    for child in children:
        child.join()
    taken = [each for times, _ in found for each in times]
    return figures(
        before, after, len(taken),
        per_second=len(taken) / seconds,
        average_ms=sum(taken) / max(1, len(taken)) * 1000,
        max_ms=max(taken, default=0.0) * 1000,
        failed=sum(failed for _, failed in found),
    )  # fmt: skip


def own_share(
    kind: str, name_server: str, topic: str, size: int, width: int, seconds: float, ready: Barrier,
    shares: SimpleQueue[tuple[list[float], int]],
) -> None:  # fmt: skip
    """One process of the client. It puts (seconds of each operation after the warm-up, failures) into ``shares``."""
    shares.put(uvloop.run(_own_share(kind, name_server, Message(topic, b"x" * size), width, seconds, ready)))


async def _own_share(
    kind: str, name_server: str, message: Message, width: int, seconds: float, ready: Barrier
) -> tuple[list[float], int]:
    producer: Producer | TransactionProducer
    if kind == "plain":
        producer = Producer("bench-producer", name_servers=name_server)
    else:
        producer = TransactionProducer("bench-tx", name_servers=name_server, listener=load.Commit())
    send: Callable[[Message], Awaitable[object]] = (
        producer.send_in_transaction if isinstance(producer, TransactionProducer) else producer.send
    )
    clock = time.perf_counter
    taken: list[float] = []
    failed = 0

    async def worker(begin: float, end: float) -> None:
        nonlocal failed
        while (begun := clock()) < end:
            try:
                await send(Message(message.topic, message.body))
                if begin <= (now := clock()) < end:
                    taken.append(now - begun)
            except GantryError:
                failed += 1

    async with producer:
        await send(Message(message.topic, message.body))
        ready.wait(START_LIMIT_S)
        begin = clock() + WARM_UP_S
        await asyncio.gather(*(worker(begin, begin + seconds) for _ in range(width)))
    return taken, failed
