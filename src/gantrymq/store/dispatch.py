"""Follows the log: makes records visible in their queues once they may be, and announces them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from gantrymq.errors import invariant
from gantrymq.message import properties
from gantrymq.message.system_topics import SCHEDULE
from gantrymq.message.tags import tags_code
from gantrymq.store.consume_queue import ConsumeQueue

Arrival: TypeAlias = Callable[[str, int, int, int], None]
"""Called with (topic, queue id, queue offset, tags code)."""


class Pending(NamedTuple):
    """A record that is appended and not visible yet."""

    end: int
    """Log offset behind the record."""
    queue: ConsumeQueue | None
    """None when the record takes no place in a queue."""
    queue_offset: int
    log_offset: int
    size: int
    tags_code: int
    properties_text: str
    store_timestamp: int
    topic: str


Visible: TypeAlias = Callable[[Pending], None]


def queue_tags_code(topic: str, properties_text: str, store_timestamp: int, delays_ms: tuple[int, ...]) -> int:
    """The tags code a record's entry gets when it is built from the log. Source: CommitLog.checkMessageAndReturnSize.

    For delayed messages it is the delivery time in ms.
    """
    if topic == SCHEDULE:
        level = properties.find(properties_text, properties.DELAY)
        if level is not None and level.isdigit() and int(level) > 0:
            return store_timestamp + delays_ms[min(int(level), len(delays_ms)) - 1]
    return tags_code(properties.find(properties_text, properties.TAGS)) if "TAGS\x01" in properties_text else 0


class Dispatch:
    """The records between "appended" and "visible", in log order."""

    def __init__(self, position: int, last_record: int, last_store_timestamp: int, index: Visible | None) -> None:
        self._pending: deque[Pending] = deque()
        self.add = self._pending.append
        """Follow one more record."""
        self.position = position
        """Everything before this log offset is visible."""
        self.last_store_timestamp = last_store_timestamp
        """Of the newest visible record, ms; 0 when not known."""
        self.last_record = last_record
        """Log offset of the newest visible record; -1 when not known."""
        self.arrivals: list[Arrival] = []
        self._index = index
        self.changed: dict[ConsumeQueue, None] = {}
        """Queues (an ordered set) with entries that are only in memory."""

    def advance(self, position: int) -> None:
        """Make everything before ``position`` visible, then tell the listeners."""
        pending = self._pending
        while pending and pending[0].end <= position:
            item = pending.popleft()
            self.position = item.end
            self.last_record = item.log_offset
            self.last_store_timestamp = item.store_timestamp
            queue = item.queue
            if queue is not None:
                invariant(item.queue_offset == queue.max_offset, "queue offsets become visible without a gap")
                queue.add(item.queue_offset, item.log_offset, item.size, item.tags_code)
                self.changed[queue] = None
            if self._index is not None:
                self._index(item)
            if queue is not None:
                for listen in self.arrivals:
                    listen(item.topic, queue.queue_id, item.queue_offset, item.tags_code)
        if not pending:
            self.position = max(self.position, position)

    def take_back(self, position: int) -> None:
        """Forget the records from log offset ``position`` on, and give their queue offsets free again."""
        pending = self._pending
        while pending and pending[-1].end > position:
            item = pending.pop()
            if item.queue is not None:
                item.queue.next_offset = item.queue_offset
