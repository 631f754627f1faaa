"""The batch reader of the data source ``rocketmq``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.error_reports import without_traceback
from gantrymq.spark.offsets import Positions
from gantrymq.spark.options.bounds import Edge
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.source.partitions import QueueRange, ranges_of
from gantrymq.spark.source.planning import Planner
from gantrymq.spark.source.pushdown import Narrowing, narrowed
from gantrymq.spark.source.tasks import as_partitions, new_planner, read_task

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("gantrymq.spark")

MOST_NAMED: Final = 5
"""So many queues are named in an error."""


class BatchReader(DataSourceReader):
    """Reads all messages between two positions that are fixed when the query is planned."""

    def __init__(self, settings: SourceSettings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        with without_traceback():
            planner = new_planner(self._settings)
            return as_partitions(self._settings, planner, self._ranges(planner))

    def _ranges(self, planner: Planner) -> list[QueueRange]:
        begin = planner.resolve(self._settings.starting or Edge.EARLIEST, "starting")
        end = planner.resolve(self._settings.ending, "ending")
        reversed_ = [queue for queue in end if begin[queue] > end[queue]]
        if reversed_:
            self._refuse(reversed_, begin, end)
        return ranges_of(begin, end)

    def _refuse(self, queues: list[MessageQueue], begin: Positions, end: Positions) -> None:
        """Of queues that begin behind their end. Raises GantryError, unless messages are gone and may be."""
        places = ", ".join(f"{queue} from {begin[queue]} to {end[queue]}" for queue in sorted(queues)[:MOST_NAMED])
        if self._settings.starting not in (None, Edge.EARLIEST):
            raise ConfigError(f"the query ends before it starts: {places}; correct its starting or its ending option")
        text = f"all messages before the end of the query were deleted: {places}"
        if self._settings.fail_on_data_loss:
            raise GantryError(f"{text}. With the option failOnDataLoss=false the query leaves these queues out")
        log.error("%s", text)

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
