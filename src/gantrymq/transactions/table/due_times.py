"""A queue ordered by due time that tolerates outdated entries."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence

from gantrymq.transactions.table.open_halves import TransactionTable


class DueTimes:
    """Half queue offsets of open halves, by the time when they are due (monotonic seconds).

    Most half messages have the same immunity, so most entries arrive in order of time: those live in a deque, the
    others in a heap. An entry is never removed from the middle; it counts while its half is due at that time.
    """

    __slots__ = ("_heap", "_in_order", "_prune_at", "_table")

    def __init__(self, table: TransactionTable) -> None:
        self._table = table
        self._in_order: deque[tuple[float, int]] = deque()
        self._heap: list[tuple[float, int]] = []
        self._prune_at = PRUNE_FROM

    def push(self, due: float, key: int) -> None:
        in_order = self._in_order
        if not in_order or due >= in_order[-1][0]:
            in_order.append((due, key))
        else:
            heapq.heappush(self._heap, (due, key))
        if len(in_order) + len(self._heap) >= self._prune_at:
            self._prune()

    def push_all(self, due: float, keys: Sequence[int]) -> None:
        """``push`` of several keys that are due at one time."""
        in_order = self._in_order
        if in_order and due < in_order[-1][0]:
            for key in keys:
                self.push(due, key)
            return
        in_order.extend([(due, key) for key in keys])
        if len(in_order) + len(self._heap) >= self._prune_at:
            self._prune()

    def next_due(self) -> float | None:
        """When the first current entry is due; None when nothing is."""
        entry = self._first()
        return None if entry is None else entry[0]

    def pop_due(self, now: float, limit: int) -> Iterator[int]:
        """Up to ``limit`` keys that are due, the longest overdue first."""
        for _ in range(limit):
            entry = self._first()
            if entry is None or entry[0] > now:
                return
            if self._in_order and self._in_order[0] == entry:  # of equal entries ``_first`` takes this one
                self._in_order.popleft()
            else:
                heapq.heappop(self._heap)
            yield entry[1]

    def __len__(self) -> int:
        """Entries held, outdated ones included."""
        return len(self._in_order) + len(self._heap)

    def _first(self) -> tuple[float, int] | None:
        in_order, heap = self._in_order, self._heap
        while in_order and not self._is_current(in_order[0][1], in_order[0][0]):
            in_order.popleft()
        while heap and not self._is_current(heap[0][1], heap[0][0]):
            heapq.heappop(heap)
        if in_order and (not heap or in_order[0] <= heap[0]):
            return in_order[0]
        return heap[0] if heap else None

    def _is_current(self, key: int, due: float) -> bool:
        half = self._table.get(key)
        return half is not None and half.due == due

    def _prune(self) -> None:
        """Drop outdated entries, so that memory follows the open halves and not the traffic of the last minutes."""
        in_order: deque[tuple[float, int]] = deque()
        for entry in self._in_order:
            if self._is_current(entry[1], entry[0]):
                in_order.append(entry)
        self._in_order = in_order
        self._heap = [entry for entry in self._heap if self._is_current(entry[1], entry[0])]
        heapq.heapify(self._heap)
        self._prune_at = max(PRUNE_FROM, 4 * len(self))


PRUNE_FROM = 4096
"""Entries below which outdated ones are not worth looking for."""
