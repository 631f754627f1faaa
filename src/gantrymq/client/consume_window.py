"""What was pulled from one queue and is not consumed yet. Pure. Source: ProcessQueue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gantrymq.message.message import MessageView
from gantrymq.message.queues import QueueOffset


class ConsumeWindow:
    """Messages in flight of one queue, and the offset below which everything is consumed.

    Messages enter in the order of their offsets and may be finished in any order.
    """

    __slots__ = ("_done", "_next", "_order", "bytes_in_flight")

    def __init__(self, start: QueueOffset) -> None:
        self._order: deque[QueueOffset] = deque()
        self._done: set[QueueOffset] = set()
        self._next = start
        self.bytes_in_flight = 0

    def add(self, messages: Iterable[MessageView]) -> None:
        for message in messages:
            self._order.append(message.queue_offset)
            self.bytes_in_flight += len(message.body)

    def advance(self, next_offset: QueueOffset) -> None:
        """Everything below ``next_offset`` was pulled or filtered out."""
        self._next = max(self._next, next_offset)

    def finish(self, messages: Iterable[MessageView]) -> None:
        """Messages were consumed (or sent back, which settles them here, too)."""
        order, done = self._order, self._done
        for message in messages:
            self.bytes_in_flight -= len(message.body)
            done.add(message.queue_offset)
        while order and order[0] in done:
            done.discard(order.popleft())

    @property
    def count(self) -> int:
        """Messages that are not finished."""
        return len(self._order) - len(self._done)

    @property
    def span(self) -> int:
        """Distance from the lowest to the highest offset held."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def bounds(self) -> tuple[QueueOffset, QueueOffset]:
        """The lowest and the highest offset held; zeros when there is none."""
        return (self._order[0], self._order[-1]) if self._order else (QueueOffset(0), QueueOffset(0))

    @property
    def committable(self) -> QueueOffset:
        """The lowest offset that is not consumed: what may be stored as the group's progress."""
        return self._order[0] if self._order else self._next
