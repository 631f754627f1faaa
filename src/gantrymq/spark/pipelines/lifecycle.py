"""``lifecycle``: how the transactions of a cluster ended, by topic and window of time, and how long they took.

Half, op and final messages are joined. Our broker writes into the op message how the half ended and why. An Apache
broker does not; there a half message that was ended is committed if its final message is in its topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from gantrymq.message.properties import CHECK_TIMES, REAL_TOPIC
from gantrymq.message.system_topics import HALF, OP
from gantrymq.spark.pipelines.job import duration_ms
from gantrymq.transactions.table.decisions import Cause, Decision

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DECISION_BITS, CAUSE_BITS = 15, 240
"""The flag of an op message."""
PLACE = "topic,broker_name,queue_id,queue_offset"


@dataclass(frozen=True, slots=True)
class LifecycleJob:
    """The settings of a report."""

    name_servers: str
    window: str = "1h"
    """The length of a window; a transaction belongs to the window in which its half message was stored."""
    from_ms: int | None = None
    """Only transactions that began then or later, in ms since 1970."""
    read_timeout: str = "60s"

    @property
    def window_ms(self) -> int:
        return duration_ms(self.window)


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The transactions of one topic that began in one window."""

    topic: str
    begin_ms: int
    """Milliseconds since 1970."""
    transactions: int
    committed: int
    rolled_back: int
    parked: int
    """Put aside undecided, after too many UNKNOWN answers or too long a time."""
    open: int
    """Not decided yet."""
    checked: int
    """Decided by the answer to a check-back, of our broker; checked at least once, of Apache's."""
    p50_ms: float | None
    """From the storing of the half message to its decision; half of the transactions took at most this long,"""
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


def report(spark: SparkSession, job: LifecycleJob) -> list[Window]:
    """The windows by topic and time. Raises Spark's error when the cluster cannot be read."""
    from pyspark.sql import functions as f

    ended = _ended(spark, job)
    begin = f.floor(f.unix_millis("begun") / job.window_ms) * job.window_ms
    took = f.unix_micros("ended") - f.unix_micros("begun")
    frame = (
        ended.groupBy("real_topic", begin.alias("begin_ms"))
        .agg(
            f.count("*").alias("transactions"),
            *(_count(f.col("state") == state).alias(state) for state in ("committed", "rolled_back", "parked", "open")),
            _count(f.col("checked")).alias("checked"),
            f.percentile(took, f.array(*(f.lit(share) for share in (0.5, 0.95, 0.99)))).alias("took"),
            f.max(took).alias("longest"),
        )
        .orderBy("real_topic", "begin_ms")
    )
    return [_window(row) for row in frame.collect()]


def _window(row: Any) -> Window:
    p50, p95, p99 = (None if value is None else value / 1000 for value in row["took"] or (None,) * 3)
    return Window(
        topic=row["real_topic"], begin_ms=row["begin_ms"], transactions=row["transactions"], committed=row["committed"],
        rolled_back=row["rolled_back"], parked=row["parked"], open=row["open"], checked=row["checked"],
        p50_ms=p50, p95_ms=p95, p99_ms=p99, max_ms=None if row["longest"] is None else row["longest"] / 1000,
    )  # fmt: skip


def _count(condition: Column) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.count_if(condition), f.lit(0))


def _ended(spark: SparkSession, job: LifecycleJob) -> DataFrame:
    """One row for each transaction: topic, begun, ended (null while it is open), state, checked."""
    from pyspark.sql import functions as f

    ops = (
        _read(spark, job, OP, f"{PLACE},body,flag,store_timestamp")
        # 4.x: one number. 5.x: several, each followed by a comma.
        .select(
            "broker_name",
            "flag",
            "store_timestamp",
            f.explode(f.split(f.col("body").cast("string"), ",")).alias("text"),
        )
        .select("broker_name", "flag", "store_timestamp", f.expr("try_cast(text AS bigint)").alias("half"))
        .where("half is not null")
        .groupBy("broker_name", "half")
        .agg(f.min_by("flag", "store_timestamp").alias("flag"), f.min("store_timestamp").alias("ended"))
    )
    halves = (
        _read(spark, job, HALF, f"{PLACE},message_id,store_timestamp,properties")
        .withColumn("real_topic", f.col("properties")[REAL_TOPIC])
        .withColumn("checks", f.coalesce(f.expr(f"try_cast(properties['{CHECK_TIMES}'] AS int)"), f.lit(0)))
        .where("real_topic is not null")
        .withColumnRenamed("queue_offset", "half")
    )
    copies = halves.join(ops, ["broker_name", "half"], "left")
    # An Apache broker that checks writes a copy of the half message, and an op for the old one.
    newest = f.max_by(f.struct("ended", "flag"), "half")
    each = (
        copies.groupBy("real_topic", "broker_name", "message_id")
        .agg(f.min("store_timestamp").alias("begun"), newest.alias("end"), f.max("checks").alias("checks"))
        .select("real_topic", "message_id", "begun", "checks", "end.*")
    )
    return _with_state(each, _finals(spark, job, each))


def _with_state(each: DataFrame, finals: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as f

    joined = (
        each.withColumn("final", f.lit(False))
        if finals is None
        else each.join(finals, ["real_topic", "message_id"], "left")
    )
    decision = f.col("flag").bitwiseAND(DECISION_BITS)
    cause = f.col("flag").bitwiseAND(CAUSE_BITS)
    state = (
        f.when(f.col("ended").isNull(), "open")
        .when(decision == int(Decision.COMMITTED), "committed")
        .when(decision == int(Decision.ROLLED_BACK), "rolled_back")
        .when(decision == int(Decision.PARKED), "parked")
        .when(f.col("final"), "committed")
        .otherwise("rolled_back")
    )
    by_check = (decision > int(Decision.SETTLED)) & (cause == int(Cause.CHECK_ANSWER))
    checked = f.coalesce(by_check, f.lit(False)) | (f.col("checks") > 0)
    return joined.withColumn("state", state).withColumn("checked", checked)


def _finals(spark: SparkSession, job: LifecycleJob, each: DataFrame) -> DataFrame | None:
    """The ids in the topics of those transactions whose op message does not say how they ended; None if there are
    none, as on our broker."""
    from pyspark.sql import functions as f

    unsaid = each.where(f.col("ended").isNotNull() & (f.col("flag").bitwiseAND(DECISION_BITS) <= int(Decision.SETTLED)))
    topics = [row["real_topic"] for row in unsaid.select("real_topic").distinct().collect()]
    if not topics:
        return None
    messages = _read(spark, job, ",".join(sorted(topics)), f"{PLACE},message_id")
    return messages.select(f.col("topic").alias("real_topic"), "message_id").distinct().withColumn("final", f.lit(True))


def _read(spark: SparkSession, job: LifecycleJob, topics: str, columns: str) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServers", job.name_servers).option("subscribe", topics)
    reader = reader.option("columns", columns).option("readTimeout", job.read_timeout)
    # Old half messages are deleted with the files of the log. What is gone cannot be counted.
    reader = reader.option("failOnDataLoss", "false")
    if job.from_ms is not None:
        reader = reader.option("startingTimestamp", str(job.from_ms))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    return reader.load()
