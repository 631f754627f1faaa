"""``lifecycle``: how the transactions of a cluster ended, by topic and window of time, and how long they took.

It reads half, op and final messages, and ``transactions_joined`` says what they mean together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from gantrymq.message.system_topics import HALF, OP
from gantrymq.spark.pipelines.job import duration_ms
from gantrymq.spark.pipelines.ready_made.transactions_joined import (
    HALF_COLUMNS,
    OP_COLUMNS,
    PLACE,
    by_window,
    transactions_of,
    with_states,
    without_decision,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    transactions = transactions_of(_read(spark, job, HALF, HALF_COLUMNS), _read(spark, job, OP, OP_COLUMNS))
    states = with_states(transactions, _finals(spark, job, transactions))
    return [Window(**row.asDict()) for row in by_window(states, job.window_ms).collect()]


def _finals(spark: SparkSession, job: LifecycleJob, transactions: DataFrame) -> DataFrame | None:
    """The messages in the topics of those transactions whose op message does not say how they ended; None if there are
    none, as on our broker."""
    topics = [row["topic"] for row in without_decision(transactions).select("topic").distinct().collect()]
    return _read(spark, job, ",".join(sorted(topics)), (*PLACE, "message_id")) if topics else None


def _read(spark: SparkSession, job: LifecycleJob, topics: str, columns: tuple[str, ...]) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServers", job.name_servers).option("subscribe", topics)
    reader = reader.option("columns", ",".join(columns)).option("readTimeout", job.read_timeout)
    # Old half messages are deleted with the files of the log. What is gone cannot be counted.
    reader = reader.option("failOnDataLoss", "false")
    if job.from_ms is not None:
        reader = reader.option("startingTimestamp", str(job.from_ms))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    return reader.load()
