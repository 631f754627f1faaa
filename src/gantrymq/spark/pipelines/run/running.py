"""Runs a job as a stream: the effects of ``messages``, ``event_stream`` and ``batches`` in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.spark.offsets import Positions, StreamOffset, covers
from gantrymq.spark.patience import may_pass
from gantrymq.spark.pipelines.describe.addresses import wrong_places
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.checkpoint import has_batches, query_id
from gantrymq.spark.pipelines.run.event_stream import events_of
from gantrymq.spark.pipelines.run.job_clock import resume
from gantrymq.spark.pipelines.run.job_session import check_libraries, configure, session
from gantrymq.spark.pipelines.run.messages import ends_of, messages
from gantrymq.spark.pipelines.run.progress_lines import Listener, ProgressLines, ignore
from gantrymq.spark.pipelines.run.projections import columns_of
from gantrymq.spark.pipelines.run.registry_check import refuse_unreadable
from gantrymq.spark.pipelines.run.remote_batches import RemoteBatches, reopened
from gantrymq.spark.pipelines.run.rows_of_others import UntilPassed
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.pipelines.targets.port import Columns
from gantrymq.spark.pipelines.targets.writers import change_of, is_there, place_of
from gantrymq.spark.registry.client import CHECK_MS
from gantrymq.spark.session.session import JAVA_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("gantrymq.spark")

LOOK_EVERY_S = 0.2
"""How often the main thread checks the query, and whether the stop file exists."""


class RowsLost(GantryError):
    """Spark dropped rows because their time was behind the watermark, so the clock of this machine went far back."""

    what_to_do = (
        "Set the clock of the machine right, then process the time range once more with `gantry pipeline backfill`."
    )


class TableLost(GantryError):
    """A target has no table, and the checkpoint says that its messages were read: they would be missing there."""

    what_to_do = "Give the job the table back, or begin with a new checkpoint, which reads all messages again."


@dataclass(frozen=True, slots=True)
class Ending:
    """When a run ends; a run without these ends when it is interrupted."""

    stop_file: str | None = None
    """The run ends when this file exists and everything that was in the topics at that moment is in the targets."""
    until_end: bool = False
    """Process the messages that are in the topics at the start, then stop."""


FOR_EVER = Ending()


def run(
    job: Job, ending: Ending = FOR_EVER, listener: Listener = ignore, progress_file: str | None = None
) -> dict[str, int]:
    """Run a job to its end. Returns the number of rows of each target. Raises GantryError or Spark's error.

    The job may be killed at any moment; run it again with the same checkpoint and targets.
    """
    return in_session(job, listener, progress_file, lambda spark, progress: process(spark, job, ending, progress))


def check(job: Job) -> tuple[dict[str, Columns], list[str]]:
    """The columns of each target, and what a run would change of tables that are there. Starts Spark to read the
    queries, and asks no broker. Raises JobInvalid, and TableDiffers for a table that cannot have the rows.

    A schema registry is asked whether the job can read the versions of its subject.
    """
    with session(f"gantry {job.name}", job.run) as spark:
        refuse_unreadable(job, new=True, away_ms=CHECK_MS)
        check_libraries(spark, job)
        columns = columns_of(spark, job, events_without_source(spark, job))
        changes = [change_of(name, target, columns[name]) for name, target in job.targets.items()]
    return columns, [line for line in changes if line]


def process(
    spark: SparkSession, job: Job, ending: Ending, progress: ProgressLines, disk: Disk | None = None
) -> dict[str, int]:
    """Run a job in an existing Spark session."""
    refuse_addresses(job)
    disk = disk or OsDisk()
    checkpoint_disk = disk_of(job.checkpoint, disk)
    configure(spark, job)
    check_libraries(spark, job)
    checkpoint_disk.make_dirs(job.checkpoint)
    lock = checkpoint_disk.lock(f"{job.checkpoint}/.gantry.lock")
    try:
        _refuse_lost_tables(job, disk)
        refuse_unreadable(job, new=not has_batches(job.checkpoint, checkpoint_disk))
        clock = resume(job.checkpoint, SystemClock().wall_ms(), checkpoint_disk)
        events = events_of(messages(spark, job), job, clock)
        process_events = _through_a_server if job.run.is_remote else _here
        return process_events(events, job, columns_of(spark, job, events), ending, progress, disk)
    finally:
        lock.release()


def refuse_addresses(job: Job) -> None:
    """Raise ConfigError for places that ``check`` refuses: a job of a Python program has not met it."""
    for key, text in wrong_places(job):
        raise ConfigError(f"{key}: {text}")


def _refuse_lost_tables(job: Job, disk: Disk) -> None:
    """Raise TableLost when the checkpoint goes on behind messages that are in no table. Each run makes the tables that
    are missing, also for targets that get no rows."""
    if not has_batches(job.checkpoint, disk_of(job.checkpoint, disk)):
        return
    for name, target in job.targets.items():
        if not is_there(name, target, disk):
            raise TableLost(
                f"the checkpoint {job.checkpoint} has read messages before, and the table of the target {name} is not "
                f"in {place_of(target)}. Move it back; or fill a new table with `gantry pipeline backfill` first; or "
                "give a new checkpoint, to read the topics again from their start"
            )


def _here(
    events: DataFrame, job: Job, columns: Mapping[str, Columns], ending: Ending, progress: ProgressLines, disk: Disk
) -> dict[str, int]:
    """Spark's driver is this process, and so it writes the batches."""
    batches = Batches(job, columns, progress, disk, _look(job, disk))
    try:

        def write(batch: DataFrame, number: int) -> None:
            batches.write(batch, number, query_id(job.checkpoint, disk_of(job.checkpoint, disk)))

        _stream(events, job, ending, write, progress, disk)
        return _finished(batches)
    finally:
        batches.close()


def _look(job: Job, disk: Disk) -> UntilPassed:
    return UntilPassed(job, disk_of(job.checkpoint, disk), SystemClock().wall_ms)


def _through_a_server(
    events: DataFrame, job: Job, columns: Mapping[str, Columns], ending: Ending, progress: ProgressLines, disk: Disk
) -> dict[str, int]:
    """A process of the server writes the batches."""
    # An error of a target is said before the query starts.
    Batches(job, columns, progress, disk, _look(job, disk)).close()
    _stream(events, job, ending, RemoteBatches(job, columns), progress, disk)
    batches = reopened(job, columns, progress, disk)
    try:
        return _finished(batches)
    finally:
        batches.close()


def _finished(batches: Batches) -> dict[str, int]:
    batches.finish()
    return batches.rows()


def in_session(
    job: Job,
    listener: Listener,
    progress_file: str | None,
    work: Callable[[SparkSession, ProgressLines], dict[str, int]],
) -> dict[str, int]:
    progress = ProgressLines(progress_file, listener, OsDisk())
    try:
        with session(f"gantry {job.name}", job.run) as spark:
            rows = work(spark, progress)
        progress.say("stopped", rows=rows)
        return rows
    except Exception as error:
        progress.say("failed", error=str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise
    finally:
        progress.close()


def events_without_source(spark: SparkSession, job: Job) -> DataFrame:
    """The events of no message, to learn their columns without a broker."""
    from gantrymq.spark.columns.rows import ddl

    return events_of(spark.createDataFrame([], ddl(job.columns)), job, None)


def _stream(
    events: DataFrame,
    job: Job,
    ending: Ending,
    write: Callable[[DataFrame, int], None],
    progress: ProgressLines,
    disk: Disk,
) -> None:
    """Run the query to its end. ``write``: what Spark calls for each batch with its number."""
    stream = events.writeStream.foreachBatch(write)
    stream = stream.option("checkpointLocation", job.checkpoint).queryName(job.name)
    if ending.until_end:
        stream = stream.trigger(availableNow=True)
    else:
        stream = stream.trigger(processingTime=f"{job.run.interval_ms} milliseconds")
    query = stream.start()
    java = events.sparkSession.conf.get(JAVA_CONF, None)
    progress.say("started", query=str(query.id), topic=job.source.get("subscribe"), java=java)
    try:
        _wait_for_end(query, job, ending, progress, disk)
    finally:
        query.stop()


def _wait_for_end(query: StreamingQuery, job: Job, ending: Ending, progress: ProgressLines, disk: Disk) -> None:
    """Wait for the end of the run. Raises Spark's error when the query fails."""
    clock = SystemClock()
    target: Positions | None = None
    while query.isActive:
        if target is None and ending.stop_file and disk.exists(ending.stop_file):
            target = _ends_if_known(job)
            if target is not None:
                progress.say("stopping", target=sum(target.values()))
        reached = reached_by(query)
        _refuse_lost_rows(query)
        if target is not None and reached and covers(reached, target):
            return
        clock.block(LOOK_EVERY_S)
    error = query.exception()
    if error is not None:
        raise error
    _refuse_lost_rows(query)


def _ends_if_known(job: Job) -> Positions | None:
    """The ends of the topics; None while name servers or brokers are away, which is no reason for a job to fail."""
    try:
        return ends_of(job)
    except GantryError as error:
        if not may_pass(error):
            raise
        log.warning("the end of the run is put off: %s", error)
        return None


def _refuse_lost_rows(query: StreamingQuery) -> None:
    last: Any = query.lastProgress
    lost = sum(one["numRowsDroppedByWatermark"] for one in last["stateOperators"]) if last else 0
    if lost:
        raise RowsLost(
            f"batch {last['batchId']} lost {lost} rows, because the clock of this machine went back by more than "
            f"half of events.horizon; correct the clock, and run `gantry pipeline backfill` over the time of the loss"
        )


def reached_by(query: StreamingQuery) -> Positions:
    """The offsets up to which the query has committed batches; empty when none is known."""
    last: Any = query.lastProgress
    end = last["sources"][0]["endOffset"] if last and last["sources"] else None
    if isinstance(end, str):
        end = msgspec.json.decode(end)
    return StreamOffset.from_json(end).positions if end else {}
