"""Rows per second of the Spark sink, compared with Python programs that send to the same broker in the same run.

    python -m benchmarks.spark_sink [--rows 200000] [--body-bytes 200] [--rounds 3] [--flush async] [--no-kafka]
        [--only TEXT] [--json FILE]

Everything (broker, Spark, its Python workers) shares this machine. Absolute figures depend on the machine and on what
else runs there, so compare the ratios, and look at the processor time of the broker for each row. The goals, with two
cores and bodies of 200 bytes, are 60,000 rows per second with at_least_once and 30,000 with exactly_once, and at least
as many as Spark's Kafka sink writes in the same session. Kafka's row is left out, and that goal is "unavailable", where
Maven cannot fetch Kafka's broker and Spark's connector for it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import processes, spark_kafka
from gantrymq import aio

GOALS = {"spark, at_least_once": 60_000, "spark, exactly_once": 30_000}
SEND = "Producer.send, 64 at once"
KAFKA = "spark, Kafka's sink"
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


def prepared(spark: Any, rows: int, body_bytes: int) -> Any:
    """The rows that are written, in the memory of Spark."""
    from pyspark.sql import functions

    text = functions.rpad(functions.col("id").cast("string"), body_bytes, "x")
    frame = spark.range(0, rows, 1, 2).select(text.cast("binary").alias("body")).cache()
    frame.count()
    return frame


class Measured:
    """What is measured in one Spark session: ways to write by name, and their figures."""

    def __init__(self, spark: Any, running: processes.Running, rows: int, body_bytes: int) -> None:
        self._running = running
        self._body = b"x" * body_bytes
        self._rows = rows
        self._spark = spark
        self._frame = prepared(spark, rows, body_bytes)
        self._ways: dict[str, tuple[int, Callable[[str], None], Callable[[str], int]]] = {}
        """By name: how many messages it writes, how it writes them to a topic, and how many are there."""
        self.found: dict[str, dict[str, float]] = {}

    def add_ours(self) -> None:
        """The sink with both guarantees, and Python programs that send to the same broker."""
        servers, body, rows, frame, ways = self._running.name_server, self._body, self._rows, self._frame, self._ways
        single = rows // SINGLE_SHARE
        there = partial(messages_in, servers)
        ways[SEND] = single, lambda topic: asyncio.run(one_by_one(servers, topic, single, body)), there
        ways["Producer.send_batch"] = rows, lambda topic: asyncio.run(in_batches(servers, topic, rows, body)), there
        ways["spark, noop"] = rows, lambda _: frame.write.format("noop").mode("overwrite").save(), lambda _: rows
        for guarantee in ("at_least_once", "exactly_once"):
            ways[f"spark, {guarantee}"] = rows, partial(self._write, guarantee), there

    def _write(self, guarantee: str, topic: str) -> None:
        write(self._frame, self._running.name_server, topic, guarantee)

    def add_kafka(self, address: str) -> None:
        """Spark's own sink for Kafka. It promises at_least_once."""

        def there(topic: str) -> int:
            return int(spark_kafka.read(self._spark, address, "offset", topic=topic).count())

        self._ways[KAFKA] = self._rows, partial(spark_kafka.write_bodies, self._frame, address), there

    def run(self, rounds: int, only: str = "") -> None:
        """The best of ``rounds`` counts, of the ways whose names contain ``only``. The number of messages is checked
        after each.

        ``cpu_us``: processor time for a row of this program, of the brokers, of Spark and of its workers;
        ``broker_cpu_us``: of our broker, thus 0 of Kafka's row.
        """
        for name, (count, way, there) in self._ways.items():
            if only not in name:
                continue
            best, broker_cpu, cpu = 0.0, float("inf"), float("inf")
            for turn in range(rounds):
                topic = f"Sink-{len(self.found)}-{turn}"
                of_broker, of_all, begin = self._running.cpu_s(), processes.family_cpu_s(), time.perf_counter()
                way(topic)
                best = max(best, count / (time.perf_counter() - begin))
                cpu = min(cpu, (processes.family_cpu_s() - of_all) / count * 1e6)
                broker_cpu = min(broker_cpu, (self._running.cpu_s() - of_broker) / count * 1e6)
                if (number := there(topic)) != count:
                    raise SystemExit(f"{name}: {number} messages are in the topic instead of {count}")
            plain = self.found.get(SEND, {"rows_per_second": best})["rows_per_second"]
            self.found[name] = {
                "rows_per_second": round(best), "of_producer_send": round(best / plain, 2),
                "broker_cpu_us": round(broker_cpu, 1), "cpu_us": round(cpu, 1),
            }  # fmt: skip
            goal = GOALS.get(name, 0)
            verdict = f"   goal {goal:,}: {'reached' if best >= goal else 'NOT reached'}" if goal else ""
            tell(
                f"{name:28} {best:>10,.0f} rows/s   {best / plain:6.2f} of Producer.send   broker {broker_cpu:5.1f} "
                f"us/row   all {cpu:5.1f} us/row   load {os.getloadavg()[0]:.1f}{verdict}"
            )


def beside_kafka(found: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Any]]:
    """How many times the rows per second of Kafka's sink ours writes, and how many times the processor time of ours
    Kafka's takes; None where there is no Kafka. The goal is 1 for each guarantee."""
    judged: dict[str, dict[str, Any]] = {}
    kafka = found.get(KAFKA)
    for name in GOALS:
        if name not in found:
            continue
        ratio = by_cpu = None
        if kafka is not None:
            ratio = round(found[name]["rows_per_second"] / kafka["rows_per_second"], 2)
            by_cpu = round(kafka["cpu_us"] / found[name]["cpu_us"], 2) if found[name]["cpu_us"] > 0 else None
        verdict = "unavailable" if ratio is None else "reached" if ratio >= 1 else "NOT reached"
        judged[name] = {"of_kafka": ratio, "by_cpu": by_cpu, "verdict": verdict}
        tell(f"{name}, of Kafka's sink: {ratio}   by processor time {by_cpu}   goal 1: {verdict}")
    return judged


def measure(running: processes.Running, scratch: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Every way to write, in one Spark session."""
    from gantrymq.spark import spark_session

    jars = spark_kafka.jars_or_none(tell) if chosen.kafka else None
    spark = spark_session("spark_sink benchmark", master="local[2]", conf=spark_kafka.session_conf(jars))
    try:
        measured = Measured(spark, running, chosen.rows, chosen.body_bytes)
        measured.add_ours()
        with spark_kafka.broker_or_none(jars, scratch / "kafka", tell) as address:
            if address is not None:
                measured.add_kafka(address)
            measured.run(chosen.rounds, chosen.only)
    finally:
        spark.stop()
    return {"ways": measured.found, "beside_kafka": beside_kafka(measured.found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="the best round counts")
    parser.add_argument("--flush", choices=("async", "sync"), default="async", help="flushDiskType of the broker")
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="leave Kafka's sink out")
    parser.add_argument("--only", default="", help="measure only the ways whose names contain this text")
    parser.add_argument("--json", help="file for the result; - is standard output")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        log = Path(scratch) / "server.log"
        with processes.server(Path(scratch) / "store", chosen.flush, log) as running:
            found = measure(running, Path(scratch), chosen)
    text = json.dumps({"body_bytes": chosen.body_bytes, "rows": chosen.rows, **found}, indent=2) + "\n"
    if chosen.json == "-":
        sys.stdout.write(text)
    elif chosen.json:
        Path(chosen.json).write_text(text)


if __name__ == "__main__":
    main()
