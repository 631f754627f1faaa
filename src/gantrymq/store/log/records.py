"""Reads the fields of log records in place, without making messages of them. Layout: ``protocol.stored_message``."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias
from zlib import crc32

from gantrymq.errors import CorruptRecord
from gantrymq.message import flags
from gantrymq.message.sizes import LARGEST_RECORD_BYTES, SMALLEST_RECORD_BYTES
from gantrymq.protocol.stored_message import BLANK_MAGIC, MAGIC_V1, MAGIC_V2
from gantrymq.store.files.segmented_file import SegmentedFile

CHUNK_BYTES: Final = 1 << 20
"""How much of the log is read in one go."""
END_MARK_BYTES: Final = 8
"""Size and magic of the mark at the end of a file; a record leaves at least this much room behind it."""

_HEAD: Final = struct.Struct(">iIIiiqqi44xi")
"""size, magic, CRC, queue id, flag, queue offset, log offset, system flag, ..., body length (IPv4 hosts)."""
_PLACE: Final = struct.Struct(">i8xi4xqq")
PLACE_BYTES: Final = _PLACE.size
_CHECKED: Final = struct.Struct(">iII16xqi44xi")
"""The same without queue id, flag and queue offset."""
_MAGICS: Final = frozenset((MAGIC_V1, MAGIC_V2))
_SIZE_MAGIC: Final = struct.Struct(">iI")
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_BORN_V6: Final = flags.BORN_HOST_V6
_HOSTS_V6: Final = flags.BORN_HOST_V6 | flags.STORE_HOST_V6

Parsed: TypeAlias = tuple[int, str, int, int, int, int, str]
"""size, topic, queue id, queue offset, system flag, store timestamp (ms), properties text"""


NO_QUEUE_ENTRY: Final = flags.PREPARED
"""This bit is set in PREPARED and ROLLBACK records, which take no place in a queue. Source: CommitLog.doAppend."""


def has_queue_entry(sys_flag: int) -> bool:
    """Whether a record takes a place in its queue: ordinary and committed ones do."""
    return not sys_flag & NO_QUEUE_ENTRY


def body_place(data: bytes | memoryview, at: int, sys_flag: int) -> int:
    """Where the body length lies."""
    at += 84
    if sys_flag & _HOSTS_V6:
        at += 12 * ((sys_flag & flags.BORN_HOST_V6 > 0) + (sys_flag & flags.STORE_HOST_V6 > 0))
    return at


def made_of(data: bytes | memoryview, at: int) -> int:
    """The field that says which half message, or which other record, the one at ``data[at:]`` was made of; 0: none."""
    start = body_place(data, at, data[at + 39])
    return int(_LONG.unpack_from(data, start - 8)[0])


def transaction_type(data: bytes | memoryview, at: int) -> int:
    """One of ``message.flags``, of the record at ``data[at:]``."""
    return data[at + 39] & flags.TRANSACTION_MASK


def _is_linked(data: bytes | memoryview, at: int) -> bool:
    kind = transaction_type(data, at)
    return kind == flags.COMMITTED or (kind == flags.ORDINARY and made_of(data, at) != 0)


def place_of(head: bytes) -> tuple[int, int, int, int]:
    """(size, queue id, queue offset, log offset) as the beginning of a record says, intact or not."""
    if len(head) < PLACE_BYTES:
        return 0, -1, -1, -1
    size, queue_id, queue_offset, own = _PLACE.unpack_from(head)
    return size, queue_id, queue_offset, own


def parse(data: bytes | memoryview, at: int, position: int) -> Parsed:
    """The whole, intact record at ``data[at:]``, which lies at log offset ``position``. Raises CorruptRecord."""
    try:
        size, magic, crc, queue_id, _flag, queue_offset, own, sys_flag, length = _HEAD.unpack_from(data, at)
        if magic != MAGIC_V1 and magic != MAGIC_V2:
            raise CorruptRecord(position, f"unknown magic {magic:#010x}")
        if own != position:
            raise CorruptRecord(position, f"it says that it belongs to offset {own}")
        start = at + 84
        if sys_flag & _HOSTS_V6:
            start = body_place(data, at, sys_flag)
            (length,) = _INT.unpack_from(data, start)
        (stored,) = _LONG.unpack_from(data, at + 68 if sys_flag & _BORN_V6 else at + 56)
        end = at + size
        topic_at = start + 4 + length
        if length < 0 or topic_at >= end or end > len(data):
            raise CorruptRecord(position, f"{size} bytes cannot hold a body of {length}")
        if crc and crc32(data[start + 4 : topic_at]) & 0x7FFFFFFF != crc:
            raise CorruptRecord(position, "the body does not match its CRC")
        if magic == MAGIC_V1:
            topic_start = topic_at + 1
            topic_end = topic_start + data[topic_at]
        else:
            topic_start = topic_at + 2
            topic_end = topic_start + _SHORT.unpack_from(data, topic_at)[0]
        (properties_length,) = _SHORT.unpack_from(data, topic_end)
    except (struct.error, IndexError) as error:
        raise CorruptRecord(position, "it is cut off") from error
    if properties_length < 0 or topic_end < topic_start or topic_end + 2 + properties_length != end:
        raise CorruptRecord(position, f"its parts do not add up to its {size} bytes")
    topic = str(data[topic_start:topic_end], "utf-8", "replace")
    if "/" in topic or "\0" in topic or topic in _NO_DIRECTORY:  # no checksum covers it
        raise CorruptRecord(position, f"its topic {topic!r} cannot be the name of a directory")
    return (
        size,
        topic,
        queue_id,
        queue_offset,
        sys_flag,
        stored,
        str(data[topic_end + 2 : end], "utf-8", "replace"),
    )


_NO_DIRECTORY: Final = ("", ".", "..")


def looks_torn(text: str) -> bool:
    """Whether a write that was cut off left zeros in a record's properties, which no checksum covers.

    A write reaches the disk page by page, so the zeros stand at an end of the text or fill a sector of it.
    """
    return "\0" in text and (text[-1] == "\0" or text[0] == "\0" or _ZERO_SECTOR in text)


_ZERO_SECTOR: Final = "\0" * 64
"""Shorter than the zeros of any lost sector, those of simulated disks included; nobody's properties hold so many."""


def is_good(data: bytes, at: int, position: int, size: int) -> bool:
    """Whether the ``size`` bytes at ``data[at:]`` are an intact record of log offset ``position``; a quick check.

    As strict as ``parse``, but for the name of the topic: a client cannot skip a record whose parts do not add up, so
    such a record would block all messages behind it in the queue.
    """
    return are_good(data, position - at, ((position, size),))


def are_good(data: bytes, base: int, places: Iterable[tuple[int, int]]) -> bool:
    """Whether all of these records, each a (log offset, size), are intact; ``data`` begins at log offset ``base``.

    One loop without calls: it is nearly all that the broker does for a message that it reads from old parts of the log.
    """
    known = len(data)
    for position, size in places:
        at = position - base
        last = at + size
        if at < 0 or last > known or size < SMALLEST_RECORD_BYTES:
            return False
        said, magic, crc, own, sys_flag, length = _CHECKED.unpack_from(data, at)
        start = at + 88
        if sys_flag & _HOSTS_V6:
            start = body_place(data, at, sys_flag) + 4
            if start > last:
                return False
            (length,) = _INT.unpack_from(data, start - 4)
        end = start + length
        if said != size or own != position or length < 0 or end + 3 > last:
            return False
        if magic == MAGIC_V1:
            end_of_topic = end + 1 + data[end]
        elif magic == MAGIC_V2:
            end_of_topic = end + 2 + _SHORT.unpack_from(data, end)[0]
        else:
            return False
        if (
            end_of_topic <= end
            or end_of_topic + 2 > last
            or end_of_topic + 2 + _SHORT.unpack_from(data, end_of_topic)[0] != last
        ):
            return False
        if crc and crc32(data[start:end]) & 0x7FFFFFFF != crc:
            return False
    return True


def is_boundary(files: SegmentedFile, position: int) -> bool:
    """Whether a record, or the mark of the end of a file, begins at this log offset."""
    segment = files.segment(position)
    if segment is None:
        return False
    head = segment.read(position, END_MARK_BYTES)
    size, magic = _SIZE_MAGIC.unpack_from(head) if len(head) == END_MARK_BYTES else (0, 0)
    if magic == BLANK_MAGIC:
        return bool(size == segment.end - position)
    return any(True for _ in LogWalk(files, position, min(position + max(size, 0), segment.end)))


class LogWalk:
    """Goes through the log record by record: ``(log offset, parsed, data, place in data)``.

    It ends where the data ends or at a bad record; then ``position`` says where and ``bad`` why (None: zero bytes, the
    given end, or no more files).
    """

    def __init__(
        self, files: SegmentedFile, position: int, end: int, *, only: int | None = None, copies: bool = False,
        linked: bool = False,
    ) -> None:  # fmt: skip
        """``only``: give out only the records of that transaction type; the others are passed over unchecked.
        ``copies``: likewise only those that say which record they were made of. ``linked``: likewise only those of
        ordinary records, and all final messages of transactions."""
        self._only = only
        self._copies = copies
        self._linked = linked
        self._files = files
        self._end = end
        self.position = position
        self.last = -1
        """Log offset of the last record that it went over; -1: there was none."""
        self.bad: CorruptRecord | None = None

    def __iter__(self) -> Iterator[tuple[int, Parsed, bytes, int]]:
        while self.position < self._end:
            segment = self._files.segment(self.position)
            if segment is None:
                return
            data = segment.read(self.position, min(CHUNK_BYTES, self._end - self.position))
            base = self.position
            yield from self._records(data, segment.end)
            if self.position == base:
                size = _SIZE_MAGIC.unpack_from(data)[0] if len(data) >= END_MARK_BYTES else 0
                if self.bad is not None or size <= len(data) or not self._fits(size, segment.end):
                    return
                yield from self._records(segment.read(base, size), segment.end)
                if self.position == base:
                    return

    def _fits(self, size: int, segment_end: int) -> bool:
        """Whether a record of ``size`` may start here; sets ``bad`` when not."""
        if SMALLEST_RECORD_BYTES <= size <= min(LARGEST_RECORD_BYTES, segment_end - self.position):
            return True
        self.bad = CorruptRecord(self.position, f"a size of {size} bytes is impossible")
        return False

    def _records(self, data: bytes, segment_end: int) -> Iterator[tuple[int, Parsed, bytes, int]]:
        """The whole records in ``data``, which starts at ``self.position``; stops before one that is not whole."""
        base = self.position
        at = 0
        while at + END_MARK_BYTES <= len(data):
            size, magic = _SIZE_MAGIC.unpack_from(data, at)
            if magic == BLANK_MAGIC and size == segment_end - self.position:
                self.position = segment_end
                return
            if size == 0 and magic == 0:
                return
            if at + size > len(data) and at > 0 and SMALLEST_RECORD_BYTES <= size <= LARGEST_RECORD_BYTES:
                return
            if not self._fits(size, segment_end) or at + size > len(data):
                return
            if self._only is not None and magic in _MAGICS and data[at + 39] & flags.TRANSACTION_MASK != self._only:
                self.last = self.position
                self.position += size
                at += size
                continue
            if self._linked and magic in _MAGICS and not _is_linked(data, at):
                self.last = self.position
                self.position += size
                at += size
                continue
            if self._copies and magic in _MAGICS and not made_of(data, at):
                self.last = self.position
                self.position += size
                at += size
                continue
            try:
                parsed = parse(data, at, self.position)
            except CorruptRecord as error:
                self.bad = error
                return
            self.last = place = self.position
            self.position = base + at + size
            yield place, parsed, data, at
            at += size
