"""The data source ``rocketmq`` for ``spark.read`` and ``spark.readStream``.

Spark creates these objects in processes of its own, and pickles them to pass them on. So a reader contains settings and
numbers, and never a connection. Tasks read the batches; one planner process per query asks for the offsets of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.connections import OF_THIS_PROCESS
from gantrymq.spark.offsets import Positions, StreamOffset, limited
from gantrymq.spark.options import Edge, Settings, parse_options
from gantrymq.spark.partitions import QueueRange, Task, plan_tasks, ranges_between, ranges_of
from gantrymq.spark.patience import Patience
from gantrymq.spark.planning import Planner
from gantrymq.spark.rows import columns_of, ddl
from gantrymq.spark.sink.options import parse_sink_options
from gantrymq.spark.sink.writers import batch_writer, stream_writer

if TYPE_CHECKING:
    import pyarrow as pa


class RocketMQDataSource(DataSource):
    """Messages of RocketMQ topics as rows. Options: ``spark.options.OPTIONS``; columns: ``spark.rows.SPARK_TYPES``.

    Only committed messages are read, because half messages and rolled-back messages are in no queue of a topic. Use
    ``.schema("queue_offset bigint, body binary")`` or the option ``columns`` to select columns; the others are not
    decoded.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))

    @cached_property
    def _settings(self) -> Settings:
        """As a source. Not read in ``__init__``, because a sink has other options."""
        return parse_options(self.options)

    @classmethod
    def name(cls) -> str:
        return "rocketmq"

    def schema(self) -> str:
        return ddl(self._settings.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._settings.for_batch(), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self._settings.for_stream(), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return batch_writer(parse_sink_options(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return stream_writer(parse_sink_options(self.options), schema)


def read_task(settings: Settings, columns: tuple[str, ...], task: Task) -> Iterator[pa.RecordBatch]:
    """The rows of one task. This runs in a worker process, and uses the connections of that process."""
    # Imported here, because looking up the format and planning need neither Arrow nor numpy.
    from gantrymq.spark.reading import RangeReader

    reader = RangeReader(
        OF_THIS_PROCESS.reader(settings.name_servers),
        Patience(settings.read_timeout_ms, SystemClock(), SystemRng()),
        fail_on_data_loss=settings.fail_on_data_loss,
        pull_max_rows=settings.pull_max_rows,
    )
    for part in task:
        yield from reader.batches(part, columns)


def new_planner(settings: Settings) -> Planner:
    return Planner(settings, OF_THIS_PROCESS, SystemClock(), SystemRng())


class BatchReader(DataSourceReader):
    """Reads all messages between two positions that are fixed when the query is planned."""

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        settings, planner = self._settings, new_planner(self._settings)
        begin = planner.resolve(settings.starting or Edge.EARLIEST, "startingOffsets")
        end = planner.resolve(settings.ending, "endingOffsets")
        return as_partitions(settings, ranges_of(begin, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # When there is nothing to read, Spark makes one partition with the value None.
        return read_task(self._settings, self._columns, partition.value or ())


def as_partitions(settings: Settings, ranges: Sequence[QueueRange]) -> list[InputPartition]:
    tasks = plan_tasks(ranges, settings.min_partitions, settings.max_rows_per_partition)
    return [InputPartition(task) for task in tasks]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new messages of a topic. All state that must survive a restart is in the offsets that Spark stores."""

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns
        self._planner: Planner | None = None
        self._base: Positions | None = None
        """Where a stream without a checkpoint begins. It is computed once per run."""
        self._target: Positions | None = None
        """The positions at which a query with trigger AvailableNow ends."""
        self._latest: StreamOffset | None = None
        """The ends of the queues when the brokers were last asked."""
        self._asked_at = 0.0
        self._idle = False

    def initialOffset(self) -> dict[str, Any]:
        # It contains no positions, because Spark does not store this offset; see StreamOffset.
        return StreamOffset({}, {}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._settings.max_offsets_per_trigger
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        planner = self._planned()
        self._target = planner.edge(Edge.LATEST, planner.queues())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends. Equal to ``start`` when there is nothing new."""
        self._pace()
        begin = StreamOffset.from_json(start)
        base = self._base_for(begin)
        reached = {queue: begin.positions.get(queue, offset) for queue, offset in base.items()}
        latest = self._planned().latest(self._planned().queues(), reached)
        self._latest = StreamOffset(latest, base)
        allowed = {queue: max(self._allowed(queue, latest), at) for queue, at in reached.items()}
        end = limited(reached, allowed, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        self._idle = end == begin.positions
        return StreamOffset(end, base).to_json()

    def _base_for(self, begin: StreamOffset) -> Positions:
        """Where reading of each queue began. A queue that appears while the stream runs is read from its beginning."""
        planner = self._planned()
        queues = planner.queues()
        if not begin.positions and not begin.base:
            if self._base is None:
                self._base = planner.resolve(self._settings.starting or Edge.LATEST, "startingOffsets")
            known = self._base
        else:
            known = begin.base
        return {**known, **planner.edge(Edge.EARLIEST, [queue for queue in queues if queue not in known])}

    def _allowed(self, queue: Any, latest: Positions) -> int:
        end = latest.get(queue, 0)
        return end if self._target is None else min(end, self._target.get(queue, 0))

    def _pace(self) -> None:
        """Without new messages Spark asks about every 11 ms. Wait, so that brokers are asked every ``pollInterval``."""
        clock = SystemClock()
        if self._idle:
            rest = self._asked_at + self._settings.poll_interval_ms / 1000 - clock.monotonic()
            if rest > 0:
                clock.block(rest)
        self._asked_at = clock.monotonic()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._latest.to_json() if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = ranges_between(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return as_partitions(self._settings, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._settings, self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the progress is in Spark's checkpoint, not in the broker."""

    def _planned(self) -> Planner:
        if self._planner is None:
            self._planner = new_planner(self._settings)
        return self._planner
