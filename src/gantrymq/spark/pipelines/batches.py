"""Brings batches of events to the targets of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.known_rows import distinct, without
from gantrymq.spark.pipelines.others import Look
from gantrymq.spark.pipelines.progress import Progress
from gantrymq.spark.pipelines.projections import Columns, dead_letter_columns, dead_letters_of, rows_of
from gantrymq.spark.pipelines.targets.writer import Writer, open_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DEAD_LETTERS = "dead_letters"
AWAY_MS: Final = 120_000
"""So long the server of a target may be away, as a broker may (``readTimeout``)."""


class Batches:
    """Adds each batch to all targets. Spark calls ``write`` for one batch after the other.

    A batch has at most ``run.max_rows`` messages, so the driver fetches the rows of each projection as one Arrow table.
    Each target remembers what it has, so a batch that runs again after a crash adds only what is missing.
    """

    def __init__(self, job: Job, columns: Mapping[str, Columns], progress: Progress, disk: Disk, look: Look) -> None:
        """``look``: when a batch is compared with the rows that others have put into a target."""
        self._job = job
        self._columns = columns
        self._progress = progress
        self._look = look
        self._patience = Patience(AWAY_MS, SystemClock(), SystemRng())
        self.targets: dict[str, Writer] = {}
        try:
            for name, target in job.targets.items():
                self.targets[name] = open_writer(target, name, columns[name], job.source, disk)
            if job.dead_letters is not None:
                self.targets[DEAD_LETTERS] = open_writer(
                    job.dead_letters, DEAD_LETTERS, dead_letter_columns(), job.source, disk
                )
        except BaseException:
            self.close()
            raise

    def write(self, batch: DataFrame, number: int, query: str) -> dict[str, int]:
        """Add a batch. Returns the rows that each target got."""
        batch.persist()
        try:
            # Counting computes every row. Spark writes the state of the batch on the way, and fails a query that
            # does not do this, even if all targets have the batch already.
            counts = {row["good"]: row["count"] for row in batch.groupBy("good").count().collect()}
            added = self._patience.call(f"writing batch {number}", lambda: self._written(batch, counts, number, query))
        finally:
            batch.unpersist()
        if added:
            self._progress.say("batch", batch=number, rows=added)
        return {name: added.get(name, 0) for name in self.targets}

    def _written(self, batch: DataFrame, counts: Mapping[bool, int], number: int, query: str) -> dict[str, int]:
        """Add what targets do not have yet; nothing is in the result when no target lacks rows. May be repeated.

        Dead letters come last: a topic has no memory of batches.
        """
        missing = [name for name, target in self.targets.items() if not target.has(query, number)]
        rows: dict[str, pa.Table] = {}
        if counts.get(True):
            rows |= rows_of(batch, self._job, [name for name in missing if name != DEAD_LETTERS])
        if counts.get(False) and DEAD_LETTERS in missing:
            rows[DEAD_LETTERS] = dead_letters_of(batch, self._job)
        new = {name: self._new(name, query, number, table) for name, table in rows.items()}
        added = {name: self.targets[name].add(query, number, table) for name, table in new.items()}
        return {name: added.get(name, 0) for name in self.targets} if added else {}

    def rows(self) -> dict[str, int]:
        return {
            name: self._patience.call(f"counting the rows of {name}", target.rows)
            for name, target in self.targets.items()
        }

    def finish(self) -> None:
        for target in self.targets.values():
            target.finish()

    def close(self) -> None:
        for target in self.targets.values():
            target.close()

    def _new(self, name: str, query: str, number: int, rows: pa.Table) -> pa.Table:
        """The rows whose key nobody else has written."""
        key, target = list(self._job.events.key), self.targets[name]
        # Rows of a projection without the key cannot be recognised.
        if name == DEAD_LETTERS or not len(rows) or not key or not set(key) <= set(self._columns[name].names):
            return rows
        own = self._look.query(query)
        if not self._look.needed(name, lambda: target.others(own), number):
            return rows
        known = target.known(own, distinct(rows, key))
        return rows if known is None else without(rows, known, key)
