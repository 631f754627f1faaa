"""The messages of a job: as a stream, or those of a time range; and where its topics end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.spark.offsets import Positions
from gantrymq.spark.options.bounds import Edge
from gantrymq.spark.options.option import Query
from gantrymq.spark.options.settings import parse_options
from gantrymq.spark.options.table import BY_NAME, DECLARED
from gantrymq.spark.pipelines.job import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def messages(spark: SparkSession, job: Job) -> DataFrame:
    """The source as a stream."""
    options = {**job.source, "columns": ",".join(job.columns), "maxOffsetsPerTrigger": str(job.run.max_rows)}
    if not any(_main_name(name).startswith("starting") for name in job.source):
        options["startingOffsets"] = "earliest"
    return spark.readStream.format("rocketmq").options(**options).load()


def messages_between(spark: SparkSession, job: Job, from_ms: int, to_ms: int) -> DataFrame:
    """The messages that were stored in a time range, as a batch."""
    options = {
        name: value
        for name, value in job.source.items()
        if not _main_name(name).startswith("starting") and BY_NAME[_main_name(name)].query is not Query.STREAM
    }
    options |= {"columns": ",".join(job.columns), "startingTimestamp": str(from_ms), "endingTimestamp": str(to_ms)}
    # A queue may have no message of that time.
    options["startingOffsetsByTimestampStrategy"] = "latest"
    return spark.read.format("rocketmq").options(**options).load()


def _main_name(name: str) -> str:
    """The name of an option of the source that may be given under another name, or in other letters."""
    found = (one for one in DECLARED if name.lower() in {text.lower() for text in (one.name, *one.aliases)})
    return next(found).name


def ends_of(job: Job) -> Positions:
    """The current end offsets of the topics."""
    from gantrymq.spark.source.tasks import new_planner

    planner = new_planner(parse_options(job.source))
    return planner.edge(Edge.LATEST, planner.queues())
