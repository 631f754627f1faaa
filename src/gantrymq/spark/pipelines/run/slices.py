"""A slice of a backfill in parts: it may have any number of messages, and a batch has only so many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.formats.column_types import quoted
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.run.event_stream import PREFIX, REASON, place

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
