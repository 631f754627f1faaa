"""Brings batches of events to the targets of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantrymq.runtime.disk import Disk
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.known_rows import without
from gantrymq.spark.pipelines.progress import Progress
from gantrymq.spark.pipelines.projections import DEAD_LETTER_COLUMNS, Columns, dead_letters_of, rows_of
from gantrymq.spark.pipelines.targets.writer import Writer, open_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DEAD_LETTERS = "dead_letters"


class Batches:
    """Adds each batch to all targets. Spark calls ``write`` for one batch after the other.

    A batch has at most ``run.max_rows`` messages, so the driver fetches the rows of each projection as one Arrow table.
    Each target remembers what it has, so a batch that runs again after a crash adds only what is missing.
    """

    def __init__(
        self, job: Job, columns: Mapping[str, Columns], progress: Progress, disk: Disk, *, stateless: bool = False
    ) -> None:
        """``stateless``: the batches come without Spark's state, so each of them may repeat what an earlier one had."""
        self._job = job
        self._stateless = stateless
        self._columns = columns
        self._progress = progress
        self._of_others: dict[str, pa.Table] | None = None
        """The keys that other queries have put into each target: an earlier one whose checkpoint is lost, or one that
        runs over old messages."""
        self.targets: dict[str, Writer] = {}
        try:
            for name, target in job.targets.items():
                self.targets[name] = open_writer(target, name, columns[name].ddl, job.source, disk)
            if job.dead_letters is not None:
                self.targets[DEAD_LETTERS] = open_writer(
                    job.dead_letters, DEAD_LETTERS, DEAD_LETTER_COLUMNS.ddl, job.source, disk
                )
        except BaseException:
            self.close()
            raise

    def write(self, batch: DataFrame, number: int, query: str) -> dict[str, int]:
        """Add a batch. Returns the rows that each target got."""
        if self._of_others is None or self._stateless:
            self._of_others = self._keys_of_others("" if self._stateless else query)
        batch.persist()
        try:
            # Counting computes every row. Spark writes the state of the batch on the way, and fails a query that
            # does not do this, even if all targets have the batch already.
            counts = {row["good"]: row["count"] for row in batch.groupBy("good").count().collect()}
            missing = [name for name, target in self.targets.items() if not target.has(query, number)]
            rows: dict[str, pa.Table] = {}
            if counts.get(True):
                rows |= rows_of(batch, self._job, [name for name in missing if name != DEAD_LETTERS])
            if counts.get(False) and DEAD_LETTERS in missing:
                rows[DEAD_LETTERS] = dead_letters_of(batch, self._job)
        finally:
            batch.unpersist()
        added = {name: self.targets[name].add(query, number, self._new(name, table)) for name, table in rows.items()}
        added = {name: added.get(name, 0) for name in self.targets}
        if rows:
            self._progress.say("batch", batch=number, rows=added)
        return added

    def rows(self) -> dict[str, int]:
        return {name: target.rows() for name, target in self.targets.items()}

    def finish(self) -> None:
        for target in self.targets.values():
            target.finish()

    def close(self) -> None:
        for target in self.targets.values():
            target.close()

    def _keys_of_others(self, query: str) -> dict[str, pa.Table]:
        found: dict[str, pa.Table] = {}
        key = list(self._job.events.key)
        for name in self._job.targets:
            # Rows of a projection without the key cannot be recognised.
            if key and set(key) <= set(self._columns[name].names):
                others = self.targets[name].keys_of_others(query, key)
                if others is not None and len(others):
                    found[name] = others.group_by(key).aggregate([])
        return found

    def _new(self, name: str, rows: pa.Table) -> pa.Table:
        """The rows whose key no other query has written."""
        others = (self._of_others or {}).get(name)
        return rows if others is None else without(rows, others, self._job.events.key)
