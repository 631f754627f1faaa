"""Goes through bytes of a commit log record by record, and checks each one: magic, size, CRC, place. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gantrymq.errors import CorruptRecord
from gantrymq.message.sizes import LARGEST_RECORD_BYTES, SMALLEST_RECORD_BYTES
from gantrymq.protocol.stored_message import BLANK_MAGIC, read_size_and_magic
from gantrymq.store.log.records import END_MARK_BYTES, Parsed, parse

Range = tuple[int, int]


@dataclass(slots=True)
class RecordWalk:
    """Yields ``(log offset, fields)`` of the records in ``data``, which begins at log offset ``base``.

    It ends with ``position`` behind the last good byte. ``bad`` says why it is not the end of the data.
    """

    data: bytes
    base: int
    file_bytes: int
    damaged: Sequence[Range] = ()
    """Ranges of the log that are passed over."""
    position: int = 0
    bad: CorruptRecord | None = None
    records: int = 0
    first_ms: int = 0
    last_ms: int = 0

    def __post_init__(self) -> None:
        self.position = self.base

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def __iter__(self) -> Iterator[tuple[int, Parsed]]:
        data, base = self.data, self.base
        while self.position < self.end:
            place = self.position
            behind = behind_damage(self.damaged, place)
            if behind > place:
                self.position = min(behind, self.end)
                continue
            at = place - base
            end_of_file = place - place % self.file_bytes + self.file_bytes
            if at + END_MARK_BYTES > len(data):
                self.bad = CorruptRecord(place, "it is cut off")
                return
            size, magic = read_size_and_magic(data, at)
            if magic == BLANK_MAGIC and size == end_of_file - place and at + size <= len(data):
                self.position += size
                continue
            if not SMALLEST_RECORD_BYTES <= size <= min(LARGEST_RECORD_BYTES, end_of_file - place):
                self.bad = CorruptRecord(place, f"a size of {size} bytes is impossible")
                return
            if at + size > len(data):
                self.bad = CorruptRecord(place, "it is cut off")
                return
            try:
                parsed = parse(data, at, place)
            except CorruptRecord as error:
                # Not the error itself: its traceback holds the data, in a circle that lives until the next collection.
                self.bad = CorruptRecord(place, error.reason)
                return
            self.position += size
            self._count(parsed[5])
            yield place, parsed

    def _count(self, stored_ms: int) -> None:
        self.first_ms = min(self.first_ms, stored_ms) if self.records else stored_ms
        self.last_ms = max(self.last_ms, stored_ms)
        self.records += 1

    def to_the_end(self) -> RecordWalk:
        """Walk through all of it."""
        for _ in self:
            pass
        return self


def behind_damage(damaged: Sequence[Range], place: int) -> int:
    """Where the damaged range that holds ``place`` ends; ``place`` itself when none does."""
    for begin, end in damaged:
        if begin <= place < end:
            return end
    return place


@dataclass(slots=True)
class QueueEnds:
    """Where each queue ends, by the records of the log. Mirrors what a start of the broker rebuilds."""

    deleted: dict[str, int] = field(default_factory=dict)
    """Topic to the log offset before which its records do not count."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def saw(self, place: int, topic: str, queue_id: int, queue_offset: int) -> None:
        """A record that takes a place in its queue."""
        if place >= self.deleted.get(topic, 0):
            key = topic, queue_id
            self.ends[key] = max(self.ends.get(key, 0), queue_offset + 1)
