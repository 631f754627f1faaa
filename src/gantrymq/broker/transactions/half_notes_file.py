"""The private file of notes about open half messages, ``<root>/gantry/open-halves``. It is derived and disposable, and
only shortens a start, which without it reads every open half message from the log.

The file grows at its end, and only by half messages that stay open for some seconds: half messages that are committed
soon cost nothing here, and none is noted twice. When most of its notes are out of date it is written anew. It is never
synced: notes that a power cut takes are read from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.message.system_topics import HALF
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk, File
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half_notes import (
    HEAD_BYTES,
    Block,
    can_be_noted,
    decode_block,
    encode_block,
    note_of,
    size_of,
)
from gantrymq.transactions.table.open_halves import TransactionTable

log = logging.getLogger("gantrymq.transactions")

FILE_NAME: Final = "gantry/open-halves"

NOTES_PER_TURN: Final = 1_000
"""Halves noted in one turn of the loop, at about 2 us each."""
PAUSE_S: Final = 0.01
"""The pause between two such turns, so that other work comes first."""
REWRITE_FROM: Final = 20_000
"""Notes about ended halves, beside as many as there are open ones, that make it worth to write the file anew."""


@dataclass(slots=True)
class _Part:
    """A file that is being written, and how far. ``end``: halves below this queue offset are noted or ended."""

    path: str
    end: int = 0
    size: int = 0
    count: int = 0
    file: File | None = None

    def append(self, disk: Disk, block: Block) -> None:
        if self.file is None:
            disk.make_dirs(self.path.rpartition("/")[0])
            self.file = disk.open(self.path, create=True)
            self.file.truncate(self.size)
        data = encode_block(block)
        self.file.write(data, self.size)
        self.size += len(data)
        self.count += len(block.notes)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class HalfNotesFile:
    """Reads the file once, then makes it grow. A failure to write is logged: the next start reads more of the log."""

    def __init__(self, disk: Disk, clock: Clock, store: HalfStore) -> None:
        self._disk = disk
        self._clock = clock
        self._store = store
        self._rewrite_from = REWRITE_FROM
        self._part = _Part(store.path(FILE_NAME))
        self._anew: _Part | None = None
        """The file that will take the place of the other one."""
        self._until = 0
        """Halves below this queue offset are old enough to be noted."""
        self._stored = 0
        """End of the half queue at the last call of ``go_on``."""
        self._turn: Timer | None = None

    def blocks(self) -> Iterator[Block]:
        """The blocks of the file. A block counts as good when the caller asks for the next one; the file is cut behind
        the last good one."""
        part = self._part
        try:
            file = self._disk.open(part.path)
        except FileNotFoundError:
            return
        try:
            while head := file.read(HEAD_BYTES, part.size):
                size = size_of(head)
                block = decode_block(file.read(size, part.size))
                yield block
                part.size += size
                part.count += len(block.notes)
                part.end = max(part.end, block.end)
        except (RemoteProtocolError, StoreError) as error:
            log.warning("%s cannot be used from byte %d on: %s", part.path, part.size, error)
        finally:
            file.close()

    def go_on(self, table: TransactionTable) -> None:
        """Note what was stored before the last call and is open now, some of it in each turn of the loop."""
        self._until, self._stored = self._stored, self._store.queue_range(HALF, 0)[1]
        if self._anew is None and self._part.count > 2 * len(table) + self._rewrite_from:
            self._anew = _Part(self._part.path + ".new")
        if self._turn is None:
            self._take_turn(table)

    def finish(self, table: TransactionTable) -> None:
        """Note all halves that are open, now. The store must still be open, and nothing may be called afterwards."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._anew is not None:
            self._anew.close()
            self._anew = None
        self._until = self._store.queue_range(HALF, 0)[1]
        while self._note_some(table):
            pass
        self._part.close()

    def _take_turn(self, table: TransactionTable) -> None:
        self._turn = None
        if self._note_some(table):
            self._turn = self._clock.call_later(PAUSE_S, lambda: self._take_turn(table))

    def _note_some(self, table: TransactionTable) -> bool:
        """Whether there is more to be noted."""
        part = self._anew or self._part
        offsets = table.decisions.undecided(self._until, part.end, NOTES_PER_TURN)
        halves = [half for half in map(table.get, offsets) if half is not None and can_be_noted(half)]
        end = self._until if len(offsets) < NOTES_PER_TURN else offsets[-1] + 1
        try:
            if halves:
                part.append(self._disk, Block(end, [note_of(half) for half in halves]))
            part.end = max(part.end, end)
            if part.end < self._until:
                return True
            if part is self._anew:
                self._replace(part)
        except (StoreError, OSError) as error:
            log.warning("%s could not be written, the next start takes longer: %s", part.path, error)
            part.close()
            self._anew = None
        return False

    def _replace(self, anew: _Part) -> None:
        self._part.close()
        anew.close()
        self._anew = None
        if anew.size:
            self._disk.rename(anew.path, self._part.path)
        else:
            self._disk.remove(self._part.path)
        anew.path = self._part.path
        self._part = anew
