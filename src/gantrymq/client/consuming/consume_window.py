"""The messages that were pulled from one queue and are not consumed yet. No I/O. Source: ProcessQueue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from gantrymq.message.message import MessageView
from gantrymq.message.queues import QueueOffset


class ConsumeWindow:
    """Messages in flight of one queue, and the offset below which everything is consumed.

    Messages enter in the order of their offsets and may be finished in any order.
    """

    __slots__ = ("_next", "_order", "_sizes", "bytes_in_flight")

    def __init__(self, start: QueueOffset) -> None:
        self._order: deque[QueueOffset] = deque()
        self._sizes: dict[QueueOffset, int] = {}
        """The body sizes of the messages that are not finished, as they arrived: a listener may change a message."""
        self._next = start
        self.bytes_in_flight = 0

    def add(self, messages: Iterable[MessageView]) -> None:
        for message in messages:
            size = self._sizes[message.queue_offset] = len(message.body)
            self._order.append(message.queue_offset)
            self.bytes_in_flight += size

    def advance(self, next_offset: QueueOffset) -> None:
        """All messages below ``next_offset`` were pulled or filtered out."""
        self._next = max(self._next, next_offset)

    def finish(self, messages: Iterable[MessageView]) -> None:
        """Messages were consumed, or sent back to the broker."""
        order, sizes = self._order, self._sizes
        for message in messages:
            self.bytes_in_flight -= sizes.pop(message.queue_offset, 0)
        while order and order[0] not in sizes:
            order.popleft()

    @property
    def count(self) -> int:
        """The number of messages that are not finished."""
        return len(self._sizes)

    @property
    def span(self) -> int:
        """Distance from the lowest to the highest offset held."""
        return self._order[-1] - self._order[0] if self._order else 0

    @property
    def bounds(self) -> tuple[QueueOffset, QueueOffset]:
        """The lowest and the highest offset held; two zeros when no message is held."""
        return (self._order[0], self._order[-1]) if self._order else (QueueOffset(0), QueueOffset(0))

    @property
    def committable(self) -> QueueOffset:
        """The lowest offset that is not consumed. It may be stored as the group's progress."""
        return self._order[0] if self._order else self._next
