"""Brings batches of events to the targets of a job.

Each message of a batch gets into all tables or into the dead letters. So the rows of every target are staged, by tasks
of Spark, before those of the first one are made visible, and a message of which a target refuses a row is left out
everywhere. ``targets.staging`` says how rows reach a target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import Patience
from gantrymq.spark.pipelines.changes.applying import Applying
from gantrymq.spark.pipelines.formats.column_types import quoted
from gantrymq.spark.pipelines.formats.registered import MAY_CHANGE
from gantrymq.spark.pipelines.job import Job, ParquetTarget, TableTarget
from gantrymq.spark.pipelines.run.changed_batch import ChangedBatch
from gantrymq.spark.pipelines.run.checkpoint import RefusedMessages
from gantrymq.spark.pipelines.run.event_stream import REASON, view_of
from gantrymq.spark.pipelines.run.expressions import Failed
from gantrymq.spark.pipelines.run.failing_messages import FailingProjection, Projection, with_place
from gantrymq.spark.pipelines.run.job_clock import last_clock
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.projections import (
    collected,
    dead_letters_of,
    failures,
    refused_for_now,
    rows_of,
    without,
    without_keys,
)
from gantrymq.spark.pipelines.run.rows_of_others import Comparison
from gantrymq.spark.pipelines.targets.databases import Databases
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.pipelines.targets.port import Columns, RowRefused, Writer, dead_letter_columns
from gantrymq.spark.pipelines.targets.rows_by_key import distinct
from gantrymq.spark.pipelines.targets.rows_by_key import without as without_known
from gantrymq.spark.pipelines.targets.staging import Staged, described, refusal_in, staged_by_tasks
from gantrymq.spark.pipelines.targets.writers import open_change_writer, open_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

DEAD_LETTERS = "dead_letters"
TASK_ROWS: Final = 100_000
"""A task of Spark has the rows of about so many messages, if there are so many."""
AWAY_MS: Final = 120_000
"""So long the server of a target may be away, as a broker may (``readTimeout``)."""


class Batches:
    """Adds each batch to all targets. Spark calls ``write`` for one batch after the other.

    The driver gets descriptions of rows that tasks have staged; and rows only of a batch in which something is refused.
    Each target remembers what it has, so a batch that runs again after a crash adds only what is missing.
    """

    def __init__(
        self, job: Job, columns: Mapping[str, Columns], progress: ProgressLines, disk: Disk, look: Comparison
    ) -> None:
        """``look``: when a batch is compared with the rows that others have put into a target."""
        self._job = job
        self._columns = columns
        self._progress = progress
        self._look = look
        self._patience = Patience(AWAY_MS, SystemClock(), SystemRng())
        self._refused = RefusedMessages(f"{job.checkpoint}/gantry_refused", disk_of(job.checkpoint, disk))
        self._databases = Databases()
        self._changed = None if job.changes is None else ChangedBatch(job.changes)
        self.targets: dict[str, Writer] = {}
        try:
            for name, target in job.targets.items():
                self.targets[name] = self._opened(target, name, disk)
            if job.dead_letters is not None:
                self.targets[DEAD_LETTERS] = open_writer(
                    job.dead_letters, DEAD_LETTERS, dead_letter_columns(), job.source, disk, self._databases
                )
        except BaseException:
            self.close()
            raise

    def _opened(self, target: TableTarget, name: str, disk: Disk) -> Writer:
        job, columns = self._job, self._columns[name]
        if job.changes is None:
            return open_writer(target, name, columns, job.source, disk, self._databases)

        def now_ms() -> int:
            return last_clock(job.checkpoint, disk_of(job.checkpoint, disk)).at(SystemClock().wall_ms())

        return open_change_writer(target, name, columns, Applying.of(job.changes, now_ms, target.sql), self._databases)

    def write(self, batch: DataFrame, number: int, query: str) -> dict[str, int]:
        """Add a batch. Returns the rows that each target got."""
        batch.persist()
        try:
            # Counting computes every row, once for all targets. Spark writes the state of the batch on the way, and
            # fails a query that does not do this, even if all targets have the batch already.
            is_event = batch[REASON].isNull().alias("is_event")
            counts = {row["is_event"]: row["count"] for row in batch.groupBy(is_event).count().collect()}
            added = self._patience.call(f"writing batch {number}", lambda: self._written(batch, counts, number, query))
        finally:
            batch.unpersist()
            if self._changed is not None:
                self._changed.forget()
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
        if counts.get(False) and missing and not refused and self._job.body.registry is not None:
            # A registry may know tomorrow what it does not know today: this is decided before a table changes, too.
            refused = refused_for_now(batch, MAY_CHANGE)
            if refused:
                self._refused.decide(query, number, refused)
        added: dict[str, int] = {}
        if counts.get(True) and missing:
            # A task for a few rows costs more than the rows, and leaves a small file.
            batch = batch.coalesce(-(-sum(counts.values()) // TASK_ROWS))
            staged = self._accepted(batch, number, query, missing, refused)
            added = {name: self._commit(name, query, number, some) for name, some in staged.items()}
        if (counts.get(False) or refused) and DEAD_LETTERS in missing:
            rows = dead_letters_of(batch, refused)
            some = staged_by_tasks(rows, self.targets[DEAD_LETTERS].stage(query, number))
            self.targets[DEAD_LETTERS].accepts(query, number, some)
            added[DEAD_LETTERS] = self._commit(DEAD_LETTERS, query, number, some)
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

    def _accepted(
        self, batch: DataFrame, number: int, query: str, missing: Sequence[str], refused: dict[str, str]
    ) -> dict[str, list[Staged]]:
        """Stage the rows of the targets that lack this batch, without those of refused messages, which are added to
        ``refused``. A decision is on the disk when this returns."""
        names = [name for name in missing if name != DEAD_LETTERS]
        while True:
            self._databases.undo_all()
            staged: dict[str, list[Staged]] = {}
            found: dict[str, str] = {}
            left = without(batch, refused)
            for name in names:
                staged[name], messages = self._looking(left, name, number, query)
                if messages:
                    # Of what a target has refused the next one is not asked.
                    found |= messages
                    left = without(batch, refused | found)
            if not found:
                return staged
            self._refuse_without_dead_letters(found, missing)
            refused |= found
            self._refused.decide(query, number, refused)

    def _looked_at(self, batch: DataFrame, name: str, number: int, query: str) -> tuple[list[Staged], dict[str, str]]:
        """The staged new rows for a target, and the messages because of which it would not get them."""

        def refusals(rows: pa.Table) -> Mapping[int, str]:
            self._databases.undo(name)
            return self.targets[name].refusals(query, number, self._new(name, query, number, rows))

        target = self.targets[name]
        projection = Projection(name, self._job.targets[name].sql, refusals)
        frame = rows_of(view_of(batch), projection.sql)
        try:
            staged = self._staged(frame, name, number, query)
        except Failed:
            failing = _failing(batch, projection)
            found = failing.behind_errors()
            if found:
                return [], found
            # Spark has looked at the condition of a WHERE for messages that are left out here.
            frame = failing.frame()
            staged = self._staged(frame, name, number, query)
        if target.accepts(query, number, staged):
            return staged, {}
        # These rows pass through the driver, to find the messages behind those that are refused.
        new = self._new(name, query, number, collected(frame))
        found = _failing(batch, projection).behind_rows(new, refusals(new))
        if not found:
            raise RowRefused(f"targets.{name} refuses batch {number}, and none of its messages: {refusal_in(staged)}")
        return [], found

    def _staged(self, frame: DataFrame, name: str, number: int, query: str) -> list[Staged]:
        """Stage the rows of a projection whose key nobody else has written. Raises Failed where the events are at
        fault."""
        key = self._key(name)
        known = self._known(name, query, number, lambda: collected(frame.select(*map(quoted, key)).distinct()))
        new = frame if known is None else without_keys(frame, known, key)
        with failures():
            return staged_by_tasks(new, self.targets[name].stage(query, number))

    def _looking(self, batch: DataFrame, name: str, number: int, query: str) -> tuple[list[Staged], dict[str, str]]:
        if self._changed is None:
            return self._looked_at(batch, name, number, query)
        projection = Projection(name, self._job.targets[name].sql, partial(self._refused_changes, name, number, query))
        rows, messages = self._changed.at(batch, projection, self._columns[name].arrow)
        return [] if messages else [described(rows)], messages

    def _refused_changes(self, name: str, number: int, query: str, rows: pa.Table) -> Mapping[int, str]:
        """Changes pass through the driver: they are a few rows of a batch, each with the place of its message."""
        target = self.targets[name]
        return {} if target.accepts(query, number, [described(rows)]) else target.refusals(query, number, rows)

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

    def _commit(self, name: str, query: str, number: int, staged: Sequence[Staged]) -> int:
        try:
            return self.targets[name].commit(query, number, staged)
        except Exception as error:
            error.add_note(f"while batch {number} was written to the target {name}")
            raise

    def _new(self, name: str, query: str, number: int, rows: pa.Table) -> pa.Table:
        """The rows whose key nobody else has written."""
        key = self._key(name)
        known = self._known(name, query, number, lambda: distinct(rows, key)) if len(rows) else None
        return rows if known is None else without_known(rows, known, key)

    def _key(self, name: str) -> list[str]:
        """The columns by which rows of others are recognised in a target."""
        target = self._job.targets[name]
        if isinstance(target, ParquetTarget) and target.key:
            return list(dict.fromkeys((*target.partition_by, *target.key)))
        return list(self._job.events.key)

    def _known(self, name: str, query: str, number: int, keys: Callable[[], pa.Table]) -> pa.Table | None:
        """Those of the keys of a batch that others have written; None: there are none, or nobody looks for them."""
        key, target = self._key(name), self.targets[name]
        # Rows of a projection without the key cannot be recognised.
        if not key or not set(key) <= set(self._columns[name].names):
            return None
        own = self._look.query(query)
        if not self._look.needed(name, lambda: target.others(own), number):
            return None
        wanted = keys()
        return target.known(own, wanted) if len(wanted) else None


def _failing(batch: DataFrame, projection: Projection) -> FailingProjection:
    return FailingProjection(batch.sparkSession, with_place(batch).toArrow(), projection)
