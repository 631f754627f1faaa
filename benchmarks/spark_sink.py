"""Rows per second of the Spark sink, compared with Python programs that send to the same broker in the same run.

    python -m benchmarks.spark_sink [--rows 200000] [--body-bytes 200] [--rounds 3] [--flush async] [--json FILE]

Everything (broker, Spark, its Python workers) shares this machine. Absolute figures depend on the machine and on what
else runs there, so compare the ratios, and look at the processor time of the broker for each row. The goals, with two
cores and bodies of 200 bytes, are 60,000 rows per second with at_least_once and 30,000 with exactly_once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import processes
from gantrymq import aio

GOALS = {"spark, at_least_once": 60_000, "spark, exactly_once": 30_000}
BATCH = 400
SENDERS = 64
SINGLE_SHARE = 5
"""Messages that are sent one by one are a fifth of the others: they take much longer."""


def tell(text: str) -> None:
    """Print a text for the user on standard error, because standard output may be the result."""
    print(text, file=sys.stderr, flush=True)


async def one_by_one(name_servers: str, topic: str, messages: int, body: bytes) -> None:
    left = iter(range(messages))
    async with aio.Producer("bench", name_servers=name_servers, send_timeout_ms=20_000) as producer:

        async def sender() -> None:
            for _ in left:
                await producer.send(aio.Message(topic, body))

        await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def in_batches(name_servers: str, topic: str, messages: int, body: bytes) -> None:
    left = iter(range(0, messages, BATCH))
    async with aio.Producer("bench", name_servers=name_servers, send_timeout_ms=20_000) as producer:

        async def sender() -> None:
            for start in left:
                count = min(BATCH, messages - start)
                await producer.send_batch([aio.Message(topic, body) for _ in range(count)])

        await asyncio.gather(*(sender() for _ in range(4)))


def write(frame: Any, name_servers: str, topic: str, guarantee: str) -> None:
    options = {"nameServers": name_servers, "topic": topic, "deliveryGuarantee": guarantee}
    frame.write.format("rocketmq").mode("append").options(**options).save()


def messages_in(name_servers: str, topic: str) -> int:
    from gantrymq import PullConsumer

    with PullConsumer(name_servers=name_servers) as consumer:
        return sum(consumer.max_offset(queue) - consumer.min_offset(queue) for queue in consumer.queues(topic))


def measure(running: processes.Running, rows: int, body_bytes: int, rounds: int) -> dict[str, dict[str, float]]:
    """Every way to write: the best of ``rounds``. The number of messages is checked after each."""
    from pyspark.sql import functions

    from gantrymq.spark import spark_session

    spark = spark_session("spark_sink benchmark", master="local[2]")
    body, servers = b"x" * body_bytes, running.name_server
    text = functions.rpad(functions.col("id").cast("string"), body_bytes, "x")
    frame = spark.range(0, rows, 1, 2).select(text.cast("binary").alias("body")).cache()
    frame.count()
    single = rows // SINGLE_SHARE
    ways: dict[str, tuple[int, Callable[[str], None]]] = {
        "Producer.send, 64 at once": (single, lambda topic: asyncio.run(one_by_one(servers, topic, single, body))),
        "Producer.send_batch": (rows, lambda topic: asyncio.run(in_batches(servers, topic, rows, body))),
        "spark, noop": (rows, lambda _: frame.write.format("noop").mode("overwrite").save()),
        "spark, at_least_once": (rows, lambda topic: write(frame, servers, topic, "at_least_once")),
        "spark, exactly_once": (rows, lambda topic: write(frame, servers, topic, "exactly_once")),
    }
    found: dict[str, dict[str, float]] = {}
    try:
        for name, (count, way) in ways.items():
            best, least_cpu = 0.0, float("inf")
            for turn in range(rounds):
                topic = f"Sink-{len(found)}-{turn}"
                cpu, begin = running.cpu_s(), time.perf_counter()
                way(topic)
                seconds, cpu = time.perf_counter() - begin, running.cpu_s() - cpu
                best, least_cpu = max(best, count / seconds), min(least_cpu, cpu / count * 1e6)
                if name != "spark, noop" and (there := messages_in(servers, topic)) != count:
                    raise SystemExit(f"{name}: {there} messages are in the topic instead of {count}")
            plain = found.get("Producer.send, 64 at once", {"rows_per_second": best})["rows_per_second"]
            found[name] = {
                "rows_per_second": round(best), "of_producer_send": round(best / plain, 2),
                "broker_cpu_us": round(least_cpu, 1),
            }  # fmt: skip
            goal = GOALS.get(name, 0)
            verdict = f"   goal {goal:,}: {'reached' if best >= goal else 'NOT reached'}" if goal else ""
            tell(
                f"{name:28} {best:>10,.0f} rows/s   {found[name]['of_producer_send']:6.2f} of Producer.send   broker "
                f"{least_cpu:5.1f} us/row   load {os.getloadavg()[0]:.1f}{verdict}"
            )
    finally:
        spark.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="the best round counts")
    parser.add_argument("--flush", choices=("async", "sync"), default="async", help="flushDiskType of the broker")
    parser.add_argument("--json", help="file for the result; - is standard output")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        log = Path(scratch) / "server.log"
        with processes.server(Path(scratch) / "store", chosen.flush, log) as running:
            rows = measure(running, chosen.rows, chosen.body_bytes, chosen.rounds)
    text = json.dumps({"body_bytes": chosen.body_bytes, "rows": chosen.rows, "ways": rows}, indent=2) + "\n"
    if chosen.json == "-":
        sys.stdout.write(text)
    elif chosen.json:
        Path(chosen.json).write_text(text)


if __name__ == "__main__":
    main()
