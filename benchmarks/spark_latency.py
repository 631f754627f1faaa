"""How long a single message takes from its send until the function of a stream has its row."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from gantrymq import Message, Producer

MESSAGES = 150
WARM_UP = 20
"""Messages before those that count."""
PAUSE_S = (0.05, 0.25)
TOPIC = "SparkLatency"
WAIT_S = 60.0


def single_messages(spark: Any, name_servers: str, checkpoint: str) -> dict[str, float]:
    """Median and 95th percentile in ms. Every message comes alone, at a time that the stream cannot know."""
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
        finally:
            query.stop()
    times = sorted(seconds * 1000 for seconds in taken[WARM_UP:])
    if len(times) < MESSAGES:
        raise SystemExit(f"only {len(times)} of {MESSAGES} messages came")
    return {"p50_ms": round(times[len(times) // 2], 1), "p95_ms": round(times[int(len(times) * 0.95)], 1)}
