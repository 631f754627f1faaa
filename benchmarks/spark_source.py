"""Rows per second of the Spark source, beside other ways to get the same rows into the same Spark session.

    python -m benchmarks.spark_source [--messages 1000000] [--body-bytes 200] [--quick] [--json FILE]

Everything (broker, Spark, its Python workers) shares this machine. Absolute figures depend on the machine and on what
else runs there, so compare the ratios, which the last lines print beside their goals. With other programs running, the
ratios by processor time say more. Kafka's rows are left out where Maven cannot fetch Kafka's broker and Spark's
connector for it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import processes, spark_kafka, spark_rivals
from benchmarks.spark_latency import single_messages
from benchmarks.spark_topics import COMPRESSED, LARGE, TOPIC, fill, fill_large, pull_load, pulled
from gantrymq.client.sync import PullConsumer
from gantrymq.spark.columns.rows import DEFAULT_COLUMNS

FLOOR_ROWS = 250_000
PLAIN = "topic,queue_id,queue_offset,body,born_timestamp"
TAGS_KEYS = f"{PLAIN},tags,keys"
PROPERTIES = f"{PLAIN},properties"
DEFAULT = ",".join(DEFAULT_COLUMNS)
LARGE_SHARE = 20
"""Messages with large bodies are a twentieth of the others."""
SMALL_ROWS = 250
"""The number of messages of each queue in a small read."""
SMALL_READS = 30
KAFKA_PLAIN = "topic,partition,offset,value,timestamp"
KAFKA_DEFAULT = f"{KAFKA_PLAIN},key,timestampType"


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio of two rows: how many times the rows per second of ``second`` those of ``first`` are."""

    name: str
    first: str
    second: str
    least: float
    """0: only to be known."""


GOALS = (
    Goal("of an Arrow source of pre-built batches, while the topic is pulled", "body and place",
         "Arrow source, with an equal pull load", 0.6),
    Goal("of the same Arrow source alone", "body and place", "Arrow source", 0),
    Goal("of Kafka's connector, body and place", "body and place", "Kafka, body and place", 7),
    Goal("of Kafka's connector, default columns", "default columns", "Kafka, default columns", 5),
    Goal("of Kafka's connector, properties (headers there)", "properties too", "Kafka, headers too", 3),
    Goal("of Kafka's connector, stream", "stream", "Kafka, stream", 2.5),
    Goal("tags and keys: at most 1.2 times the cost of body and place", "tags and keys too", "body and place", 1 / 1.2),
    Goal("properties: at most 2 times the cost", "properties too", "body and place", 0.5),
    Goal("compressed bodies: at most 2 times the cost", "large bodies, compressed", "large bodies", 0.5),
)  # fmt: skip
LATENCY_GOALS_MS = {"p50_ms": 50, "p95_ms": 150}


def tell(text: str) -> None:
    """Print a text for the user on standard error, because standard output may be the result."""
    print(text, file=sys.stderr, flush=True)


def decode(columns: str) -> Callable[[bytes], int]:
    from gantrymq.spark.columns.decode import Records

    names = columns.split(",")
    return lambda data: int(Records.scan(data).batch(names, TOPIC, "b").num_rows)


def seconds_of(frame: Any) -> float:
    """The time of a batch that discards the rows."""
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def _seconds_to_decode(name_servers: str, columns: str) -> float:
    return pulled(name_servers, decode(columns))[1]


def seconds_of_stream(frame: Any) -> float:
    """The time of a stream that reads what is there, from its start to its end, and discards the rows."""
    checkpoint = tempfile.mkdtemp(prefix="gantry-bench-checkpoint-")
    begin = time.perf_counter()
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begin
    shutil.rmtree(checkpoint, ignore_errors=True)
    return seconds


class Measured:
    """What is measured in one Spark session: rows and seconds by name."""

    def __init__(self, spark: Any, name_servers: str, messages: int, body_bytes: int) -> None:
        self.spark = spark
        self.name_servers = name_servers
        self.messages = messages
        self.body_bytes = body_bytes
        self.ways: dict[str, tuple[int, Callable[[], float]]] = {}
        """By name: how many messages are read, and a function that reads them and gives the seconds."""
        self.rows: dict[str, dict[str, float]] = {}

    def frame(self, columns: str, topic: str = TOPIC) -> Any:
        options = {"nameServers": self.name_servers, "subscribe": topic, "columns": columns}
        return self.spark.read.format("rocketmq").options(**options).load()

    def _seconds(self, columns: str) -> float:
        return seconds_of(self.frame(columns))

    def add_ours(self) -> None:
        """The rows of our source, and the same work without Spark."""
        servers, count, ways = self.name_servers, self.messages, self.ways
        ways["bare pull"] = count, lambda: pulled(servers, lambda data: 0)[1]
        decoded = {"body and place": PLAIN, "tags and keys too": TAGS_KEYS, "properties too": PROPERTIES}
        for name, columns in decoded.items():
            ways[f"pull and decode, {name}"] = count, partial(_seconds_to_decode, servers, columns)
        for name, columns in {**decoded, "default columns": DEFAULT}.items():
            ways[name] = count, partial(self._seconds, columns)
        large = count // LARGE_SHARE
        ways["large bodies"] = large, lambda: seconds_of(self.frame(PLAIN, LARGE))
        ways["large bodies, compressed"] = large, lambda: seconds_of(self.frame(PLAIN, COMPRESSED))
        options = {"nameServers": servers, "subscribe": TOPIC, "columns": PLAIN, "startingOffsets": "earliest"}
        stream = self.spark.readStream.format("rocketmq").options(**options).load
        ways["stream"] = count, lambda: seconds_of_stream(stream())

    def add_rivals(self, scratch: Path) -> None:
        """The same rows from elsewhere."""
        self.spark.dataSource.register(spark_rivals.Prebuilt)

        def arrow(columns: str) -> Any:
            options = {"columns": columns, "rows": str(self.messages), "bodyBytes": str(self.body_bytes)}
            return self.spark.read.format("prebuilt").options(**options).load()

        prebuilt, with_texts = arrow(PLAIN), arrow(TAGS_KEYS)
        self.ways["Arrow source"] = self.messages, lambda: seconds_of(prebuilt)
        self.ways["Arrow source, tags and keys too"] = self.messages, lambda: seconds_of(with_texts)

        def with_load() -> float:
            with pull_load(self.name_servers, scratch / "pull.log") as start:
                start()
                return seconds_of(prebuilt)

        self.ways["Arrow source, with an equal pull load"] = self.messages, with_load
        files = scratch / "parquet"
        spark_rivals.write_parquet(files, PLAIN, self.messages, self.body_bytes)
        self.ways["Parquet"] = self.messages, lambda: seconds_of(self.spark.read.parquet(str(files)))

    def add_kafka(self, address: str) -> None:
        """Spark's Kafka connector."""
        spark, count, ways = self.spark, self.messages, self.ways

        def batch(columns: str, *, headers: bool = False) -> Callable[[], float]:
            return lambda: seconds_of(spark_kafka.read(spark, address, columns, headers=headers))

        ways["Kafka, body and place"] = count, batch(KAFKA_PLAIN)
        ways["Kafka, default columns"] = count, batch(KAFKA_DEFAULT)
        ways["Kafka, headers too"] = count, batch(f"{KAFKA_PLAIN},headers", headers=True)
        ways["Kafka, stream"] = count, lambda: seconds_of_stream(spark_kafka.stream(spark, address, KAFKA_PLAIN))

    def run(self, rounds: int) -> None:
        """All ways in turns, so that other programs disturb all of them alike; the best round of each counts.

        A first round warms Spark up and is not counted. Processor time: of the brokers, of Spark and of its workers.
        """
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in self.ways}
        for number in range(rounds + 1):
            for name, (_, way) in self.ways.items():
                before = processes.family_cpu_s()
                seconds = way()
                if number:
                    taken[name].append((seconds, processes.family_cpu_s() - before))
            tell(f"round {number} of {rounds}: load {os.getloadavg()[0]:.1f}")
        bare = self.ways["bare pull"][0] / min(taken["bare pull"])[0]
        for name, (messages, _) in self.ways.items():
            rate = messages / min(taken[name])[0]
            # The median, as the time of a worker that Spark ends may be missing in one of the rounds.
            cpu_us = statistics.median(cpu_s for _, cpu_s in taken[name]) / messages * 1e6
            self.rows[name] = {
                "rows_per_second": round(rate), "of_bare_pull": round(rate / bare, 3), "cpu_us": round(cpu_us, 3)
            }  # fmt: skip
            tell(f"{name:42} {rate:>12,.0f} rows/s   {rate / bare:5.2f} of the bare pull   cpu {cpu_us:7.3f} us/row")

    def small_reads(self) -> dict[str, float]:
        """Median and 99th percentile, in ms, of a Spark job that reads a small range: the least time of any read."""
        with PullConsumer(name_servers=self.name_servers) as consumer:
            ends: dict[str, dict[str, int]] = {}
            for queue in consumer.queues(TOPIC):
                ends.setdefault(queue.broker_name, {})[str(queue.queue_id)] = SMALL_ROWS
        options = {"nameServers": self.name_servers, "subscribe": TOPIC, "columns": PLAIN}
        ending = json.dumps({TOPIC: ends})
        frame = self.spark.read.format("rocketmq").options(**options, endingOffsets=ending).load()
        taken = sorted(seconds_of(frame) * 1000 for _ in range(SMALL_READS))
        return {"p50_ms": round(taken[len(taken) // 2], 1), "p99_ms": round(taken[int(len(taken) * 0.99)], 1)}


def judge(rows: dict[str, dict[str, float]], latency: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Every goal with what was measured; None where it could not be. ``by_cpu``: the ratio by processor time, which
    other programs on the machine change less."""
    found: dict[str, dict[str, Any]] = {}
    for goal in GOALS:
        first, second = rows.get(goal.first), rows.get(goal.second)
        ratio = by_cpu = None
        if first and second:
            ratio = round(first["rows_per_second"] / second["rows_per_second"], 3)
            # The time of a process is lost with a parent that did not wait for it; the rest may be less than before.
            known = min(first["cpu_us"], second["cpu_us"]) > 0
            by_cpu = round(second["cpu_us"] / first["cpu_us"], 3) if known else None
        verdict = "unavailable" if ratio is None else "reached" if ratio >= goal.least else "NOT reached"
        if ratio is not None and not goal.least:
            verdict = "no goal"
        found[goal.name] = {"ratio": ratio, "by_cpu": by_cpu, "goal": round(goal.least, 3), "verdict": verdict}
    for name, most in LATENCY_GOALS_MS.items():
        verdict = "reached" if latency[name] <= most else "NOT reached"
        found[f"a single message, {name}"] = {
            "ratio": latency[name], "by_cpu": None, "goal": most, "verdict": verdict,
        }  # fmt: skip
    for name, row in found.items():
        tell(
            f"{name:70} {row['ratio']!s:>8}   by processor time {row['by_cpu']!s:>7}   goal {row['goal']:<6}   "
            f"{row['verdict']}"
        )
    return found


def measure(name_servers: str, scratch: Path, chosen: argparse.Namespace, messages: int) -> dict[str, Any]:
    """Everything, in one Spark session."""
    from gantrymq.spark import spark_session

    seconds = asyncio.run(fill(name_servers, messages, chosen.body_bytes))
    tell(f"filled with {messages:,} messages in {seconds:.1f} s ({messages / seconds:,.0f}/s)")
    jars = spark_kafka.jars_or_none(tell) if chosen.kafka else None
    spark = spark_session("spark_source benchmark", master="local[2]", conf=spark_kafka.session_conf(jars))
    measured = Measured(spark, name_servers, messages, chosen.body_bytes)
    try:
        asyncio.run(fill_large(name_servers, messages // LARGE_SHARE))
        measured.add_ours()
        measured.add_rivals(scratch)
        with spark_kafka.broker_or_none(jars, scratch / "kafka", tell) as address:
            if address is not None:
                spark_kafka.fill(spark, address, messages, chosen.body_bytes)
                measured.add_kafka(address)
            measured.run(chosen.rounds)
        small = measured.small_reads()
        tell(f"{SMALL_ROWS} messages of each queue: {small}")
        latency = single_messages(spark, name_servers, str(scratch / "latency"))
        goals = judge(measured.rows, latency)
    finally:
        spark.stop()
    return {"rows": measured.rows, "small_reads": small, "single_messages": latency, "goals": goals}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the first; the best one counts")
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages; figures are rough")
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="leave Kafka's rows out")
    parser.add_argument("--json", help="file for the result; - is standard output")
    chosen = parser.parse_args()
    messages = chosen.messages // 5 if chosen.quick else chosen.messages
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        log = Path(scratch) / "server.log"
        with processes.server(Path(scratch) / "store", "async", log) as running:
            found = measure(running.name_server, Path(scratch), chosen, messages)
    reached = found["rows"]["body and place"]["rows_per_second"] >= FLOOR_ROWS
    result = {
        "body_bytes": chosen.body_bytes, "messages": messages, "load_before": round(load, 1), "floor": FLOOR_ROWS,
        "floor_reached": reached, **found,
    }  # fmt: skip
    text = json.dumps(result, indent=2) + "\n"
    if chosen.json == "-":
        sys.stdout.write(text)
    elif chosen.json:
        Path(chosen.json).write_text(text)
    tell(f"floor {FLOOR_ROWS:,} rows/s: {'reached' if reached else 'NOT reached'}")


if __name__ == "__main__":
    main()
