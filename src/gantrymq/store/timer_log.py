"""Which timer message is due when: Apache's files ``timerlog/`` and ``config/timercheck``.

A unit, 52 bytes, big-endian: its size 4, position of the unit before it in the same slot (or -1) 8, magic 4, ms when
it was written 8, ms from then to its slot 4, log offset 8 and size 4 of the message, hash of the real topic 4, zeros 8.
Units lie in the order of the messages in the queue of the timer topic. A file that has no room for one more unit ends
with a blank one. Apache's third file, ``timerwheel``, holds the last unit of every slot; it is derived from the units,
so here it is kept in memory, and the file is removed: Apache's broker makes it again from all units, because
``timercheck`` says that none of them is known to be in it.

Source: TimerLog, TimerWheel, TimerCheckpoint, TimerMessageStore.recover.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from gantrymq.runtime.disk import Disk, Syncable
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.files.segmented_file import SegmentedFile, list_segments

UNIT: Final = struct.Struct(">iqiqiqiiq")
UNIT_BYTES: Final = 52
BLANK: Final = struct.Struct(">iqi")
BLANK_MAGIC: Final = 0xCBD43194 - (1 << 32)
DEFAULT: Final = 1
ROLL: Final = 2
"""At its time the message is put to the end of the timer topic again instead of delivered."""
DELETE: Final = 4
"""The message withdraws another one of the same slot."""
FIRST: Final = -1
CHUNK_UNITS: Final = 1260
"""Units read in one go: 64 KiB."""
_PREVIOUS: Final = struct.Struct(">q")
_PREVIOUS_AT: Final = 4
_CHECK: Final = struct.Struct(">7q")
CHECK_BYTES: Final = 4096


class Unit(NamedTuple):
    """One entry of the timer log."""

    previous: int
    magic: int
    written_ms: int
    delay_ms: int
    log_offset: int
    size: int
    topic_hash: int

    @property
    def time_ms(self) -> int:
        """When its slot begins."""
        return self.written_ms + self.delay_ms

    def packed(self) -> bytes:
        return UNIT.pack(UNIT_BYTES, *self, 0)


@dataclass(slots=True)
class TimerCheck:
    """What ``timercheck`` says: everything below both bounds is done."""

    read_ms: int = 0
    """Slots before this time are delivered."""
    queue_offset: int = 0
    """Messages of the timer topic before this offset are in the timer log."""
    changed_ms: int = 0
    changes: int = 0

    def packed(self) -> bytes:
        # 0: no unit is known to be in `timerwheel`. Twice the queue offset: its own and, for a replica, its master's.
        values = (self.read_ms, 0, self.queue_offset, self.queue_offset, 0, self.changed_ms, self.changes)
        return _CHECK.pack(*values)


class TimerCheckFile:
    """The open ``timercheck``."""

    def __init__(self, disk: Disk, path: str) -> None:
        new = not disk.exists(path)
        self.file = disk.open(path, create=True)
        if self.file.size() != CHECK_BYTES:
            self.file.truncate(CHECK_BYTES)
        if new:  # without it everything would be delivered again
            self.file.sync()
            disk.sync_dir(os.path.dirname(path))

    def read(self) -> TimerCheck:
        read_ms, _flushed, offset, master, _state, changed_ms, changes = _CHECK.unpack(self.file.read(_CHECK.size, 0))
        return TimerCheck(max(read_ms, 0), max(min(offset, master), 0), changed_ms, changes)

    def write(self, check: TimerCheck) -> None:
        """Raises DiskFull. Syncing is up to the caller."""
        self.file.write(check.packed(), 0)


class TimerLog:
    """The units in their files, and in memory the last one of every slot that is still to come."""

    def __init__(self, disk: Disk, directory: str, file_size: int, precision_ms: int) -> None:
        """Raises StoreFormatUnknown naming what does not fit. Nothing is read yet; see ``recover``."""
        self._open = OpenFiles(disk)
        self._precision_ms = precision_ms
        bases = list_segments(disk, directory, file_size, "mappedFileSizeTimerLog")
        self._files = SegmentedFile(self._open, directory, file_size, bases, durable=True)
        self.end = self._files.start
        """Position behind the last unit."""
        self.slots: dict[int, int] = {}
        """Time of a slot in ms to the position of its last unit."""
        self.waiting: Counter[int] = Counter()
        """Hash of a real topic to how many messages wait."""
        self.by_slot: Counter[int] = Counter()
        """Time of a slot in ms to how many messages wait in it."""
        self.last: Unit | None = None
        self._pending_from = self._files.start
        """No unit before this position is still to come."""
        self._touched = False

    # ---- start

    def recover(self, read_ms: int, exists: Callable[[Unit], bool]) -> None:
        """Read all units, up to the first that is none or names no message; put zeros over what is behind it.

        ``read_ms``: slots before it are delivered. The chains of the others are mended where a power cut tore them.
        """
        for position, unit in self._scan(self._files.start):
            if not exists(unit):
                break
            self.end, self.last = position + UNIT_BYTES, unit
            slot = self._slot(unit)
            if slot < read_ms:
                continue
            previous = self.slots.get(slot, FIRST)
            if unit.previous != previous and (previous != FIRST or unit.previous >= self._files.start):
                self._files.write(position + _PREVIOUS_AT, _PREVIOUS.pack(previous))
            self.slots[slot] = position
            self._count(unit)
        self._files.zero_from(self.end)
        # A killed process may have left its last units in the memory of the system only, and counted them as written.
        self._touched = True

    def _scan(self, start: int) -> Iterator[tuple[int, Unit]]:
        """(position, unit), from ``start`` on, up to the first bytes that are no unit."""
        position = start
        while (segment := self._files.segment(position)) is not None:
            data = segment.read(position, UNIT_BYTES * CHUNK_UNITS)
            at = 0
            while at + UNIT_BYTES <= len(data):
                size, *values, _reserved = UNIT.unpack_from(data, at)
                unit = Unit(*values)
                if size != UNIT_BYTES or not _is_whole(unit):
                    break
                yield position + at, unit
                at += UNIT_BYTES
            position += at
            if (
                position + BLANK.size <= segment.end
                and BLANK.unpack(segment.read(position, BLANK.size))[2] == BLANK_MAGIC
            ):
                position = segment.end
            elif at + UNIT_BYTES <= len(data) or not at:
                return

    # ---- adding

    def append(self, units: list[Unit]) -> None:
        """Add units behind the others; ``previous`` is filled in. Raises DiskFull, then none of them counts."""
        position, parts, places = self.end, bytearray(), []
        last = dict[int, int]()
        for unit in units:
            file_end = position // self._files.segment_size * self._files.segment_size + self._files.segment_size
            if position + UNIT_BYTES + BLANK.size > file_end:
                room = file_end - position
                parts += BLANK.pack(room, 0, BLANK_MAGIC).ljust(room, b"\0")
                position = file_end
            slot = self._slot(unit)
            previous = last.get(slot)
            if previous is None:
                previous = self.slots.get(slot, FIRST)
            parts += unit._replace(previous=previous).packed()
            last[slot] = position
            places.append(unit)
            position += UNIT_BYTES
        self._touched = True
        self._files.write(self.end, bytes(parts))
        self.end = position
        self.slots.update(last)
        for unit in places:
            self._count(unit)
        self.last = places[-1] if places else self.last

    def _count(self, unit: Unit) -> None:
        change = -1 if unit.magic & DELETE else 1
        self.waiting[unit.topic_hash] += change
        self.by_slot[self._slot(unit)] += change

    # ---- reading

    def units(self, slot: int) -> list[Unit]:
        """The units of a slot, in their order."""
        found: list[Unit] = []
        position = self.slots.get(slot, FIRST)
        data, start = b"", 0
        while position >= self._files.start and position != FIRST:
            if not start <= position <= start + len(data) - UNIT_BYTES:
                segment = self._files.segment(position)
                if segment is None:
                    break
                start = max(segment.base, position + UNIT_BYTES * (1 - CHUNK_UNITS))
                data = segment.read(start, position + UNIT_BYTES - start)
            _size, *values, _reserved = UNIT.unpack_from(data, position - start)
            unit = Unit(*values)
            found.append(unit)
            if unit.previous >= position:
                break
            position = unit.previous
        found.reverse()
        return found

    def done(self, slot: int, units: list[Unit]) -> None:
        """The units of a slot are no longer waited for."""
        self.slots.pop(slot, None)
        self.by_slot.pop(slot, None)
        for unit in units:
            self.waiting[unit.topic_hash] -= -1 if unit.magic & DELETE else 1

    def oldest(self, read_ms: int) -> int | None:
        """Log offset of the oldest message that still waits; None when none does."""
        for position, unit in self._scan(self._pending_from):
            self._pending_from = position
            if self._slot(unit) >= read_ms:
                return unit.log_offset
        return None

    def _slot(self, unit: Unit) -> int:
        return unit.time_ms // self._precision_ms * self._precision_ms

    # ---- files

    def drop_before(self, log_offset: int) -> None:
        """Remove files in which all messages lie before ``log_offset``, which retention has reached."""
        while len(self._files.segments) > 1:
            segment = self._files.segments[0]
            units = (segment.size - BLANK.size) // UNIT_BYTES
            _size, *values, _reserved = UNIT.unpack(segment.read(segment.base + (units - 1) * UNIT_BYTES, UNIT_BYTES))
            if Unit(*values).log_offset >= log_offset:
                return
            self._files.drop_before(segment.end)
            self._pending_from = max(self._pending_from, self._files.start)

    def unsynced(self) -> list[Syncable]:
        """What has to be synced so that all units are durable."""
        if not self._touched or not self._files.segments:
            return []
        self._touched = False
        # All files but the last were synced when the next one was made.
        return [self._open.pin(self._files.segments[-1].path)]

    def close(self) -> None:
        self._open.close()


def _is_whole(unit: Unit) -> bool:
    """Whether a unit can be one: torn ones have zeros, or other bytes, somewhere in them."""
    return 0 < unit.magic <= 0xF and unit.size > 0 and unit.log_offset >= 0 and unit.written_ms > 0
