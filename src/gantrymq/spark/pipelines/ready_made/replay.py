"""``replay``: messages of an archive back into a topic, by the sink of the format ``rocketmq``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.pipelines.ready_made.archive import ArchiveDay, days_of
from gantrymq.spark.pipelines.ready_made.replay_columns import QUEUE, messages_again
from gantrymq.spark.pipelines.ready_made.replay_plan import (
    PART_ROWS,
    VERSION,
    Part,
    Plan,
    QueueRange,
    ReplayFiles,
    Wanted,
    parts_of,
)
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.sink.options import Guarantee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANGES = "broker_name string, queue_id int, first bigint, end bigint"


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The settings of a replay."""

    archive: str
    name_servers: str
    to_topic: str
    """Where the messages go; it may be the topic they came from."""
    checkpoint: str
    """Directory that says how far the replay is. The same job with the same directory continues it; what was sent is
    not sent again."""
    topic: str | None = None
    """Only the messages of this topic of the archive."""
    from_ms: int = 0
    """Only messages that were stored then or later, in ms since 1970,"""
    to_ms: int | None = None
    """and before this time."""
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    """``exactly_once`` needs brokers that declare it. With ``at_least_once``, the part in which a replay was
    interrupted is sent again."""
    part_rows: int = PART_ROWS

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            archive=self.archive, topic=self.topic, from_ms=self.from_ms, to_ms=self.to_ms, to_topic=self.to_topic
        )


def replay(
    spark: SparkSession, job: ReplayJob, sent: Callable[[int], None] = lambda count: None, disk: Disk | None = None
) -> int:
    """Send the messages again. Returns how many this run has sent; ``sent`` gets the number of each part.

    Body, tags, keys, flag and user properties are the old ones; id and time are new, and the property REPLAYED_ID has
    the old id. Messages with the same ordering key keep their order, and so do those of one queue without a key.
    Raises ConfigError when the archive has no such message, and Spark's error when the sink fails.
    """
    disk = disk or OsDisk()
    notes = disk_of(job.checkpoint, disk)
    notes.make_dirs(job.checkpoint)
    lock = notes.lock(f"{job.checkpoint}/.gantry.lock")
    try:
        progress = ReplayFiles(job.checkpoint, notes)
        plan = progress.plan(job.wanted)
        if plan is None:
            plan = _planned(spark, job, disk)
            progress.begin(plan)
        total = 0
        for number, part in progress.unsent(plan):
            count = _send(spark, job, _rows_of(spark, job, part, disk), plan.write_id(number))
            total += count
            sent(count)
        return total
    finally:
        lock.release()


def _planned(spark: SparkSession, job: ReplayJob, disk: Disk) -> Plan:
    """Look at the places of all messages that are wanted."""
    from pyspark.sql import functions as f

    days = [day for day in days_of(job.archive, disk) if job.topic in (None, day.topic)]
    if not days:
        raise ConfigError(f"{job.archive} has no messages{f' of {job.topic}' if job.topic else ''}; give an archive")
    parts: list[Part] = []
    for day in days:
        ends = (f.min("queue_offset").alias("first"), (f.max("queue_offset") + 1).alias("end"))
        places = _in_time(day.read(spark), job).groupBy("broker_name", "queue_id")
        found = places.agg(*ends, f.count("*").alias("rows")).collect()
        ranges = [QueueRange(row["broker_name"], row["queue_id"], row["first"], row["end"]) for row in found]
        parts += parts_of(day.topic, day.day, ranges, sum(row["rows"] for row in found), job.part_rows)
    return Plan(VERSION, SystemRng().token(8).hex(), job.wanted, tuple(parts))


def _in_time(rows: DataFrame, job: ReplayJob) -> DataFrame:
    from pyspark.sql import functions as f

    stored_ms = f.unix_millis("store_timestamp")
    rows = rows.where(stored_ms >= job.from_ms)
    return rows if job.to_ms is None else rows.where(stored_ms < job.to_ms)


def _rows_of(spark: SparkSession, job: ReplayJob, part: Part, disk: Disk) -> DataFrame:
    from pyspark.sql import functions as f

    rows = _in_time(ArchiveDay(job.archive, part.topic, part.day, disk).read(spark), job)
    values = [(one.broker_name, one.queue_id, one.first, one.end) for one in part.ranges]
    ranges = f.broadcast(spark.createDataFrame(values, RANGES))
    inside = (f.col("queue_offset") >= f.col("first")) & (f.col("queue_offset") < f.col("end"))
    return rows.join(ranges, ["broker_name", "queue_id"]).where(inside)


def _send(spark: SparkSession, job: ReplayJob, rows: DataFrame, write_id: str) -> int:
    """Send the messages of a part, and return their number."""
    count = rows.count()
    options = {"nameServers": job.name_servers, "topic": job.to_topic, "deliveryGuarantee": job.guarantee.value}
    if job.guarantee is Guarantee.EXACTLY_ONCE:
        options["writeId"] = write_id
    # One task has all messages of a queue, and the sink keeps the order of those with one ordering key in a task.
    columns: Any = QUEUE
    ordered = rows.repartition(*columns).sortWithinPartitions(*columns, "queue_offset")
    messages_again(ordered).write.format("rocketmq").mode("append").options(**options).save()
    return count
