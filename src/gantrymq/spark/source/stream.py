"""The stream reader of the data source ``rocketmq``: where each micro-batch begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.clock import SystemClock
from gantrymq.spark.error_reports import without_traceback
from gantrymq.spark.offsets import Positions, StreamOffset, limited
from gantrymq.spark.options.bounds import Edge
from gantrymq.spark.options.table import SourceSettings
from gantrymq.spark.source.byte_limit import limited_bytes
from gantrymq.spark.source.connections import OF_THIS_PROCESS
from gantrymq.spark.source.group_progress import GroupProgress
from gantrymq.spark.source.oldest_unread import OldestUnread
from gantrymq.spark.source.partitions import ranges_between
from gantrymq.spark.source.planning import Planner
from gantrymq.spark.source.tasks import as_partitions, new_planner, read_task

if TYPE_CHECKING:
    import pyarrow as pa


BUSY_S: Final = 10.0
BUSY_POLL_S: Final = 0.01
"""How often the source asks in this time after a batch."""


class RefusedStream(DataSourceStreamReader):
    """Stands for a stream whose options are wrong, and raises the error at Spark's first question.

    Spark 4.2 and 4.3 lose an error that is raised while the reader is made, and report one of their own instead.
    """

    def __init__(self, error: GantryError) -> None:
        self._error = error

    def _refuse(self, *_: Any) -> NoReturn:
        with without_traceback():
            raise self._error

    initialOffset = latestOffset = partitions = read = _refuse


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new messages of a topic. All state that must survive a restart is in the offsets that Spark stores."""

    def __init__(self, settings: SourceSettings, columns: tuple[str, ...]) -> None:
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
        self._batch_at: float | None = None
        """When the last batch that was not empty was planned; None before the first."""
        self._idle = False
        self._unread = OldestUnread()
        self._progress: GroupProgress | None = None

    def initialOffset(self) -> dict[str, Any]:
        # It contains no positions, because Spark does not store this offset; see StreamOffset.
        return StreamOffset({}, {}).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        # A limit other than "all" also says that this is no trigger "once", which must not wait.
        settings = self._settings
        if settings.max_offsets_per_trigger:
            return ReadMaxRows(settings.max_offsets_per_trigger)
        if settings.max_bytes_per_trigger:
            return ReadMaxBytes(settings.max_bytes_per_trigger)
        return ReadMinRows(settings.min_offsets_per_trigger) if settings.min_offsets_per_trigger else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with without_traceback():
            planner = self._planned()
            self._target = planner.edge(Edge.LATEST, planner.queues())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends. Equal to ``start`` when there is nothing new, or not enough."""
        with without_traceback():
            self._pace()
            begin = StreamOffset.from_json(start)
            if begin.base:
                self._planned().resume()
            base = self._base_for(begin)
            reached = {queue: begin.positions.get(queue, offset) for queue, offset in base.items()}
            latest = self._planned().latest(self._planned().queues(), reached)
            self._latest = StreamOffset(latest, base)
            end = self._end_of_batch(begin, reached, latest, limit)
            self._idle = end == begin.positions
            self._report(begin, end, latest)
            return StreamOffset(end, base).to_json()

    def _end_of_batch(self, begin: StreamOffset, reached: Positions, latest: Positions, limit: ReadLimit) -> Positions:
        if self._must_wait(begin, reached, latest, limit):
            return begin.positions
        allowed = {queue: self._allowed(queue, at, latest) for queue, at in reached.items()}
        end = limited(reached, allowed, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        most = self._settings.max_bytes_per_trigger
        if most is not None and not isinstance(limit, ReadAllAvailable):
            end = limited_bytes(reached, end, most, self._planned().sizes)
        if end != begin.positions:
            self._batch_at = SystemClock().monotonic()
        return end

    def _must_wait(self, begin: StreamOffset, reached: Positions, latest: Positions, limit: ReadLimit) -> bool:
        """Whether ``minOffsetsPerTrigger`` delays the batch. The first batch of a run is never delayed."""
        least = self._settings.min_offsets_per_trigger
        if least is None or isinstance(limit, ReadAllAvailable) or self._target is not None or self._batch_at is None:
            return False
        if begin.positions.keys() != reached.keys():
            return False  # the first batch of a new queue stores where reading of it began
        if any(latest.get(queue, at) < at for queue, at in reached.items()):
            return False  # a batch stores that reading continues at an earlier place
        waited = SystemClock().monotonic() - self._batch_at
        new = sum(latest[queue] - at for queue, at in reached.items() if queue in latest)
        return new < least and waited < self._settings.max_trigger_delay_ms / 1000

    def _base_for(self, begin: StreamOffset) -> Positions:
        """Where reading of each queue began. A queue that appears while the stream runs is read from its beginning."""
        planner = self._planned()
        queues = planner.queues()
        if not begin.positions and not begin.base:
            if self._base is None:
                self._base = planner.resolve(self._settings.starting or Edge.LATEST, "starting")
            known = self._base
        else:
            known = begin.base
        return {**known, **planner.edge(Edge.EARLIEST, [queue for queue in queues if queue not in known])}

    def _allowed(self, queue: MessageQueue, at: int, latest: Positions) -> int:
        """The furthest end of the batch in a queue; before ``at`` only where the queue lost messages."""
        end = latest.get(queue, at)
        if end < at or self._target is None:
            return end
        return max(min(end, self._target.get(queue, 0)), at)

    def _pace(self) -> None:
        """Without new messages Spark asks about every 11 ms. Wait, so that brokers are asked every ``pollInterval``.

        While messages come one by one, the wait is a large part of the time until a query has them.
        """
        clock = SystemClock()
        if self._idle:
            interval_s = self._settings.poll_interval_ms / 1000
            if self._batch_at is not None and clock.monotonic() - self._batch_at < BUSY_S:
                interval_s = min(interval_s, BUSY_POLL_S)
            rest = self._asked_at + interval_s - clock.monotonic()
            if rest > 0:
                clock.block(rest)
        self._asked_at = clock.monotonic()

    def _report(self, begin: StreamOffset, end: Positions, latest: Positions) -> None:
        """What tools see: the age of what is left over, and the progress of the group."""
        self._unread.look(self._planned().reader, end, latest)
        if self._settings.group is None:
            return
        if self._progress is None:
            settings = self._settings
            reader = OF_THIS_PROCESS.reader(settings.name_servers, settings.access, settings.group)
            self._progress = GroupProgress(reader, SystemClock())
        # Spark asks for the next batch when the one before it is complete: everything before ``begin`` is processed.
        self._progress.reached(begin.positions, now=self._idle)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the progress of the query only: the ends of the queues, and when the oldest unread message was stored."""
        if self._latest is None:
            return None
        return {**self._latest.to_json(), "oldest_unread_ms": self._unread.stored_ms}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with without_traceback():
            ranges = ranges_between(StreamOffset.from_json(start), StreamOffset.from_json(end))
            return as_partitions(self._settings, self._planned(), ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._settings, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: the progress is in Spark's checkpoint. See GroupProgress for the option ``group``."""

    def _planned(self) -> Planner:
        if self._planner is None:
            self._planner = new_planner(self._settings)
        return self._planner
