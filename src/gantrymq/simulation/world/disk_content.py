"""The bytes of one file on a simulated disk, and what a power cut leaves of them.

Of every write that was not synced it leaves all, nothing, the beginning, or some sectors; of every later ``truncate``
and what follows it perhaps nothing.
"""

from __future__ import annotations

import bisect
import random
from dataclasses import dataclass, field

SECTOR = 64
"""Bytes that are written whole or not at all; small, so that small files tear in many ways."""


@dataclass
class Content:
    """A file's bytes as programs see them, as they are on the platters, and what happened in between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes] | int] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)
    """Of each change in ``unsynced``; they grow."""
    allocated: set[int] = field(default_factory=set)
    modified_ms: int = 0
    taken: int = 0
    """Bytes that the file has beside its data: space that was taken for it in advance, and holds nothing."""

    @property
    def space(self) -> int:
        """Bytes of the disk that it takes."""
        return self.taken + SECTOR * len(self.allocated)

    def change(self, change: tuple[int, bytes] | int, moment: int) -> None:
        """A write, or a new size, that is not durable."""
        self.unsynced.append(change)
        self.moments.append(moment)

    def settle(self, until: int) -> None:
        """Make durable what was changed up to a moment; costs what was written since the last time, not what the file
        holds."""
        count = bisect.bisect_right(self.moments, until)
        for change in self.unsynced[:count]:
            if isinstance(change, int):
                resize(self.durable, change)
            else:
                offset, new = change
                if offset + len(new) > len(self.durable):
                    resize(self.durable, offset + len(new))
                self.durable[offset : offset + len(new)] = new
        self.unsynced, self.moments = self.unsynced[count:], self.moments[count:]

    def forget(self, moment: int) -> None:
        """The kernel calls the pages of a sync that failed clean, and a power cut forgets them; the size comes some
        day."""
        self.unsynced, self.moments = [len(self.data)], [moment]

    def after_power_cut(self, rng: random.Random) -> Content:
        data = bytearray(self.durable)
        for change in self.unsynced:
            if isinstance(change, int):
                if rng.random() < 0.3:
                    break
                resize(data, change)
            else:
                _write_some(data, *change, rng)
        kept = {at // SECTOR for at in range(0, len(data), SECTOR) if any(data[at : at + SECTOR])}
        return Content(data, bytearray(data), allocated=kept, modified_ms=self.modified_ms)


def resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _write_some(data: bytearray, offset: int, new: bytes, rng: random.Random) -> None:
    """All, nothing, the beginning, or some sectors of a write."""
    fate = rng.random()
    if fate < 0.35:
        return
    if fate < 0.5:
        new, fate = new[: rng.randrange(len(new) + 1)], 1.0
    at = offset
    while at < offset + len(new):
        stop = min(offset + len(new), at - at % SECTOR + SECTOR)
        if fate > 0.65 or rng.random() < 0.5:
            if stop > len(data):
                resize(data, stop)
            data[at:stop] = new[at - offset : stop - offset]
        at = stop
