"""Real Spark that reads a topic, while something happens to its broker or its topic.

    python -m tests.spark.source.break_broker [CASE ...]

Each case has a broker of its own and a stream that is slow on purpose: batches of at most 100 messages. All cases share
one Spark session. They take about four minutes, one of them in which the broker is away; ``test_faults.py`` has short
ones without Spark.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gantrymq import Message, Producer
from gantrymq.spark.pipelines.run.running import reached_by
from tests.interop.ours import GantryCluster
from tests.kill.server import Server
from tests.spark.sink.topics import bodies
from tests.spark.source.brokers import expire_log, fill_log_files, make_again
from tests.spark.source.points import TOPIC, fill, make_topic, verdict_of

WAIT_S = 240.0
AWAY_S = 60.0
IDLE_S = 75.0
"""Longer than a worker of Spark stays without work."""


WRITTEN = "Written"


class Stream:
    """A running query, and the bodies that it has read."""

    def __init__(self, spark: Any, server: Server, checkpoint: Path, sink: str | None = None, **options: str) -> None:
        """``sink``: a topic that gets the rows; None: this object collects them."""
        self.bodies: list[str] = []
        given = {
            "nameServers": server.name_servers, "subscribe": TOPIC, "startingOffsets": "earliest",
            "columns": "body", "maxOffsetsPerTrigger": "100", "discoveryInterval": "1s", **options,
        }  # fmt: skip
        writer = spark.readStream.format("rocketmq").options(**given).load().writeStream
        if sink is None:
            writer = writer.foreachBatch(self._take)
        else:
            writer = writer.format("rocketmq").options(nameServers=server.name_servers, topic=sink)
        writer = writer.option("checkpointLocation", str(checkpoint))
        self.query = writer.trigger(processingTime="0 seconds").start()

    def _take(self, frame: Any, number: int) -> None:
        self.bodies += [bytes(row["body"]).decode().strip() for row in frame.collect()]

    def wait_for(self, count: int) -> None:
        """Until so many rows came, or the query failed."""
        wait_until(lambda: len(self.bodies) >= count or not self.query.isActive)

    def error(self) -> str:
        """The error of the query, when it fails within some minutes."""
        wait_until(lambda: not self.query.isActive)
        return str(self.query.exception() or "the query did not fail")


def wait_until(holds: Callable[[], bool]) -> None:
    """Until it holds, but no longer than WAIT_S: the verdict says what is missing then."""
    end = time.monotonic() + WAIT_S
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)


def verdict(stream: Stream, rows: list[str]) -> str:
    stream.wait_for(len(rows))
    error = stream.query.exception()
    return f"failed: {error}" if error else verdict_of(stream.bodies, [row.strip() for row in rows])


Start = Callable[..., Stream]


def restarted(server: Server, start: Start) -> str:
    rows = fill(server.name_servers, TOPIC, 2000)
    stream = start()
    for goal in (200, 900):
        stream.wait_for(goal)
        server.kill()
        server.start()
    rows += fill(server.name_servers, TOPIC, 200, "later")
    return verdict(stream, rows)


def away(server: Server, start: Start) -> str:
    rows = fill(server.name_servers, TOPIC, 2000)
    stream = start()
    stream.wait_for(200)
    server.kill()
    time.sleep(AWAY_S)
    server.start()
    rows += fill(server.name_servers, TOPIC, 200, "later")
    return verdict(stream, rows)


def away_from_the_sink(server: Server, start: Start) -> str:
    """The same with a query that writes what it reads to another topic, exactly once."""
    rows = fill(server.name_servers, TOPIC, 1000)
    query = start(sink=WRITTEN).query
    wait_until(lambda: len(bodies(server.name_servers, WRITTEN)) >= 200 or not query.isActive)
    server.kill()
    time.sleep(AWAY_S)
    server.start()
    rows += fill(server.name_servers, TOPIC, 200, "later")
    wait_until(lambda: len(bodies(server.name_servers, WRITTEN)) >= len(rows) or not query.isActive)
    error = query.exception()
    return f"failed: {error}" if error else verdict_of(bodies(server.name_servers, WRITTEN), rows)


def overtaken(server: Server, start: Start) -> str:
    fill_log_files(server, TOPIC)
    stream = start()
    stream.wait_for(200)
    expire_log(server)
    error = stream.error()
    return "fails and names the messages" if "cannot be read" in error else error[-500:]


def overtaken_lenient(server: Server, start: Start) -> str:
    rows = [row.strip() for row in fill_log_files(server, TOPIC)]
    stream = start(failOnDataLoss="false", maxOffsetsPerTrigger="500")
    stream.wait_for(200)
    expire_log(server)
    last = [row.strip() for row in fill(server.name_servers, TOPIC, 100, "last")]
    wait_until(lambda: set(last) <= set(stream.bodies) or not stream.query.isActive)
    found, possible = stream.bodies, {*rows, *last}
    good = set(last) <= set(found) <= possible and len(found) == len(set(found)) < len(possible)
    return f"goes on behind the gap, each row once ({len(possible) - len(found)} lost)" if good else "wrong rows"


def made_again(server: Server, start: Start) -> str:
    rows = fill(server.name_servers, TOPIC, 300)
    stream = start(readTimeout="5s")
    stream.wait_for(len(rows))
    make_again(server, TOPIC, 2)
    error = stream.error()
    return "fails and says so" if "end before what was already read" in error else error[-500:]


def made_again_lenient(server: Server, start: Start) -> str:
    rows = fill(server.name_servers, TOPIC, 300)
    stream = start(readTimeout="5s", failOnDataLoss="false")
    stream.wait_for(len(rows))
    make_again(server, TOPIC, 2)
    wait_until(lambda: not sum(reached_by(stream.query).values()))
    rows += fill(server.name_servers, TOPIC, 150, "new")
    return verdict(stream, rows)


def grown(server: Server, start: Start) -> str:
    rows = fill(server.name_servers, TOPIC, 300)
    stream = start()
    stream.wait_for(len(rows))
    make_topic(server.name_servers, TOPIC, 6)
    rows += fill(server.name_servers, TOPIC, 300, "grown")
    return verdict(stream, rows)


def without_name_servers(server: Server, start: Start) -> str:
    """Its name server is another process than its broker. Workers of Spark that are idle end after a minute, and new
    ones know no broker."""
    with tempfile.TemporaryDirectory(prefix="break-broker-") as root:
        cluster = GantryCluster(Path(root))
        try:
            names = cluster.start_name_server()
            cluster.start_broker()
            make_topic(cluster.name_servers)
            rows = fill(cluster.name_servers, TOPIC, 300)
            stream = start(nameServers=cluster.name_servers)
            stream.wait_for(len(rows))
            with Producer("open", name_servers=cluster.name_servers) as producer:
                producer.send(Message(TOPIC, "before"))
                names.kill()
                time.sleep(IDLE_S)
                after = [f"after {number}" for number in range(10)]
                for body in after:
                    producer.send(Message(TOPIC, body))
                return verdict(stream, [*rows, "before", *after])
        finally:
            cluster.close()


CASES: dict[str, Callable[[Server, Start], str]] = {
    "the broker is killed and started again, twice": restarted,
    "the broker is away for a minute": away,
    "the broker is away for a minute, with a sink": away_from_the_sink,
    "retention overtakes the query": overtaken,
    "retention overtakes the query, failOnDataLoss=false": overtaken_lenient,
    "the topic is deleted and made again": made_again,
    "the topic is deleted and made again, failOnDataLoss=false": made_again_lenient,
    "all name servers are killed, and the broker lives": without_name_servers,
    "the topic gets more queues": grown,
}


def run_case(case: str, spark: Any) -> str:
    with tempfile.TemporaryDirectory(prefix="break-broker-", ignore_cleanup_errors=True) as root:
        server = Server(Path(root, "server"), "SYNC_FLUSH")
        server.start()
        started: list[Stream] = []

        def start(**options: str) -> Stream:
            started.append(Stream(spark, server, Path(root, "checkpoint"), **options))
            return started[-1]

        try:
            make_topic(server.name_servers)
            return CASES[case](server, start)
        finally:
            for stream in started:
                stream.query.stop()
            server.kill()


def main() -> None:
    from gantrymq.spark import spark_session
    from gantrymq.spark.session.session import SHORT_JOBS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"default: {', '.join(CASES)}")
    chosen = parser.parse_args().cases or list(CASES)
    spark = spark_session("break_broker", master="local[2]", conf=SHORT_JOBS)
    for case in chosen:
        begin = time.monotonic()
        print(f"{case:58} {run_case(case, spark)}   {time.monotonic() - begin:.0f} s", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
