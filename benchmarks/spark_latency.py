"""How long a single message takes from its send until the function of a stream has its row, and what Spark does then.

    python -m benchmarks.spark_latency [--pairs N]

The same function also gets single rows of Spark's own source ``rate``, which is Java and reads nothing: its batches
show what Spark needs in any case. The steps are those that Spark names in the progress of a query, medians in ms.

With ``--pairs`` the stream runs in turns with and without the settings that docs/spark-speed.md recommends for single
messages, in one session. Each line is one run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import processes
from gantrymq import Message, Producer

MESSAGES = 150
WARM_UP = 20
"""Messages before those that count."""
PAUSE_S = (0.05, 0.25)
RATE_S = 20
"""How long single rows of Spark's own source are counted, some in a second."""
TOPIC = "SparkLatency"
WAIT_S = 60.0
QUICK_OPTIONS = {"pollInterval": "1ms"}
QUICK_CONF = {
    "spark.sql.streaming.pollingDelay": "1ms",
    # At a start of Spark: spark.hadoop.fs.file.impl. The second one lets a session that runs change it.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def steps_of(query: Any) -> dict[str, float]:
    """Of the batches that had rows: the median of each step, ms."""
    batches = [progress.durationMs for progress in query.recentProgress if progress.numInputRows]
    names = sorted({name for steps in batches for name in steps})
    return {name: statistics.median([steps.get(name, 0) for steps in batches]) for name in names}


def rows_of_spark(spark: Any, checkpoint: str) -> dict[str, float]:
    """The steps of batches with single rows of Spark's own source."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    stream = rows.writeStream.foreachBatch(lambda frame, _batch: frame.collect())
    query = stream.option("checkpointLocation", checkpoint).start()
    try:
        time.sleep(RATE_S)
        return steps_of(query)
    finally:
        query.stop()


def single_messages(spark: Any, name_servers: str, checkpoint: str) -> dict[str, float]:
    """Median and 95th percentile in ms. Every message comes alone, at a time that the stream cannot know."""
    return timed(spark, name_servers, checkpoint)[0]


def timed(
    spark: Any, name_servers: str, checkpoint: str, more: Mapping[str, str] | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """``single_messages``, and the steps of its batches. ``more``: options of the source."""
    taken: list[float] = []
    all_there = threading.Event()

    def take(frame: Any, _batch: int) -> None:
        rows = frame.collect()
        now = time.time()
        taken.extend(now - float(row.body.decode()) for row in rows)
        if len(taken) >= MESSAGES + WARM_UP:
            all_there.set()

    with Producer("bench-latency", name_servers=name_servers) as producer:
        producer.send(Message(TOPIC, b"0"))
        options = {"nameServers": name_servers, "subscribe": TOPIC, "columns": "body", "startingOffsets": "latest"}
        options |= more or {}
        stream = spark.readStream.format("rocketmq").options(**options).load().writeStream.foreachBatch(take)
        query = stream.option("checkpointLocation", checkpoint).start()
        try:
            while not query.lastProgress:
                time.sleep(0.2)
            chance = random.Random(1)
            for _ in range(MESSAGES + WARM_UP):
                time.sleep(chance.uniform(*PAUSE_S))
                producer.send(Message(TOPIC, repr(time.time()).encode()))
            all_there.wait(WAIT_S)
            steps = steps_of(query)
        finally:
            query.stop()
    times = sorted(seconds * 1000 for seconds in taken[WARM_UP:])
    if len(times) < MESSAGES:
        raise SystemExit(f"only {len(times)} of {MESSAGES} messages came")
    found = {"p50_ms": round(times[len(times) // 2], 1), "p95_ms": round(times[int(len(times) * 0.95)], 1)}
    return found, steps


def pairs(spark: Any, name_servers: str, scratch: str, count: int) -> None:
    """In turns without and with the recommended settings."""
    for number in range(count):
        print_run("as it is", *timed(spark, name_servers, f"{scratch}/{number}"))
        for key, value in QUICK_CONF.items():
            spark.conf.set(key, value)
        print_run("for single messages", *timed(spark, name_servers, f"{scratch}/{number}-quick", QUICK_OPTIONS))
        for key in QUICK_CONF:
            spark.conf.unset(key)


def print_run(title: str, found: Mapping[str, float], steps: Mapping[str, float]) -> None:
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"settings": title, **found, "steps_ms": steps, "load": load}), flush=True)


def main() -> None:
    from gantrymq.spark import spark_session

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=0, help="so many runs with and without the recommended settings")
    count = parser.parse_args().pairs

    with (
        tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch,
        processes.server(Path(scratch) / "store", "async", Path(scratch) / "server.log") as running,
    ):
        spark = spark_session("spark_latency benchmark", master="local[2]")
        try:
            rows_of_spark(spark, f"{scratch}/warm")
            if count:
                timed(spark, running.name_server, f"{scratch}/first")
                pairs(spark, running.name_server, scratch, count)
                return
            before = rows_of_spark(spark, f"{scratch}/before")
            found, ours = timed(spark, running.name_server, f"{scratch}/ours")
            behind = rows_of_spark(spark, f"{scratch}/behind")
        finally:
            spark.stop()
    rate = {name: (before.get(name, 0) + behind[name]) / 2 for name in behind}
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({**found, "steps_ms": ours, "steps_of_rate_ms": rate, "load": load}, indent=2))


if __name__ == "__main__":
    main()
