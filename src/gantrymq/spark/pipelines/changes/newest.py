"""Of a batch, the newest event of each key, which alone can change a row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.change_operations import IS_DELETE
from gantrymq.spark.pipelines.event_stream import PREFIX, REASON, place
from gantrymq.spark.pipelines.job import MESSAGE_COLUMNS, Changes

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PLACE = "gantry_place"


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
