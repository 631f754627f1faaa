"""The messages that ``benchmarks.spark_source`` reads, in topics of our broker, and a program that pulls them."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gantrymq import aio
from gantrymq.client.sync import PullConsumer

TOPIC: Final = "SparkBench"
LARGE: Final = "SparkBenchLarge"
COMPRESSED: Final = "SparkBenchCompressed"
BATCH: Final = 400
"""Messages a send; the topic is filled with batches because filling is not what is measured."""
LARGE_BYTES: Final = 4096
"""Of the bodies that are read compressed and not; clients compress bodies from this size on."""
SENDERS: Final = 64


async def fill(name_servers: str, messages: int, body_bytes: int) -> float:
    """Send the messages to ``TOPIC``. Returns the time in seconds."""
    body = b"x" * body_bytes
    left = iter(range(0, messages, BATCH))
    async with aio.Producer("bench", name_servers=name_servers, send_timeout_ms=20_000) as producer:
        await producer.send(aio.Message(TOPIC, b"x", tags="vip", keys="k"))
        begin = time.perf_counter()

        async def sender() -> None:
            for start in left:
                count = min(BATCH, messages - start)
                keys = [f"order-{start + number}" for number in range(count)]
                await producer.send_batch([aio.Message(TOPIC, body, tags="vip", keys=key) for key in keys])

        await asyncio.gather(*(sender() for _ in range(8)))
        return time.perf_counter() - begin


def large_body(number: int) -> bytes:
    """JSON as services write it, which becomes about a quarter as large."""
    items = [
        f'{{"sku":"A{number * 31 + item:07d}","quantity":{item % 5 + 1},"price":"{item * 7 % 100}.90"}}'
        for item in range(90)
    ]
    return f'{{"order":{number},"items":[{",".join(items)}]}}'.encode()[:LARGE_BYTES]


async def fill_large(name_servers: str, messages: int) -> None:
    """Send the same large bodies to ``LARGE`` as they are, and to ``COMPRESSED``."""
    for topic, threshold in ((LARGE, 1 << 30), (COMPRESSED, LARGE_BYTES)):
        left = iter(range(messages))
        async with aio.Producer(
            "bench", name_servers=name_servers, send_timeout_ms=20_000, compress_over_bytes=threshold
        ) as producer:

            async def sender(producer: aio.Producer = producer, topic: str = topic, left: Iterator[int] = left) -> None:
                for number in left:
                    await producer.send(aio.Message(topic, large_body(number)))

            await asyncio.gather(*(sender() for _ in range(SENDERS)))


def pulled(name_servers: str, use: Callable[[bytes], int]) -> tuple[int, float]:
    """(rows, seconds) of one Python process that pulls the topic and passes every answer to ``use``."""
    rows = 0
    with PullConsumer(name_servers=name_servers) as consumer:
        queues = [(queue, consumer.max_offset(queue)) for queue in consumer.queues(TOPIC)]
        begin = time.perf_counter()
        for queue, end in queues:
            position = 0
            while position < end:
                answer = consumer.pull_raw(queue, position, 10_000, 4 * 1024 * 1024)
                rows += use(answer.data) or answer.next_offset - position
                position = answer.next_offset
        return rows, time.perf_counter() - begin


@contextlib.contextmanager
def pull_load(name_servers: str, log: Path) -> Iterator[Callable[[], None]]:
    """A process that is ready to pull the topic once. Calling the function starts it; the block waits for its end."""
    command = [sys.executable, "-m", "benchmarks.spark_topics", name_servers]
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output)
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    try:
        stdout.readline()

        def start() -> None:
            stdin.write(b"\n")
            stdin.flush()

        yield start
        stdout.readline()
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Say when everything is imported, wait for a line, pull the topic, and say so."""
    print("ready", flush=True)
    sys.stdin.readline()
    pulled(sys.argv[1], lambda data: 0)
    print("done", flush=True)


if __name__ == "__main__":
    main()
