"""The job ``order-paid``: for each paid order it writes a shipping record, a change of points and a cleared cart.

Each table gets each order exactly once, whatever the order of the messages, however often a producer repeats one, and
wherever this job is killed. This works because Spark repeats a batch with the same rows, ``tables`` publishes a batch
only once, and the state of the query contains the order ids that it has already seen.

    python -m gantrymq.spark.pipelines.order_paid --name-servers 127.0.0.1:9876 --topic orders-paid \\
        --out tables --checkpoint checkpoint [--stop-file stop] [--progress progress.jsonl]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from gantrymq.errors import GantryError, InvariantViolated
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk, OsDisk, read_whole
from gantrymq.spark.offsets import Positions, StreamOffset, covers
from gantrymq.spark.options import Edge, Settings
from gantrymq.spark.pipelines.events import CENTS_PER_POINT
from gantrymq.spark.pipelines.progress import Listener, Progress, ignore
from gantrymq.spark.pipelines.tables import ORDER_TABLES, Table, order_tables
from gantrymq.spark.session import JAVA_CONF, SHORT_JOBS, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

EVENT_SCHEMA = "order_id string, user_id string, amount_cents bigint, paid_at_ms bigint"
LOOK_EVERY_S = 0.2
"""How often the main thread checks the query, and whether the stop file exists."""
MESSAGE_COLUMNS = ["topic", "broker_name", "queue_id", "queue_offset", "body"]
NO_EVENT = "the body is not an order-paid event"


@dataclass(frozen=True, slots=True)
class OrderPaidJob:
    """The settings of a run."""

    name_servers: str
    topic: str
    out: str
    """Directory of the tables."""
    checkpoint: str
    """Directory of Spark's checkpoint. Together with ``out`` it contains the whole state of this job."""
    stop_file: str | None = None
    """The job ends when this file exists and everything that was in the topic at that moment is in the tables."""
    until_end: bool = False
    """Process the messages that are in the topic at the start, then stop."""
    interval_ms: int = 500
    """The shortest time between the starts of two batches."""
    progress: str | None = None
    """A file to which the progress is appended as JSON lines."""
    starting: str = "earliest"
    """Where a job without a checkpoint begins."""
    max_offsets_per_trigger: int = 200_000
    """The most messages in a batch. The driver has one batch in memory, about 100 bytes for each message."""
    read_timeout: str = "120s"
    master: str = "local[*]"
    conf: dict[str, str] = field(default_factory=dict)


def run(job: OrderPaidJob, listener: Listener = ignore) -> dict[str, int]:
    """Run the job to its end. Returns the number of rows of each table. Raises GantryError or Spark's error on failure.

    The job may be killed at any moment; run it again with the same directories.
    """
    disk = OsDisk()
    disk.make_dirs(job.out)
    lock = disk.lock(f"{job.out}/.writer.lock")
    progress = Progress(job.progress, listener, disk)
    try:
        spark = spark_session("gantry order-paid", master=job.master, conf={**SHORT_JOBS, **job.conf})
        try:
            totals = process_topic(spark, job, progress, disk)
        finally:
            spark.stop()
        progress.say("stopped", rows=totals)
        return totals
    except Exception as error:
        progress.say("failed", error=str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise
    finally:
        progress.close()
        lock.release()


def process_topic(spark: SparkSession, job: OrderPaidJob, progress: Progress, disk: Disk) -> dict[str, int]:
    """Run the job in an existing Spark session."""
    writer = BatchWriter(job, progress, disk)
    stream = events_of(messages(spark, job)).writeStream.foreachBatch(writer.write)
    stream = stream.option("checkpointLocation", job.checkpoint).queryName("order-paid")
    if job.until_end:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{job.interval_ms} milliseconds")
    query = stream.start()
    progress.say("started", query=str(query.id), topic=job.topic, java=spark.conf.get(JAVA_CONF))
    try:
        _wait_for_end(query, job, progress, disk)
    finally:
        query.stop()
    return {name: sum(entry.rows for entry in table.entries()) for name, table in writer.tables.items()}


def messages(spark: SparkSession, job: OrderPaidJob) -> DataFrame:
    """The topic as a stream, with the columns that the job needs."""
    return (
        spark.readStream.format("rocketmq")
        .option("nameServers", job.name_servers)
        .option("subscribe", job.topic)
        .option("startingOffsets", job.starting)
        .option("readTimeout", job.read_timeout)
        .option("columns", ",".join(MESSAGE_COLUMNS))
        .option("maxOffsetsPerTrigger", str(job.max_offsets_per_trigger))
        .load()
    )


def events_of(stream: DataFrame) -> DataFrame:
    """The fields of each order's event, once per order; ``good`` is false where the body is not an event."""
    from pyspark.sql import functions as f

    parsed = stream.withColumn("event", f.from_json(f.col("body").cast("string"), EVENT_SCHEMA))
    good = (
        (f.length("event.order_id") > 0)
        & (f.length("event.user_id") > 0)
        & (f.col("event.amount_cents") >= 0)
        & f.col("event.paid_at_ms").isNotNull()
    )
    marked = parsed.withColumn("good", f.coalesce(good, f.lit(False)))
    place = f.concat_ws("/", "topic", "broker_name", "queue_id", "queue_offset")
    order = f.concat(f.lit("order "), "event.order_id")
    return (
        marked.withColumn("identity", f.when(f.col("good"), order).otherwise(f.concat(f.lit("at "), place)))
        # A producer may send an order twice (a retry after a lost answer). Spark's state remembers every order.
        .dropDuplicates(["identity"])
        .select(
            "good",
            "event.order_id",
            "event.user_id",
            f.expr(f"event.amount_cents div {CENTS_PER_POINT}").alias("points"),
            f.timestamp_millis("event.paid_at_ms").alias("paid_at"),
            *(f.when(~f.col("good"), f.col(name)).alias(name) for name in MESSAGE_COLUMNS),
        )
    )


def rows_for(name: str, events: pa.Table) -> pa.Table:
    """The rows of one table for a batch of events."""
    import pyarrow as pa
    import pyarrow.compute as pc

    good = events["good"]
    if name == "rejected":
        rejected = events.filter(pc.invert(good)).select(MESSAGE_COLUMNS)
        return rejected.append_column("reason", pa.array([NO_EVENT] * len(rejected), pa.string()))
    orders = events.filter(good)
    if name == "shipping":
        rows = orders.select(["order_id", "user_id", "paid_at"])
        return rows.add_column(2, "status", pa.array(["TO_SHIP"] * len(rows), pa.string()))
    if name == "points":
        return orders.select(["order_id", "user_id", "points", "paid_at"])
    return orders.select(["order_id", "user_id", "paid_at"]).rename_columns(["order_id", "user_id", "cleared_at"])


class BatchWriter:
    """Adds each micro-batch to all tables. Spark calls it for one batch after the other.

    A batch has at most ``max_offsets_per_trigger`` rows, so the driver fetches it as one Arrow table and writes it.
    This takes one Spark job per batch instead of one per table; Spark jobs take most of the time of a small batch.
    """

    def __init__(self, job: OrderPaidJob, progress: Progress, disk: Disk) -> None:
        self.tables: dict[str, Table] = order_tables(job.out, disk)
        self._checkpoint = job.checkpoint
        self._progress = progress
        self._disk = disk
        self._query: str | None = None
        self._of_others: dict[str, pa.Array] = {}
        """The orders that an earlier query has put into each table. The checkpoint of that query is lost, but its rows
        are there."""

    def write(self, batch: DataFrame, number: int) -> None:
        if self._query is None:
            self._query = query_id(self._checkpoint, self._disk)
            self._find_rows_of_others(batch.sparkSession, self._query)
        # This is done even if a run that was killed has already added the batch to every table: computing the rows
        # also writes Spark's state of the batch, and without that state Spark fails the query.
        events = batch.toArrow()
        if all(table.entry(self._query, number) for table in self.tables.values()):
            return
        added = {name: self._add(name, events, number, self._query) for name in self.tables}
        self._progress.say("batch", batch=number, rows=added)

    def _add(self, name: str, events: pa.Table, number: int, query: str) -> int:
        import pyarrow.compute as pc

        rows = rows_for(name, events)
        if name in self._of_others:
            rows = rows.filter(pc.invert(pc.is_in(rows["order_id"], value_set=self._of_others[name])))
        return self.tables[name].add(query, number, rows).rows

    def _find_rows_of_others(self, spark: SparkSession, query: str) -> None:
        for name in ORDER_TABLES:
            table = self.tables[name]
            if any(entry.query != query for entry in table.entries()):
                others = table.read(spark, without_query=query).select("order_id").distinct()
                self._of_others[name] = others.toArrow()["order_id"].combine_chunks()


def query_id(checkpoint: str, disk: Disk) -> str:
    """The query id in Spark's checkpoint. It exists before the first batch runs."""
    try:
        return str(msgspec.json.decode(read_whole(disk, f"{checkpoint}/metadata"))["id"])
    except (FileNotFoundError, msgspec.DecodeError, KeyError) as error:
        raise InvariantViolated(f"{checkpoint} does not contain the metadata of a Spark query") from error


def _wait_for_end(query: StreamingQuery, job: OrderPaidJob, progress: Progress, disk: Disk) -> None:
    """Wait for the end of the job. Raises Spark's error when the query fails."""
    clock = SystemClock()
    target: Positions | None = None
    while query.isActive:
        if target is None and job.stop_file and disk.exists(job.stop_file):
            target = _ends(job)
            progress.say("stopping", target=sum(target.values()))
        reached = reached_by(query)
        if target is not None and reached and covers(reached, target):
            return
        clock.block(LOOK_EVERY_S)
    error = query.exception()
    if error is not None:
        raise error


def _ends(job: OrderPaidJob) -> Positions:
    """The current end offsets of the topic."""
    from gantrymq.spark.source import new_planner

    planner = new_planner(Settings(job.name_servers, topics=(job.topic,)))
    return planner.edge(Edge.LATEST, planner.queues())


def reached_by(query: StreamingQuery) -> Positions:
    """The offsets up to which the query has committed batches; empty when none is known."""
    last: Any = query.lastProgress
    end = last["sources"][0]["endOffset"] if last and last["sources"] else None
    if isinstance(end, str):
        end = msgspec.json.decode(end)
    return StreamOffset.from_json(end).positions if end else {}


def _arguments(argv: Sequence[str] | None) -> OrderPaidJob:
    parser = argparse.ArgumentParser(prog="order_paid", description="Turn paid orders into shipping, points and cart.")
    parser.add_argument("--name-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--out", required=True, help="directory of the tables")
    parser.add_argument("--checkpoint", required=True, help="directory of Spark's checkpoint")
    parser.add_argument(
        "--stop-file", help="stop when this file exists and everything that was in the topic at that time is processed"
    )
    parser.add_argument(
        "--until-end", action="store_true", help="process the messages that are in the topic now, then stop"
    )
    parser.add_argument("--interval-ms", type=int, default=500, help="shortest time between two batches")
    parser.add_argument("--progress", help="file to append JSON lines to")
    parser.add_argument("--starting", default="earliest", choices=["earliest", "latest"])
    parser.add_argument("--read-timeout", default="120s", help="how long to try again while brokers are unreachable")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--conf", action="append", default=[], type=key_and_value, help="Spark conf, key=value")
    given = vars(parser.parse_args(argv))
    return OrderPaidJob(**{**given, "conf": dict(given["conf"])})


def key_and_value(text: str) -> tuple[str, str]:
    """The parts of ``key=value``."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form spark.key=value")
    return key, value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job, and write events to standard output as JSON lines. Exit status 0: the end was reached, 1: the job
    failed."""
    try:
        run(_arguments(argv), lambda event: _print_line(msgspec.json.encode(event)))
    except GantryError as error:
        _print_line(msgspec.json.encode({"event": "error", "error": str(error)}))
        return 1
    return 0


def _print_line(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
