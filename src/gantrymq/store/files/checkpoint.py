"""Up to where each structure is durable: Apache's checkpoint file, and our own, more exact mark beside it.

``checkpoint`` (4096 bytes, big-endian longs): store time of the last durable log record, of the last durable queue
entry, of the last index write; master's flushed offset; confirm offset. Source: StoreCheckpoint.

``gantry/mark`` is private and disposable: without it recovery only has more to read. Five records of one sector each:

    from   bytes  content
       0      4   CRC-32 of the following
       4      8   durable end of the log, written after every sync, here and
     512     12   here by turns: whatever becomes of one of them, the other says as much but for one sync
    1024     12   the same at the last start, synced, here and
    1536     12   here by turns: a power cut may tear both of the others, because nobody syncs them
    2048     12   up to where others have confirmed the log, or -1: nobody else had to; synced, here and
    2560     12   here one after the other
    3072     12   the same now and then, not synced, here and
    3584     12   here by turns
    4096      4   CRC-32 of the following
    4100      8   position: queues (and everything before it in the log) are durable up to here
    4108      8   index position: the index is durable up to here
    4116      8   log offset of the last record before ``position``; -1 when there is none
    4124      4   CRC-32 of that record's first 84 bytes: says that this is still the log the mark was made for
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from zlib import crc32

from gantrymq.runtime.disk import Disk, File, Syncable

CHECKPOINT_BYTES = 4096
HEAD_BYTES = 84
_LONGS = struct.Struct(">5q")
_CRC = struct.Struct(">I")
_FLUSHED = struct.Struct(">q")
_MARK = struct.Struct(">qqqI")
_MARK_AT = 4096
_FLUSHED_AT = (0, 512)
_KEPT_AT = (1024, 1536)
_CONFIRMED_KEPT_AT = (2048, 2560)
_CONFIRMED_AT = (3072, 3584)
ALONE = -1
"""As a confirmed position: nobody else has to confirm anything."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times in ms; 0 when nothing was stored yet."""

    log_timestamp: int = 0
    queue_timestamp: int = 0
    index_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """See the module's table."""

    position: int
    index_position: int
    last_record: int
    digest: int


def read_checkpoint(disk: Disk, path: str) -> Checkpoint | None:
    """None when it is absent or too short."""
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = file.read(_LONGS.size, 0)
    finally:
        file.close()
    return Checkpoint(*_LONGS.unpack(data)) if len(data) == _LONGS.size else None


class CheckpointFile:
    """The open ``checkpoint`` file. Syncing is up to the caller."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._file = disk.open(path, create=True)
        if self._file.size() != CHECKPOINT_BYTES:
            self._file.truncate(CHECKPOINT_BYTES)

    def write(self, checkpoint: Checkpoint) -> Syncable:
        """Put the values into the file; what to sync afterwards. Raises DiskFull."""
        self._file.write(
            _LONGS.pack(
                checkpoint.log_timestamp,
                checkpoint.queue_timestamp,
                checkpoint.index_timestamp,
                checkpoint.master_flushed_offset,
                checkpoint.confirm_offset,
            ),
            0,
        )
        return self._file

    def close(self) -> None:
        self._file.close()


class MarkFile:
    """The private mark. Its values are true when they are written, so that it needs no sync of its own."""

    def __init__(self, disk: Disk, path: str) -> None:
        disk.make_dirs(os.path.dirname(path), durable=False)
        self._disk = disk
        self._path = path
        self._file: File = disk.open(path, create=True)
        self._next = self._next_kept = self._next_confirmed = 0
        self.kept = 0
        """A durable end of the log that outlives every power cut."""
        self.confirmed = ALONE
        """A lower bound of what others have confirmed of the log."""

    def read(self) -> tuple[int, Mark | None]:
        """See ``read_mark``. The older notes are the next to be written over."""
        data = self._file.read(_MARK_AT + _CRC.size + _MARK.size, 0)
        self._next, _ = _older_and_newest(data, _FLUSHED_AT)
        self._next_kept, self.kept = _older_and_newest(data, _KEPT_AT)
        self._next_confirmed, _ = _older_and_newest(data, _CONFIRMED_AT)
        places = (*_CONFIRMED_KEPT_AT, *_CONFIRMED_AT)
        self.confirmed = max(found[0] if (found := _checked(data, at, _FLUSHED)) else ALONE for at in places)
        return read_mark(data)

    def note_flushed(self, position: int) -> None:
        """The log is durable up to ``position``. Called after every sync, so it costs one small write. DiskFull."""
        self._note(position, _FLUSHED_AT[self._next])
        self._next = 1 - self._next

    def keep(self, position: int) -> None:
        """``note_flushed`` that outlives a power cut, with the names that lead to it. Raises StoreError, OSError."""
        for _ in _FLUSHED_AT:
            self.note_flushed(position)
        # A log that ends earlier than before, because an older copy took its place, leaves no higher note behind.
        for _ in _KEPT_AT if position < self.kept else _KEPT_AT[:1]:
            self._note(position, _KEPT_AT[self._next_kept])
            self._file.sync()
            self._next_kept = 1 - self._next_kept
        self.kept = position
        directory = os.path.dirname(self._path)
        self._disk.sync_dir(directory)
        self._disk.sync_dir(os.path.dirname(directory))

    def note_confirmed(self, position: int) -> None:
        """Others have confirmed everything before ``position``. One small write; a power cut leaves this note, or a
        lower one. Raises DiskFull."""
        if position != self.confirmed:
            self._note(position, _CONFIRMED_AT[self._next_confirmed])
            self._next_confirmed = 1 - self._next_confirmed
            self.confirmed = position

    def keep_confirmed(self, position: int) -> None:
        """The only note from now on, also a lower one, or ALONE; also after a power cut. Raises StoreError, OSError."""
        if position == ALONE == self.confirmed:
            return
        for at in _CONFIRMED_AT:
            self._note(position, at)
        for at in _CONFIRMED_KEPT_AT:  # a power cut may tear one of them
            self._note(position, at)
            self._file.sync()
        directory = os.path.dirname(self._path)
        self._disk.sync_dir(directory)
        self._disk.sync_dir(os.path.dirname(directory))
        self.confirmed = position

    def _note(self, position: int, at: int) -> None:
        data = _FLUSHED.pack(position)
        self._file.write(_CRC.pack(crc32(data)) + data, at)

    def write(self, mark: Mark) -> None:
        """Raises DiskFull."""
        data = _MARK.pack(mark.position, mark.index_position, mark.last_record, mark.digest)
        self._file.write(_CRC.pack(crc32(data)) + data, _MARK_AT)

    def close(self) -> None:
        self._file.close()


def read_mark(data: bytes) -> tuple[int, Mark | None]:
    """(a lower bound of the durable end of the log, the mark) of a mark file's bytes; 0 and None where nothing usable
    is written."""
    values = _checked(data, _MARK_AT, _MARK)
    mark = Mark(*values) if values else None
    return max(*_notes(data, _FLUSHED_AT), *_notes(data, _KEPT_AT), mark.position if mark else 0), mark


def _notes(data: bytes, places: tuple[int, int]) -> list[int]:
    """The durable ends in both places; 0 where nothing usable is written."""
    return [found[0] if (found := _checked(data, at, _FLUSHED)) else 0 for at in places]


def _older_and_newest(data: bytes, places: tuple[int, int]) -> tuple[int, int]:
    """Which of both places has the older note, and the position in the other one."""
    first, second = _notes(data, places)
    return (0, second) if first <= second else (1, first)


def _checked(data: bytes, at: int, layout: struct.Struct) -> tuple[int, ...] | None:
    end = at + _CRC.size + layout.size
    if len(data) < end or _CRC.unpack_from(data, at)[0] != crc32(data[at + _CRC.size : end]):
        return None
    return layout.unpack_from(data, at + _CRC.size)
