"""Divides ranges of offsets among Spark tasks. No I/O; the results are pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions, StreamOffset

SMALL_TASK_ROWS: Final = 20_000
"""Several queues are read by one task as long as it has fewer rows than this.

Starting a Python task takes about 10 ms, as long as decoding 10,000 rows. A micro-batch of a few rows from eight queues
is three times as fast in one task as in eight.
"""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """The messages ``begin <= queue offset < end`` of one queue. A range always stands for the same rows."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        return f"{self.queue} [{self.begin}, {self.end})"


Task: TypeAlias = tuple[QueueRange, ...]
"""The ranges that one Spark task reads, in this order."""


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[QueueRange]:
    """The ranges that one batch of a stream reads. Queues without new messages are left out."""
    return ranges_of({queue: start.begin_of(queue, end) for queue in end.positions}, end.positions)


def ranges_of(begin: Positions, end: Positions) -> list[QueueRange]:
    """A range for every queue that has messages between two positions."""
    return [QueueRange(queue, begin[queue], end[queue]) for queue in sorted(end) if begin[queue] < end[queue]]


def plan_tasks(ranges: Sequence[QueueRange], min_partitions: int | None, max_rows: int | None) -> list[Task]:
    """Divide ranges among tasks: large ranges may be split, and small ranges share a task.

    ``min_partitions``: split ranges until there are about this many tasks. ``max_rows``: no task has more rows. Without
    either, ranges are never split, and several share a task of up to SMALL_TASK_ROWS.
    """
    total = sum(part.rows for part in ranges)
    if not total:
        return []
    limit = max_rows or total
    if min_partitions is not None:
        limit = min(limit, -(-total // min_partitions))
        return _packed(_cut(ranges, limit), limit)
    return _packed(_cut(ranges, limit), min(limit, SMALL_TASK_ROWS))


def _cut(ranges: Sequence[QueueRange], limit: int) -> list[QueueRange]:
    """The same messages in ranges of at most ``limit`` rows, of nearly equal size within a queue."""
    pieces: list[QueueRange] = []
    for part in ranges:
        count = -(-part.rows // limit)
        edges = [part.begin + part.rows * number // count for number in range(count + 1)]
        pieces.extend(QueueRange(part.queue, low, high) for low, high in pairwise(edges) if low < high)
    return pieces


def _packed(pieces: Sequence[QueueRange], limit: int) -> list[Task]:
    """Put neighbouring ranges into one task, up to ``limit`` rows."""
    tasks: list[Task] = []
    current: list[QueueRange] = []
    rows = 0
    for piece in pieces:
        if current and rows + piece.rows > limit:
            tasks.append(tuple(current))
            current, rows = [], 0
        current.append(piece)
        rows += piece.rows
    if current:
        tasks.append(tuple(current))
    return tasks
