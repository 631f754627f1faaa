"""Brings batches of events to the targets of a job.

Each message of a batch gets into all tables or into the dead letters. So the rows of every target are made and looked
at before the first of them is written, and a message of which a target refuses a row is left out everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.pipelines.culprits import Projection, Suspects, with_place
from gantrymq.spark.pipelines.event_stream import REASON, view_of
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.known_rows import distinct
from gantrymq.spark.pipelines.known_rows import without as without_known
from gantrymq.spark.pipelines.others import Look
from gantrymq.spark.pipelines.progress import Progress
from gantrymq.spark.pipelines.projections import Columns, dead_letter_columns, dead_letters_of, evaluated, without
from gantrymq.spark.pipelines.refused import RefusedMessages
from gantrymq.spark.pipelines.spark_errors import Failed
from gantrymq.spark.pipelines.targets.postgresql_connection import Databases
from gantrymq.spark.pipelines.targets.refusal import RowRefused
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
        self._refused = RefusedMessages(f"{job.checkpoint}/gantry_refused", disk)
        self._databases = Databases()
        self.targets: dict[str, Writer] = {}
        try:
            for name, target in job.targets.items():
                self.targets[name] = open_writer(target, name, columns[name], job.source, disk, self._databases)
            if job.dead_letters is not None:
                self.targets[DEAD_LETTERS] = open_writer(
                    job.dead_letters, DEAD_LETTERS, dead_letter_columns(), job.source, disk, self._databases
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
            is_event = batch[REASON].isNull().alias("is_event")
            counts = {row["is_event"]: row["count"] for row in batch.groupBy(is_event).count().collect()}
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
        self._databases.undo_all()
        missing = [name for name, target in self.targets.items() if not target.has(query, number)]
        refused = self._refused.of(query, number)
        rows: dict[str, pa.Table] = {}
        if counts.get(True) and missing:
            rows = self._accepted_rows(batch, number, query, missing, refused)
        if (counts.get(False) or refused) and DEAD_LETTERS in missing:
            rows[DEAD_LETTERS] = dead_letters_of(batch, refused)
        added = {name: self._add(name, query, number, table) for name, table in rows.items()}
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

    def _accepted_rows(
        self, batch: DataFrame, number: int, query: str, missing: Sequence[str], refused: dict[str, str]
    ) -> dict[str, pa.Table]:
        """The rows of the targets that lack this batch, without those of refused messages, which are added to
        ``refused``. A decision is on the disk when this returns."""
        names = [name for name in missing if name != DEAD_LETTERS]
        while True:
            self._databases.undo_all()
            rows: dict[str, pa.Table] = {}
            found: dict[str, str] = {}
            for name in names:
                # Of what a target has refused the next one is not asked.
                left = without(batch, refused | found)
                rows[name], culprits = self._looked_at(left, name, number, query)
                found |= culprits
            if not found:
                return rows
            self._refuse_without_dead_letters(found, missing)
            refused |= found
            self._refused.decide(query, number, refused)

    def _looked_at(self, batch: DataFrame, name: str, number: int, query: str) -> tuple[pa.Table, dict[str, str]]:
        """The new rows for a target, and the messages because of which it would not get them."""

        def refusals(rows: pa.Table) -> Mapping[int, str]:
            self._databases.undo(name)
            return self.targets[name].refusals(query, number, self._new(name, query, number, rows))

        projection = Projection(name, self._job.targets[name].sql, refusals)
        try:
            rows = evaluated(view_of(batch), projection.sql)
        except Failed:
            suspects = _suspects(batch, projection)
            found = suspects.behind_errors()
            if found:
                return self._columns[name].arrow.empty_table(), found
            # Spark has looked at the condition of a WHERE for messages that are left out here.
            rows = suspects.rows()
        new = self._new(name, query, number, rows)
        refused = self.targets[name].refusals(query, number, new)
        return new, _suspects(batch, projection).behind_rows(new, refused) if refused else {}

    def _refuse_without_dead_letters(self, found: Mapping[str, str], missing: Sequence[str]) -> None:
        """Raise RowRefused where these messages would disappear."""
        place, reason = next(iter(found.items()))
        if self._job.dead_letters is None:
            raise RowRefused(
                f"the message {place} cannot be written, and the job has no [dead_letters] for it: {reason}"
            )
        if DEAD_LETTERS not in missing:
            raise RowRefused(
                f"the message {place} was accepted before this job was interrupted, and cannot be written now; was the "
                f"table changed in the meantime? Change it back. {reason}"
            )

    def _add(self, name: str, query: str, number: int, rows: pa.Table) -> int:
        try:
            return self.targets[name].add(query, number, rows)
        except Exception as error:
            error.add_note(f"while batch {number} was written to the target {name}")
            raise

    def _new(self, name: str, query: str, number: int, rows: pa.Table) -> pa.Table:
        """The rows whose key nobody else has written."""
        key, target = list(self._job.events.key), self.targets[name]
        # Rows of a projection without the key cannot be recognised.
        if not len(rows) or not key or not set(key) <= set(self._columns[name].names):
            return rows
        own = self._look.query(query)
        if not self._look.needed(name, lambda: target.others(own), number):
            return rows
        known = target.known(own, distinct(rows, key))
        return rows if known is None else without_known(rows, known, key)


def _suspects(batch: DataFrame, projection: Projection) -> Suspects:
    return Suspects(batch.sparkSession, with_place(batch).toArrow(), projection)
