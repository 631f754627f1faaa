"""Rows per second of the Spark source, compared with a Python program that pulls from the same broker in the same run.

    python -m benchmarks.spark_source [--messages 1000000] [--body-bytes 200] [--quick] [--json FILE]

Everything (broker, Spark, its Python workers) shares this machine. Absolute figures depend on the machine, so compare
the ratios to the pull program. The first release must reach 250,000 rows per second with bodies of 200 bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import processes
from gantrymq import aio
from gantrymq.client.sync import PullConsumer

TOPIC = "SparkBench"
BATCH = 400
"""Messages a send; the topic is filled with batches because filling is not what is measured."""
FLOOR_ROWS = 250_000
PLAIN = "topic,queue_id,queue_offset,body,born_timestamp"
PROPERTIES = f"{PLAIN},properties"
ALL = "topic,queue_id,queue_offset,body,tags,keys,message_id,born_timestamp"


SMALL_ROWS = 250
"""The number of messages of each queue in a small read."""
SMALL_READS = 30


async def fill(name_servers: str, messages: int, body_bytes: int) -> float:
    """Send the messages. Returns the time in seconds."""
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


def decode(columns: str) -> Callable[[bytes], int]:
    from gantrymq.spark.decode import Records

    names = columns.split(",")
    return lambda data: int(Records.scan(data).batch(names, TOPIC, "b").num_rows)


def spark_rows(spark: Any, name_servers: str, columns: str) -> tuple[int, float]:
    """(rows, seconds) of a batch that reads the topic and discards the rows."""
    options = {"nameServers": name_servers, "subscribe": TOPIC, "columns": columns}
    frame = spark.read.format("rocketmq").options(**options).load()
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - begin
    return 0, seconds


def small_reads(spark: Any, name_servers: str) -> dict[str, float]:
    """Median and 99th percentile, in ms, of a Spark job that reads a small range: the least time of any read."""
    with PullConsumer(name_servers=name_servers) as consumer:
        ends: dict[str, dict[str, int]] = {}
        for queue in consumer.queues(TOPIC):
            ends.setdefault(queue.broker_name, {})[str(queue.queue_id)] = SMALL_ROWS
    options = {"nameServers": name_servers, "subscribe": TOPIC, "columns": PLAIN}
    frame = spark.read.format("rocketmq").options(**options, endingOffsets=json.dumps({TOPIC: ends})).load()
    taken = []
    for _ in range(SMALL_READS):
        begin = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        taken.append((time.perf_counter() - begin) * 1000)
    taken.sort()
    return {"p50_ms": round(taken[len(taken) // 2], 1), "p99_ms": round(taken[int(len(taken) * 0.99)], 1)}


def tell(text: str) -> None:
    """Print a text for the user on standard error, because standard output may be the result."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="the best round counts")
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages; figures are rough")
    parser.add_argument("--json", help="file for the result; - is standard output")
    chosen = parser.parse_args()
    messages = chosen.messages // 5 if chosen.quick else chosen.messages
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        log = Path(scratch) / "server.log"
        with processes.server(Path(scratch) / "store", "async", log) as running:
            rows = measure(running.name_server, messages, chosen.body_bytes, chosen.rounds)
    reached = rows["spark, body and place"]["rows_per_second"] >= FLOOR_ROWS
    result = {"body_bytes": chosen.body_bytes, "messages": messages, "floor": FLOOR_ROWS, "rows": rows}
    text = json.dumps({**result, "floor_reached": reached}, indent=2) + "\n"
    if chosen.json == "-":
        sys.stdout.write(text)
    elif chosen.json:
        Path(chosen.json).write_text(text)
    tell(f"floor {FLOOR_ROWS:,} rows/s: {'reached' if reached else 'NOT reached'}")


def measure(name_servers: str, messages: int, body_bytes: int, rounds: int) -> dict[str, dict[str, float]]:
    """Measure every way to read the topic: the best of ``rounds``, with its ratio to the pull program."""
    from gantrymq.spark import spark_session

    seconds = asyncio.run(fill(name_servers, messages, body_bytes))
    tell(f"filled with {messages:,} messages in {seconds:.1f} s ({messages / seconds:,.0f}/s)")
    spark = spark_session("spark_source benchmark")
    ways: dict[str, Callable[[], tuple[int, float]]] = {
        "bare pull": lambda: pulled(name_servers, lambda data: 0),
        "pull and decode, body and place": lambda: pulled(name_servers, decode(PLAIN)),
        "pull and decode, tags, keys and id too": lambda: pulled(name_servers, decode(ALL)),
        "pull and decode, properties too": lambda: pulled(name_servers, decode(PROPERTIES)),
        "spark, body and place": lambda: spark_rows(spark, name_servers, PLAIN),
        "spark, tags, keys and id too": lambda: spark_rows(spark, name_servers, ALL),
        "spark, properties too": lambda: spark_rows(spark, name_servers, PROPERTIES),
    }
    found: dict[str, dict[str, float]] = {}
    try:
        for name, way in ways.items():
            rate = (messages + 1) / min(way()[1] for _ in range(rounds))
            found[name] = {"rows_per_second": round(rate)}
            found[name]["of_bare_pull"] = round(rate / found["bare pull"]["rows_per_second"], 3)
            tell(f"{name:40} {rate:>12,.0f} rows/s   {found[name]['of_bare_pull']:.2f} of the bare pull")
        found["spark, small reads"] = small_reads(spark, name_servers)
        tell(f"spark, {SMALL_ROWS} messages of each queue: {found['spark, small reads']}")
    finally:
        spark.stop()
    return found


if __name__ == "__main__":
    main()
