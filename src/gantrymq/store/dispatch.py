"""Follows the log: makes records visible in their queues when they may be, and announces them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from gantrymq.errors import InvariantViolated
from gantrymq.message import properties
from gantrymq.message.message_types import LITE
from gantrymq.message.system_topics import SCHEDULE
from gantrymq.message.tags import tags_code
from gantrymq.store.queues.consume_queue import ConsumeQueue

Pending: TypeAlias = tuple[int, ConsumeQueue | None, int, int, int, int, str, int, str, str | None, int]
"""A record that is appended and not visible yet; a plain tuple, as one is made for every message:

log offset behind the record, queue (None when the record takes no place in one), queue offset, log offset, size,
tags code, properties text, store timestamp (ms), topic, unique key ("": it has
none; None: it is still to be found in the properties), type (``message_types``).
"""

Visible: TypeAlias = Callable[[list[Pending]], None]

Arrival: TypeAlias = Callable[[str, int, Sequence[Pending]], None]
"""Called with the topic, the queue id, and the records that became visible there together, in their order."""


def further_entry(end: int, queue: ConsumeQueue, number: int, place: int, stored: int, tags: int) -> Pending:
    """A further place of a record behind its first one (``multi_dispatch``). Without text and key: the record is in the
    index already."""
    return (end, queue, number, place, end - place, tags, "", stored, queue.topic, "", LITE)


def tags_code_of(properties_text: str) -> int:
    """Hash of TAGS; 0 when there is none. Called for every message, so the usual text is taken apart here."""
    start = properties_text.find("TAGS\x01")
    if start < 0:
        return 0
    end = properties_text.find("\x02", start)
    alone = start == 0 or properties_text[start - 1] == "\x02"
    if alone and end > start + 5 and properties_text.find("TAGS\x01", end) < 0:
        return tags_code(properties_text[start + 5 : end])
    return tags_code(properties.find(properties_text, properties.TAGS))


def queue_tags_code(topic: str, properties_text: str, store_timestamp: int, delays_ms: tuple[int, ...]) -> int:
    """The tags code a record's entry gets when it is built from the log. Source: CommitLog.checkMessageAndReturnSize.

    For delayed messages it is the delivery time in ms.
    """
    if topic == SCHEDULE:
        level = properties.find(properties_text, properties.DELAY)
        if level is not None and level.isdigit() and int(level) > 0:
            return store_timestamp + delays_ms[min(int(level), len(delays_ms)) - 1]
    return tags_code_of(properties_text)


_GAP: Final = "queue offsets become visible without a gap"


class Dispatch:
    """The records between "appended" and "visible", in log order."""

    def __init__(self, position: int, last_record: int, last_store_timestamp: int, index: Visible | None) -> None:
        self._pending: deque[Pending] = deque()
        self.add = self._pending.append
        """Follow one more record."""
        self.add_all = self._pending.extend
        self.position = position
        """Everything before this log offset is visible."""
        self.last_store_timestamp = last_store_timestamp
        """Of the newest visible record, ms; 0 when not known."""
        self.last_record = last_record
        """Log offset of the newest visible record; -1 when not known."""
        self.arrivals: list[Arrival] = []
        """Told about all records; ``arrivals_of`` has those for one topic."""
        self._arrivals_of: dict[str, list[Arrival]] = {}
        self._index = index
        self.changed: dict[ConsumeQueue, None] = {}
        """Queues (an ordered set) with entries that are only in memory."""

    def arrivals_of(self, topic: str) -> list[Arrival]:
        """Told about the records of one topic: every call shows in the rate of sends."""
        return self._arrivals_of.setdefault(topic, [])

    def listeners(self) -> list[list[Arrival]]:
        """The lists of all that are told about records."""
        return [self.arrivals, *self._arrivals_of.values()]

    def advance(self, position: int) -> None:
        """Make everything before ``position`` visible, then tell the listeners."""
        changed, arrivals, arrivals_of = self.changed, self.arrivals, self._arrivals_of
        advanced = self._taken(position)
        at, count = 0, len(advanced)
        while at < count:
            item = advanced[at]
            self.position, queue, queue_offset, log_offset, size, tags, _text, _stored, topic, _key, kind = item
            at += 1
            if queue is None:
                continue
            if at < count and advanced[at][1] is queue:
                at = self._advance_run(queue, advanced, at - 1)
                continue
            if queue_offset != queue.max_offset:
                raise InvariantViolated(_GAP)
            queue.add_next(log_offset, size, tags)
            queue.count(kind, size)
            changed[queue] = None
            alone = (item,)
            for listen in arrivals:
                listen(topic, queue.queue_id, alone)
            if topic in arrivals_of:
                for listen in arrivals_of[topic]:
                    listen(topic, queue.queue_id, alone)
        if advanced:
            latest = advanced[-1]
            self.last_record, self.last_store_timestamp = latest[3], latest[7]
            if self._index is not None:
                self._index(advanced)
        if not self._pending:
            self.position = max(self.position, position)

    def _advance_run(self, queue: ConsumeQueue, advanced: list[Pending], first: int) -> int:
        """Make the records visible that follow each other in one queue, in half the time of single ones; where the
        others begin."""
        at, count = first, len(advanced)
        number, kind = queue.max_offset, advanced[first][10]
        entries: list[tuple[int, int, int]] = []
        sizes: list[int] = []
        while at < count and advanced[at][1] is queue:
            self.position, _, queue_offset, log_offset, size, tags, _text, _stored, topic, _key, of_kind = advanced[at]
            if queue_offset != number:
                raise InvariantViolated(_GAP)
            if of_kind != kind:
                queue.count_all(kind, sizes)
                kind, sizes = of_kind, []
            entries.append((log_offset, size, tags))
            sizes.append(size)
            number += 1
            at += 1
        queue.add_run(entries)
        queue.count_all(kind, sizes)
        self.changed[queue] = None
        records = advanced[first:at]
        for listen in self.arrivals:
            listen(topic, queue.queue_id, records)
        for listen in self._arrivals_of.get(topic, ()):
            listen(topic, queue.queue_id, records)
        return at

    def _taken(self, position: int) -> list[Pending]:
        """The records before ``position``, which pend no longer."""
        pending = self._pending
        if pending and pending[-1][0] <= position:
            taken = list(pending)
            pending.clear()
            return taken
        taken = []
        while pending and pending[0][0] <= position:
            taken.append(pending.popleft())
        return taken

    def newest_before(self, position: int) -> tuple[int, int] | None:
        """Begin and end of the newest record that begins before log offset ``position``, if it is not visible yet."""
        return next(((item[3], item[0]) for item in reversed(self._pending) if item[3] < position), None)

    def cut(self, position: int, last_record: int, last_store_timestamp: int) -> None:
        """Nothing at and behind ``position`` is visible any more. ``last_record``, ``last_store_timestamp``: of the
        newest visible record before it."""
        if position < self.position:
            self.position = position
            self.last_record, self.last_store_timestamp = last_record, last_store_timestamp

    def take_back(self, position: int) -> None:
        """Forget the records from log offset ``position`` on, and give their queue offsets free again."""
        pending = self._pending
        while pending and pending[-1][0] > position:
            _end, queue, queue_offset, *_rest = pending.pop()
            if queue is not None:
                queue.next_offset = queue_offset
