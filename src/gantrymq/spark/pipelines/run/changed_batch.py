"""What a batch does to the targets of a job with changes, and the messages because of which one would not get it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.changes.operations import IS_DELETE
from gantrymq.spark.pipelines.changes.rows import PLACE, changed_rows
from gantrymq.spark.pipelines.job import MESSAGE_COLUMNS, Changes
from gantrymq.spark.pipelines.run.event_stream import PREFIX, REASON, place, view_of
from gantrymq.spark.pipelines.run.expressions import Failed
from gantrymq.spark.pipelines.run.failing_messages import FailingProjection, Projection, refusal, with_place
from gantrymq.spark.pipelines.run.projections import collected, evaluated

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class ChangedBatch:
    """One batch after the other, each for one target after the other."""

    changes: Changes
    _batch: DataFrame | None = field(default=None, init=False)
    _newest: Newest | None = field(default=None, init=False)
    """Of this batch."""

    def at(self, batch: DataFrame, projection: Projection, schema: pa.Schema) -> tuple[pa.Table, dict[str, str]]:
        """The changes of the rows of a target, as ``changed_rows`` returns them, and the messages that it refuses.

        If there are some, the caller asks again without them: then an older event of the same key may be the newest
        one. ``schema``: the columns of the target.
        """
        newest = self._newest_of(batch)
        rows, messages = _projected(newest, projection, schema)
        if messages:
            return rows, messages
        changed = changed_rows(rows, newest.keys(), self.changes, projection.target)
        refused = projection.refusals(changed.rows)
        return changed.rows, {changed.places[at]: refusal(projection.target, text) for at, text in refused.items()}

    def forget(self) -> None:
        """Spark may free the memory of the last batch."""
        if self._newest is not None:
            self._newest.forget()
        self._batch = self._newest = None

    def _newest_of(self, batch: DataFrame) -> Newest:
        if self._newest is None or batch is not self._batch:
            self.forget()
            self._batch, self._newest = batch, Newest.of(batch, self.changes)
        return self._newest


def _projected(newest: Newest, projection: Projection, schema: pa.Schema) -> tuple[pa.Table, dict[str, str]]:
    try:
        return evaluated(view_of(newest.upserts), projection.sql), {}
    except Failed:
        events = with_place(newest.upserts)
        failing = FailingProjection(events.sparkSession, events.toArrow(), replace(projection, refusals=lambda _: {}))
        found = failing.behind_errors()
        # Spark has looked at the condition of a WHERE for messages that are left out here.
        return (schema.empty_table(), found) if found else (collected(failing.frame()), {})


@dataclass(slots=True)
class Newest:
    """The newest events of a batch."""

    frame: DataFrame
    changes: Changes
    _keys: pa.Table | None = field(default=None, init=False)

    @classmethod
    def of(cls, batch: DataFrame, changes: Changes) -> Newest:
        """Of two events with equal order a delete counts; otherwise the first one in the order of queues."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        newest_first = [f.col(PREFIX + name).desc() for name in changes.order_by]
        window = Window.partitionBy(*(f.col(PREFIX + name) for name in changes.key)).orderBy(
            *newest_first, f.col(IS_DELETE).desc(), *MESSAGE_COLUMNS[:-1]
        )
        numbered = batch.where(f.col(REASON).isNull()).withColumn("_number", f.row_number().over(window))
        return cls(numbered.where(f.col("_number") == 1).drop("_number").persist(), changes)

    @property
    def upserts(self) -> DataFrame:
        from pyspark.sql import functions as f

        return self.frame.where(~f.col(IS_DELETE))

    def keys(self) -> pa.Table:
        """The key, the order and the place of each of them, and whether it is a delete. Asked of Spark once."""
        from pyspark.sql import functions as f

        if self._keys is None:
            names = dict.fromkeys((*self.changes.key, *self.changes.order_by))
            columns = [f.col(PREFIX + name).alias(name) for name in names]
            self._keys = self.frame.select(*columns, IS_DELETE, place().alias(PLACE)).toArrow()
        return self._keys

    def forget(self) -> None:
        """Spark may free its memory."""
        self.frame.unpersist()
