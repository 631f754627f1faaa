"""The batch reader of the data source ``rocketmq``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from gantrymq.spark.one_sentence import one_sentence
from gantrymq.spark.options import Edge, Settings
from gantrymq.spark.partitions import QueueRange, ranges_of
from gantrymq.spark.planning import Planner
from gantrymq.spark.pushdown import Narrowing, narrowed
from gantrymq.spark.tasks import as_partitions, new_planner, read_task

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads all messages between two positions that are fixed when the query is planned."""

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with one_sentence():
            planner = new_planner(self._settings)
            return as_partitions(self._settings, planner, self._ranges(planner))

    def _ranges(self, planner: Planner) -> list[QueueRange]:
        begin = planner.resolve(self._settings.starting or Edge.EARLIEST, "starting")
        end = planner.resolve(self._settings.ending, "ending")
        return ranges_of(begin, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._settings, self._columns, partition)


class FilteredBatchReader(BatchReader):
    """A reader for sessions that push filters to the source."""

    _narrowing = Narrowing()

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self._narrowing = narrowed(filters)
        return filters  # Spark applies all of them again

    def _ranges(self, planner: Planner) -> list[QueueRange]:
        found = []
        for part in super()._ranges(planner):
            if self._narrowing.includes(part.queue):
                cut = self._narrowing.cut(part, planner.at_time)
                found += [cut] if cut.rows else []
        return found
