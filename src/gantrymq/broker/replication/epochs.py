"""Where each epoch began in the log of one broker: what Apache's brokers find the last common record by.

Ours compare bytes. But a report of a replica counts at an Apache primary at once, also the first one, which says where
a comparison is to begin. So a replica must know that its log is the primary's up to there, before it reports anything;
and an Apache replica cuts its log by this list alone. An entry is on the disk before the first record of its epoch.
Source: EpochFileCache; reference "replication", section 2.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.broker.replication.small_file import read_small
from gantrymq.runtime.disk import Disk, write_durably

FILE: Final = "gantry/epochs"
NO_EPOCH: Final = -1
WITHOUT: Final = "the whole log counts as one epoch then"


class Epoch(NamedTuple):
    """An entry."""

    epoch: int
    start: int
    """Log offset of its first record."""


class Epochs:
    """Of one log, oldest first. Epochs and their starts both grow. Kept in the file at ``path``."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Raises ConfigError when the file is damaged, and OSError."""
        self._disk = disk
        self._path = path
        self.entries = read_small(disk, path, tuple[Epoch, ...], WITHOUT) or ()

    @property
    def last(self) -> int:
        """The epoch of the log's end."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def begin(self, epoch: int, end: int, first: int) -> None:
        """This broker is primary of an epoch. ``end``: where the log ends. ``first``: where it begins: what was there
        before any epoch belongs to the first one, because nobody else can say whose it is."""
        if epoch > self.last:
            self._set((*self._before(end), Epoch(epoch, end if self.entries else first)))

    def learn(self, epoch: int, start: int) -> None:
        """A primary says that an epoch began there, before it sends the first record of it."""
        if epoch > self.last:
            self._set((*self._before(start), Epoch(epoch, start)))

    def take(self, entries: Sequence[Epoch], end: int) -> None:
        """The log is equal to that of a primary with these entries, as far as ``end``."""
        self._set(tuple(entry for entry in entries if entry.start <= end))

    def cut(self, position: int) -> None:
        """The log ends there now."""
        self._set(self._before(position))

    def _before(self, position: int) -> tuple[Epoch, ...]:
        """Those that began at a log offset or before. One without a record stays: it is the only one that an Apache
        replica without records may have."""
        return tuple(entry for entry in self.entries if entry.start <= position)

    def _set(self, entries: tuple[Epoch, ...]) -> None:
        if entries != self.entries:
            write_durably(self._disk, self._path, json.dumps(entries).encode())
            self.entries = entries

    def at(self, place: int) -> tuple[Epoch, int | None]:
        """The entry to which the record at a log offset belongs, and where the next one begins; None: there is none."""
        found, end = Epoch(0, 0), None
        for entry in self.entries:
            if entry.start > place:
                end = entry.start
                break
            found = entry
        return found, end


def common_end(own: Sequence[Epoch], own_end: int, others: Sequence[Epoch], others_end: int) -> int | None:
    """How far two logs are one, by their lists: to the end of the newest epoch that began at the same place in both.
    None: there is no such epoch."""
    starts = dict(others)
    for place in range(len(own) - 1, -1, -1):
        entry = own[place]
        if starts.get(entry.epoch) == entry.start:
            end = own[place + 1].start if place + 1 < len(own) else own_end
            later = [other.start for other in others if other.epoch > entry.epoch]
            return min(end, later[0] if later else others_end)
    return None
