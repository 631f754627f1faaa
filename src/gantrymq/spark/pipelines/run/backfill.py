"""Runs a job over a time range, in slices. Slices have parts: they may have any number of messages, batches may not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.spark.pipelines.formats.column_types import quoted
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.run.batches import Batches
from gantrymq.spark.pipelines.run.event_stream import PREFIX, REASON, events_of, place
from gantrymq.spark.pipelines.run.messages import messages_between
from gantrymq.spark.pipelines.run.progress_lines import Listener, ProgressLines, ignore
from gantrymq.spark.pipelines.run.projections import columns_of
from gantrymq.spark.pipelines.run.registry_check import refuse_unreadable
from gantrymq.spark.pipelines.run.rows_of_others import Always
from gantrymq.spark.pipelines.run.running import events_without_source, in_session, refuse_addresses
from gantrymq.spark.session.session import JAVA_CONF

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SETTLED_MS = 60_000
"""So long after its end a time range counts as over: the clocks of brokers may be behind that of this machine."""


def run_backfill(
    job: Job, from_ms: int, to_ms: int, slice_ms: int, listener: Listener = ignore, progress_file: str | None = None
) -> dict[str, int]:
    """Process the messages that were stored from one time (ms since 1970) to another, in slices of that length.

    Rows whose key is in a target already are not added again. Returns the number of rows of each target. Raises
    ConfigError for a range that is not over.
    """
    check_over(to_ms, SystemClock().wall_ms())
    return in_session(
        job,
        listener,
        progress_file,
        lambda spark, progress: process_range(spark, job, from_ms, to_ms, slice_ms, progress),
    )


def check_over(to_ms: int, now_ms: int) -> None:
    """Raise ConfigError while messages may still be stored before ``to_ms``: a slice that is processed is complete, and
    what came into it later would be left out for ever."""
    if to_ms > now_ms - SETTLED_MS:
        until = datetime.fromtimestamp((now_ms - SETTLED_MS) / 1000, UTC).isoformat(timespec="seconds")
        raise ConfigError(
            f"the end of the time range (--to) must be a minute ago: messages that are stored before it would be left "
            f"out. Give a time up to {until}; what comes later is for `gantry pipeline run`, or another backfill"
        )


def process_range(
    spark: SparkSession,
    job: Job,
    from_ms: int,
    to_ms: int,
    slice_ms: int,
    progress: ProgressLines,
    disk: Disk | None = None,
) -> dict[str, int]:
    """Process a time range in an existing Spark session. A range that was interrupted continues at its last slice."""
    refuse_addresses(job)
    disk = disk or OsDisk()
    refuse_unreadable(job, new=False)
    batches = Batches(job, columns_of(spark, job, events_without_source(spark, job)), progress, disk, Always())
    query = backfill_name(job, from_ms, to_ms, slice_ms)
    progress.say("started", query=query, java=spark.conf.get(JAVA_CONF, None))
    try:
        for number, begin in enumerate(range(from_ms, to_ms, slice_ms)):
            end = min(begin + slice_ms, to_ms)
            messages = messages_between(spark, job, begin, end)
            with parts_of(events_of(messages, job, None), job) as parts:
                count = len(parts)
                name = query if count == 1 else f"{query}-{count}"
                for part, events in enumerate(parts):
                    batches.write(events, number * count + part, name)
        batches.finish()
        return batches.rows()
    finally:
        batches.close()


def backfill_name(job: Job, from_ms: int, to_ms: int, slice_ms: int) -> str:
    """Under this name targets know the slices that are complete: those of the same range by a job with the same events.
    A job that was corrected processes its range anew."""
    parts = (job.name, job.source, job.body, job.events)
    meaning = msgspec.json.encode(
        parts if job.changes is None else (*parts, job.changes), order="deterministic"
    )  # fmt: skip
    return f"backfill-{from_ms}-{to_ms}-{slice_ms}-{sha256(meaning).hexdigest()[:12]}"


@contextmanager
def parts_of(events: DataFrame, job: Job) -> Iterator[list[DataFrame]]:
    """The events of a slice, in parts of about ``run.max_rows`` messages at most.

    All events of one key are in one part, whichever of its repeats counts: a slice that is processed again, after an
    interruption, has the same keys in each part.
    """
    from pyspark.sql import functions as f

    events.persist()
    try:
        count = -(-events.count() // job.run.max_rows)
        if count <= 1:
            yield [events]
        else:
            part = f.pmod(_key_of(events, job), f.lit(count))
            yield [events.where(part == number) for number in range(count)]
    finally:
        events.unpersist()


def _key_of(events: DataFrame, job: Job) -> Column:
    from pyspark.sql import functions as f

    names = job.events.key if job.changes is None else job.changes.key
    of_message = f.xxhash64(place())
    if not names:
        return of_message
    fields = [f.col(_field(events.columns, name)) for name in names]
    return f.when(f.col(REASON).isNull(), f.xxhash64(*fields)).otherwise(of_message)


def _field(columns: Sequence[str], name: str) -> str:
    """A column of the event, or a field of a struct in it such as ``user.id``."""
    if PREFIX + name in columns:
        return quoted(PREFIX + name)
    head, *below = name.split(".")
    return ".".join((quoted(PREFIX + head), *map(quoted, below)))
