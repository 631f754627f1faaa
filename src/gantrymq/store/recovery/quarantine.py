"""The damaged parts of the log: each is reported once, with the position at which the log continues."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import PLACE_BYTES, place_of
from gantrymq.store.queues.consume_queue import BLANK_SIZE, ENTRY, ENTRY_BYTES, ConsumeQueue
from gantrymq.store.queues.queue_table import QueueTable

log = logging.getLogger("gantrymq.store")

ENTRIES_AT_ONCE: Final = 256
"""How many entries of a queue are looked at before the queue is searched again."""


class Quarantine:
    """The damaged places found so far, by the start, by readers, and by walks through the log."""

    def __init__(self, commit_log: CommitLog, queues: QueueTable, ranges: Mapping[int, int]) -> None:
        """``ranges``: what a start found, start to end."""
        self._log = commit_log
        self._queues = queues
        self._ranges = dict(ranges)
        self._records = set(ranges)
        self._entries: set[tuple[str, int, int]] = set()

    def record(self, log_offset: int) -> None:
        """There is a damaged record at this place."""
        if log_offset not in self._records:
            self._records.add(log_offset)
            log.error("record at log offset %d is corrupt; it is not served", log_offset)

    def entry(self, queue: ConsumeQueue, queue_offset: int, log_offset: int, size: int) -> None:
        """A queue entry does not lead to a record: this says nothing about any place of the log."""
        key = (queue.topic, queue.queue_id, queue_offset)
        if key not in self._entries:
            self._entries.add(key)
            log.error(
                "entry %d of queue %d of %s is damaged: no record of %d bytes lies at log offset %d; it is skipped",
                queue_offset, queue.queue_id, queue.topic, size, log_offset,
            )  # fmt: skip

    def truncate(self, position: int) -> None:
        """The log ends at ``position`` now, and other records will come to lie behind it."""
        self._ranges = {start: min(end, position) for start, end in self._ranges.items() if start < position}
        self._records = {place for place in self._records if place < position}
        self._entries.clear()

    def behind(self, position: int, end: int) -> int:
        """The place at which the log continues behind the damage at ``position``; at the latest ``end``.

        Behind damage that no start has read, the log continues at the next record that a queue knows. A walk through
        the log always advances, whatever was known about the place before.
        """
        following = self._ranges.get(position, position)
        if following <= position:
            self.record(position)
            following = min([end, *(self._next_known(queue, position, end) for queue in self._queues.queues.values())])
            self._ranges[position] = following
        return following

    def _next_known(self, queue: ConsumeQueue, position: int, end: int) -> int:
        """Of the first entry behind ``position`` that the log confirms; other entries may be damaged as well."""
        number = queue.first_at(position + 1)
        while raw := queue.raw(number, ENTRIES_AT_ONCE):
            for log_offset, size, _tags in ENTRY.iter_unpack(raw):
                if log_offset > position and size != BLANK_SIZE:
                    said, _queue_id, _queue_offset, own = place_of(self._log.read(log_offset, PLACE_BYTES))
                    if (said, own) == (size, log_offset):
                        return int(log_offset)
            number = queue.first_at(position + 1, number + len(raw) // ENTRY_BYTES)
        return end
