"""One hash file of the key index. Derived; all integers are big-endian.

    header, 40 bytes: begin and end store time 8 + 8, begin and end log offset 8 + 8, used slots 4, next entry number 4
    slots, 4 bytes each: number of the newest entry of that slot; 0 for none
    entries, 20 bytes each, from number 1: key hash 4, log offset 8, seconds since begin time 4, previous entry 4

Source: IndexFile, IndexHeader; docs/store.md#index-files.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from gantrymq.runtime.disk import Disk, File

HEADER_BYTES: Final = 40
ENTRY: Final = struct.Struct(">iqii")
ENTRY_BYTES: Final = 20
PAGE_SLOTS: Final = 1024
VERIFY_ENTRIES: Final = 20_000
"""Entries verified in one step."""
_HEADER: Final = struct.Struct(">qqqqii")
_INT: Final = struct.Struct(">i")
_MAX_INT: Final = 0x7FFFFFFF

Entry: TypeAlias = tuple[int, int, int]
"""A new entry: key hash, log offset, store time in ms."""


@dataclass(slots=True)
class Header:
    """Times in ms. ``count`` is the number the next entry gets, so there are ``count - 1`` entries."""

    begin_time: int = 0
    end_time: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    count: int = 1


class IndexFile:
    """Changes stay in memory until ``flush``: new entries packed, slots as pages of the table."""

    def __init__(self, disk: Disk, path: str, slots: int, entries: int) -> None:
        self._disk = disk
        self.path = path
        self._slots = slots
        self._entries = entries
        self.header = Header()
        self._file: File | None = None
        self._pages: dict[int, array[int]] = {}
        """Of the table, by number: those that ``put_all`` changed, between two calls of ``flush``."""
        self._dirty: set[int] = set()
        self._new = bytearray()
        self._flushed_count = 1
        self._header_changed = False

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return HEADER_BYTES + 4 * self._slots + ENTRY_BYTES * self._entries

    @property
    def is_full(self) -> bool:
        return self.header.count >= self._entries

    @property
    def changed(self) -> bool:
        return bool(self._new or self._dirty or self._header_changed)

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    def create(self) -> None:
        """Make the file, as a hole. Raises DiskFull."""
        self._disk.make_dirs(os.path.dirname(self.path), durable=False)
        self._file = self._disk.open(self.path, create=True)
        self._file.truncate(self.bytes)

    def load(self) -> None:
        """Read the header."""
        data = self.file.read(HEADER_BYTES, 0)
        self.header = Header(*_HEADER.unpack(data))
        if self.header.count <= 1:  # what else it says may be left of a header that a power cut tore
            self.header = Header()
        self.header.count = min(self.header.count, self._entries)
        self._flushed_count = self.header.count
        self.close()

    # ---- writing

    def put(self, key_hash: int, log_offset: int, store_time: int) -> None:
        """Add an entry; the file must not be full."""
        self.put_all([(key_hash, log_offset, store_time)])

    def put_all(self, entries: list[Entry]) -> int:
        """Add entries as long as there is room; how many were added.

        This is done for every message, so what does not differ between them is looked up once.
        """
        header, slots, pages, dirty, new = self.header, self._slots, self._pages, self._dirty, self._new
        first = number = header.count
        if number == 1 and entries:
            _, header.begin_offset, header.begin_time = entries[0]
        begin_time, limit = header.begin_time, self._entries
        used, end_offset, end_time = header.used_slots, header.end_offset, header.end_time
        try:
            for key_hash, log_offset, store_time in entries:
                if number >= limit:
                    break
                slot = key_hash % slots
                page_number = slot // PAGE_SLOTS
                page = pages.get(page_number)
                if page is None:
                    page = self._page(page_number)
                    dirty.add(page_number)
                at = slot % PAGE_SLOTS
                previous = page[at]
                if not 0 < previous < number:
                    previous = 0
                    used += 1
                seconds = (store_time - begin_time) // 1000
                if not 0 <= seconds <= _MAX_INT:  # a clock may have been set
                    seconds = min(max(0, seconds), _MAX_INT)
                new += ENTRY.pack(key_hash, log_offset, seconds, previous)
                page[at] = number
                number += 1
                end_offset, end_time = log_offset, store_time
        finally:  # reading the next page may fail
            header.count, header.used_slots = number, used
            header.end_offset, header.end_time = end_offset, end_time
        return number - first

    def _page(self, number: int) -> array[int]:
        page = self._pages.get(number)
        if page is None:
            slots = min(PAGE_SLOTS, self._slots - number * PAGE_SLOTS)
            page = array("i", self.file.read(4 * slots, HEADER_BYTES + 4 * PAGE_SLOTS * number))
            page.byteswap()
            self._pages[number] = page
        return page

    def flush(self) -> bool:
        """Write everything new to the file: entries, slots, header; whether there was anything. Raises DiskFull.

        In this order, because an entry that no slot names and a slot that names an entry behind the count are
        harmless to readers.
        """
        if not self.changed:
            return False
        if self._new:
            self.file.write(bytes(self._new), self._entry_place(self._flushed_count))
        for number in sorted(self._dirty):
            swapped = array("i", self._pages[number])
            swapped.byteswap()
            self.file.write(swapped.tobytes(), HEADER_BYTES + 4 * PAGE_SLOTS * number)
        header = self.header
        self.file.write(
            _HEADER.pack(
                header.begin_time,
                header.end_time,
                header.begin_offset,
                header.end_offset,
                header.used_slots,
                header.count,
            ),
            0,
        )
        self._flushed_count = header.count
        self._new = bytearray()
        self._header_changed = False
        self._dirty.clear()
        self._pages.clear()
        return True

    def _entry_place(self, number: int) -> int:
        return HEADER_BYTES + 4 * self._slots + ENTRY_BYTES * number

    # ---- reading

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, log offset, seconds since begin time, previous entry)."""
        if number >= self._flushed_count:
            return ENTRY.unpack_from(self._new, (number - self._flushed_count) * ENTRY_BYTES)
        return ENTRY.unpack(self.file.read(ENTRY_BYTES, self._entry_place(number)))

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Log offsets of entries with that hash, newest first, stored (to the second) within the times."""
        slot = key_hash % self._slots
        page = self._pages.get(slot // PAGE_SLOTS)
        if page is None:
            number = _INT.unpack(self.file.read(4, HEADER_BYTES + 4 * slot))[0]
        else:
            number = page[slot % PAGE_SLOTS]
        above = self.header.count
        while 0 < number < above:  # numbers only go down, so that a damaged chain cannot hold us for ever
            above = number
            found, log_offset, seconds, number = self.entry(above)
            time = self.header.begin_time + seconds * 1000
            if found == key_hash and time <= end_ms and time + 999 >= begin_ms:
                yield log_offset

    # ---- after a crash

    def verify(self, log_end: int) -> Iterator[bool]:
        """Keep the entries up to the first bad one and make the slots fit to them, in steps.

        After a power cut any page may be missing. Entries are good while offsets do not fall and every chain leads to
        the entry of the same slot before it. The values say whether all was good so far.
        """
        newest = array("i", bytes(4 * self._slots))
        whole = True
        good = 1
        offset, seconds = self.header.begin_offset, 0
        while good < self.header.count:
            size = min(VERIFY_ENTRIES, self.header.count - good)
            data = self.file.read(size * ENTRY_BYTES, self._entry_place(good))
            for key_hash, found, since, previous in ENTRY.iter_unpack(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES]):
                slot = key_hash % self._slots
                missing = key_hash == 0 and found == 0
                if missing or key_hash < 0 or not offset <= found < log_end or previous != newest[slot]:
                    self._cut(good, offset, seconds)
                    whole = False
                    break
                newest[slot] = good
                offset, seconds = found, since
                good += 1
            if whole and len(data) < size * ENTRY_BYTES:  # somebody has cut the file off
                self._cut(good, offset, seconds)
                whole = False
            yield whole
        if whole and good > 1 and offset != self.header.end_offset:  # a power cut tore the header
            self._cut(good, offset, seconds)
            yield False
        self._set_slots(newest)

    def _cut(self, count: int, end_offset: int, seconds: int) -> None:
        """Forget the entries from number ``count`` on."""
        header = self.header
        if count == 1:
            self.header = Header()
        else:
            header.count, header.end_offset = count, end_offset
            header.end_time = min(header.end_time, header.begin_time + seconds * 1000 + 999)
        self._flushed_count = count
        self._header_changed = True

    def _set_slots(self, newest: array[int]) -> None:
        used = sum(1 for value in newest if value)
        self._header_changed |= used != self.header.used_slots
        self.header.used_slots = used
        for start in range(0, self._slots, PAGE_SLOTS):
            page = self._page(start // PAGE_SLOTS)
            wanted = newest[start : start + PAGE_SLOTS]
            if page != wanted:
                page[:] = wanted
                self._dirty.add(start // PAGE_SLOTS)
            else:
                del self._pages[start // PAGE_SLOTS]

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        self.close()
        self._disk.remove(self.path)
