"""One queue of a topic: the positions of its messages in the log. Derived from the log, and can be rebuilt.

Entry, 20 bytes, big-endian: log offset 8, size 4, tags code 8. The number of an entry is the queue offset. Source:
ConsumeQueue; docs/store.md#consume-queues.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.errors import invariant
from gantrymq.message.message_types import NAMES, type_in
from gantrymq.message.queues import LogOffset, QueueOffset
from gantrymq.observability.metrics import Histogram
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.files.segmented_file import SegmentedFile

ENTRY: Final = struct.Struct(">qiq")
ENTRY_BYTES: Final = 20
BLANK_SIZE: Final = 0x7FFFFFFF
"""Size of an entry that stands for no message: before the first one of a queue, or in the place of a lost one."""
BLANK: Final = ENTRY.pack(0, BLANK_SIZE, 0)

SIZE_BOUNDS: Final = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
"""Bytes. Source: BrokerMetricsManager, messageSizeBuckets."""


class Entry(NamedTuple):
    log_offset: LogOffset
    size: int
    tags_code: int


class ConsumeQueue:
    """Entries in files, and behind them the newest ones in memory until ``write_out``.

    ``next_offset`` is the queue offset of the next append; entries from ``max_offset`` on are not visible yet.
    ``start_offset <= max_offset <= next_offset``.
    """

    __slots__ = (
        "_dropped",
        "_files",
        "_min_for",
        "_min_offset",
        "_stale",
        "_tail",
        "_tail_start",
        "arrived",
        "kind",
        "loaded_end",
        "max_offset",
        "next_offset",
        "queue_id",
        "start_offset",
        "topic",
        "topic_bytes",
    )  # fmt: skip

    def __init__(
        self, open_files: OpenFiles, directory: str, segment_size: int, topic: str, queue_id: int, bases: list[int]
    ) -> None:
        self.topic = topic
        self.topic_bytes = topic.encode()
        self.queue_id = queue_id
        self._files = SegmentedFile(open_files, directory, segment_size, bases)
        self._tail = bytearray()
        self.start_offset = self._files.start // ENTRY_BYTES
        self._tail_start = self.start_offset
        self.next_offset = self.max_offset = self.loaded_end = self.start_offset
        """``loaded_end``: entries before it were read from files that an earlier process wrote."""
        self._stale = False
        self._min_for = -1
        self._min_offset = self.start_offset
        self._dropped = False
        self.kind = type_in(topic)
        """See ``message_types.type_in``."""
        self.arrived: list[Histogram | None] = [None] * len(NAMES)
        """By type of message: sizes of the records that were made visible since the store was opened; for metrics."""

    # ---- appending

    def add(self, queue_offset: int, log_offset: int, size: int, tags_code: int) -> None:
        """Make the next entry visible. A gap in front of it is filled with blank entries; a repeat is ignored."""
        if queue_offset != self.max_offset:
            if queue_offset < self.max_offset:
                return
            self._fill_to(queue_offset, log_offset)
        self.add_next(log_offset, size, tags_code)
        if self.next_offset < self.max_offset:
            self.next_offset = self.max_offset

    def add_next(self, log_offset: int, size: int, tags_code: int) -> None:
        """``add`` of the record that was appended next, whose queue offset is taken."""
        self._tail += ENTRY.pack(log_offset, size, tags_code)
        self.max_offset += 1

    def add_run(self, entries: Sequence[tuple[int, int, int]]) -> None:
        """``add_next`` of records that were appended one after the other: log offset, size and tags code of each."""
        pack = ENTRY.pack
        self._tail += b"".join([pack(*entry) for entry in entries])
        self.max_offset += len(entries)

    def count(self, kind: int, size: int) -> None:
        """A record of this type was made visible."""
        (self.arrived[kind] or self._sizes_of(kind)).observe(size)

    def count_all(self, kind: int, sizes: Sequence[int]) -> None:
        """``count`` of several records."""
        self._sizes_of(kind).observe_all(sizes)

    def _sizes_of(self, kind: int) -> Histogram:
        sizes = self.arrived[kind]
        if sizes is None:
            sizes = self.arrived[kind] = Histogram(SIZE_BOUNDS)
        return sizes

    def leave_out(self, log_offset: int) -> None:
        """The next queue offset belongs to a damaged record at ``log_offset``."""
        self.fill_to(self.max_offset + 1, log_offset)

    def fill_to(self, queue_offset: int, log_offset: int) -> None:
        """The next record of the queue, at ``log_offset``, has this queue offset, and those between are missing. No
        record may be on its way into the queue."""
        self._fill_to(queue_offset, log_offset)
        self.next_offset = max(self.next_offset, self.max_offset)

    def _fill_to(self, queue_offset: int, log_offset: int) -> None:
        if self.max_offset == 0 and not self._files.segments:  # a queue whose beginning was deleted
            base = queue_offset * ENTRY_BYTES // self._files.segment_size * self._files.segment_size
            self.start_offset = self._tail_start = self.max_offset = base // ENTRY_BYTES
            self._tail += BLANK * (queue_offset - self.max_offset)
        else:  # with the place of the next record, so that log offsets never fall
            self._tail += ENTRY.pack(log_offset, BLANK_SIZE, 0) * (queue_offset - self.max_offset)
        self.max_offset = queue_offset

    @property
    def has_unwritten(self) -> bool:
        """Whether there are entries that are only in memory."""
        return bool(self._tail) and not self._dropped

    @property
    def is_new(self) -> bool:
        """Whether there is no file yet."""
        return not self._files.segments

    def write_out(self) -> list[str]:
        """Put all visible entries into files; the paths touched. Raises DiskFull (nothing is lost, call again)."""
        if not self._tail or self._dropped:
            return []
        position = self._tail_start * ENTRY_BYTES
        if not self._files.segments:
            self._files.begin(position // self._files.segment_size * self._files.segment_size)
        touched = self._files.write(position, bytes(self._tail))
        self._tail_start += len(self._tail) // ENTRY_BYTES
        self._tail = bytearray()
        return [segment.path for segment in touched]

    # ---- reading

    def raw(self, first: int, count: int) -> bytes:
        """The packed entries ``[first, first + count)``, as far as they are visible."""
        count = min(count, self.max_offset - first)
        if count <= 0 or first < self.start_offset:
            return b""
        in_tail = first - self._tail_start
        if in_tail >= 0:
            return bytes(self._tail[in_tail * ENTRY_BYTES : (in_tail + count) * ENTRY_BYTES])
        from_files = min(count, -in_tail)
        data = self._files.read(first * ENTRY_BYTES, from_files * ENTRY_BYTES)
        if from_files == count:
            return data
        return data + bytes(self._tail[: (count - from_files) * ENTRY_BYTES])

    def entry(self, queue_offset: int) -> Entry | None:
        """None when the entry is not visible, was removed, or belongs to no message."""
        raw = self.raw(queue_offset, 1)
        if len(raw) < ENTRY_BYTES:
            return None
        log_offset, size, tags_code = ENTRY.unpack(raw)
        return None if size == BLANK_SIZE else Entry(log_offset, size, tags_code)

    def first_at(self, log_offset: int, least: int = 0) -> int:
        """Queue offset of the first visible entry that lies at or behind ``log_offset``; ``max_offset`` when none.

        An entry whose bits turned over may have led astray: then the one two places before says so. ``least``: queue
        offset of the first entry that counts.
        """
        least = max(least, self.start_offset)
        found = self._first_at(log_offset, least, self.max_offset)
        while found - 2 >= least and self._is_behind(found - 2, log_offset):
            found = self._first_at(log_offset, least, found - 1)
        return found

    def _first_at(self, log_offset: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if self._is_behind(middle, log_offset):
                high = middle
            else:
                low = middle + 1
        return low

    def _is_behind(self, number: int, log_offset: int) -> bool:
        where, size, _tags = ENTRY.unpack(self.raw(number, 1))
        return bool(where >= log_offset and (size != BLANK_SIZE or where > 0))

    def min_offset(self, log_start: int) -> int:
        """Queue offset of the first message that still exists when the log begins at ``log_start``."""
        if self._min_for != log_start and self.max_offset > self.start_offset:
            self._min_offset = self.first_at(log_start)
            self._min_for = log_start
        return self._min_offset

    # ---- recovery and retention

    def load(self, below: int, end: QueueOffset | None = None) -> None:
        """Find the end of the entries in the files, taking only those of records before log offset ``below``.

        The entries taken must be an unbroken beginning, as everything behind them is unreliable after a crash.
        ``end``: queue offset from which on nothing is taken.
        """
        low, high = self.start_offset, self._files.end // ENTRY_BYTES
        if end is not None:
            high = min(high, end)
        while low < high:
            middle = (low + high) // 2
            if self._taken(middle, below):
                low = middle + 1
            else:
                high = middle
        self._tail = bytearray()
        self._tail_start = self.max_offset = self.next_offset = self.loaded_end = low
        self._min_for = -1
        self._min_offset = self.start_offset
        self._stale = True

    def _taken(self, number: int, below: int) -> bool:
        data = self._files.read(number * ENTRY_BYTES, ENTRY_BYTES)
        log_offset, size, _tags = ENTRY.unpack(data)
        return bool(size > 0 and 0 <= log_offset < below)

    def found_behind(self) -> Entry | None:
        """What the files hold behind the visible entries, right after ``load``; None when it is zeros, or the end."""
        data = self._files.read(self.max_offset * ENTRY_BYTES, ENTRY_BYTES)
        return Entry(*ENTRY.unpack(data)) if len(data) == ENTRY_BYTES and any(data) else None

    def drop_stale(self) -> int:
        """Zero what the files hold behind the visible entries, after ``load`` and ``write_out``; bytes zeroed."""
        invariant(not self._tail, "entries are written before what lies behind them is zeroed")
        self._stale = False
        return self._files.zero_from(self.max_offset * ENTRY_BYTES)

    def truncate(self, log_offset: int) -> list[str]:
        """Forget the entries of records at and behind ``log_offset``, also in the files; the paths touched. Visible
        entries are written out."""
        kept = self.first_at(log_offset)
        if kept == self.max_offset:
            return []
        invariant(not self._tail and self.next_offset == self.max_offset, "a queue is written out when it is cut")
        self.max_offset = self.next_offset = self._tail_start = kept
        self.loaded_end = min(self.loaded_end, kept)
        self._min_for = -1
        before = self.paths
        self._files.zero_from(kept * ENTRY_BYTES)
        return before

    def last_entry(self) -> Entry | None:
        """The newest visible entry that stands for a message."""
        number = self.last_entry_number()
        return None if number is None else self.entry(number)

    def last_entry_number(self) -> QueueOffset | None:
        """Its queue offset."""
        for number in range(self.max_offset - 1, self.start_offset - 1, -1):
            if self.entry(number) is not None:
                return QueueOffset(number)
        return None

    def drop_before(self, log_start: int) -> int:
        """Remove the files whose entries are all before ``log_start``. Returns their number."""
        return self._files.drop_before(self._drop(log_start))

    def drop(self) -> None:
        """Remove all files. Records on their way into this queue go nowhere from now on."""
        self._dropped = True
        for segment in self._files.segments:
            segment.remove()
        self._files.segments.clear()

    def _drop(self, log_start: int) -> int:
        keep = min(self.first_at(log_start), self._tail_start) * ENTRY_BYTES
        dropped_to = keep // self._files.segment_size * self._files.segment_size
        if self._files.segments:
            self.start_offset = max(self.start_offset, min(dropped_to, self._files.segments[-1].base) // ENTRY_BYTES)
        return dropped_to

    @property
    def paths(self) -> list[str]:
        """Of its files, oldest first."""
        return [segment.path for segment in self._files.segments]

    @property
    def directory(self) -> str:
        return self._files.directory
