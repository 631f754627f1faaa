"""What is wrong in a job with changes, found without Spark. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import Job, ParquetTarget, PostgresqlTarget, duration_ms

_NO_ORDER: Final = (
    "name the columns that say which event of a key is newer, such as a version. If all events of a key are in one "
    'queue, this can be the place: see "Change data" in docs/pipelines.md'
)
ONLY_ADDED: Final = (
    "the rows of a Parquet table never change, and this job has [changes]; use delta, iceberg or postgresql. To keep "
    "all events as rows, use a job without [changes]"
)


def problems_of_changes(job: Job) -> Iterator[tuple[str, str]]:
    """The keys of the job file that are wrong, each with what to do."""
    changes = job.changes
    if changes is None:
        return
    if not changes.key:
        yield "changes.key", "name the columns that name a row"
    if not changes.order_by:
        yield "changes.order_by", _NO_ORDER
    if job.events.key:
        yield "events.key", "a job with [changes] has its key in changes.key; repeats change nothing. Remove this key"
    if not changes.upsert and not changes.delete:
        yield "changes.upsert", "name the values of changes.operation for rows that are inserted or updated"
    both = sorted(set(changes.upsert) & set(changes.delete))
    if both:
        yield "changes.delete", f"{both[0]} is in changes.upsert, too; an operation means one thing"
    try:
        if duration_ms(changes.horizon) == 0:
            yield "changes.horizon", "the horizon must be longer than nothing"
    except ConfigError as error:
        yield "changes.horizon", str(error)
    yield from _targets(job)


def _targets(job: Job) -> Iterator[tuple[str, str]]:
    key = () if job.changes is None else job.changes.key
    for name, target in job.targets.items():
        if isinstance(target, ParquetTarget):
            yield f"targets.{name}.type", ONLY_ADDED
        elif isinstance(target, PostgresqlTarget) and set(target.key) != set(key):
            yield f"targets.{name}.key", f"in a job with [changes] it must be changes.key, so: {', '.join(key)}"
