"""The private journals of what happened to transactions, ``<root>/gantry/history/``. They are not derived from other
data, but disposable: deleting them loses no message and no decision, only a part of what ``explain`` can show.

Nothing is written for a transaction that is stored and ended by its producer; its records show that. Unusual events go
to one of two journals: checks to one, all others to the other, so that a storm of checks removes only older checks.
Events wait in memory for up to a second and are then written without a sync: a killed broker loses the events of its
last second, and the next one's first event says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from gantrymq.errors import StoreError
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk, File
from gantrymq.transactions.history import events
from gantrymq.transactions.history.events import BROKER, EventKind, HistoryEvent, key_of, pack
from gantrymq.transactions.table.open_halves import OpenHalf

log = logging.getLogger("gantrymq.transactions")

DIRECTORY: Final = "gantry/history"
WRITE_SECONDS: Final = 1.0
"""How long an event waits in memory."""
FILE_MAX_BYTES: Final = 16 * 1024 * 1024
"""Of one file; each journal has two. Room for a million checks."""
WAITING_MAX_BYTES: Final = 4 * 1024 * 1024
"""Of events that wait in memory, per journal; more come only when the disk does not take them."""
_TAIL_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 1024 * 1024
"""Read and looked through at once."""

_CHECKED, _ANSWERED = int(EventKind.CHECKED), int(EventKind.ANSWERED_UNKNOWN)
_NOBODY, _LEFT = int(EventKind.NOBODY_ONLINE), int(EventKind.LEFT)

CLEAN_START, KILLED_START, FIRST_START = 1, 2, 0
"""Details of EventKind.STARTED."""


class Journal:
    """Two files, ``name`` and ``name.old``: when the first is full it becomes the second, which is forgotten."""

    def __init__(self, disk: Disk, path: str, max_bytes: int, waiting_max_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._old_path = path + ".old"
        self._max_bytes = max_bytes
        self._waiting_max_bytes = waiting_max_bytes
        self._file: File | None = None
        self._end = 0
        self._waiting = bytearray()
        self._since: int | None = None
        self.lost = 0
        """Bytes of events that the disk did not take."""

    def open(self) -> HistoryEvent | None:
        """Go on behind the last whole event, which is returned; what a crash tore is cut off. Raises StoreError,
        OSError.
        """
        self._file = self._disk.open(self._path, create=True)
        size = self._file.size()
        start = max(size - _TAIL_BYTES, 0)
        end, last = events.end_of_last(self._file.read(size - start, start))
        self._end = start + end
        if self._end < size:
            self._file.truncate(self._end)
        return last

    @property
    def is_new(self) -> bool:
        """Whether it holds nothing yet."""
        return not self._end and not self._waiting

    def add(self, data: bytes) -> None:
        if len(self._waiting) + len(data) > self._waiting_max_bytes:
            self.lost += len(self._waiting)
            self._waiting.clear()
        self._waiting += data

    def write(self) -> None:
        """Write the events that wait. Raises StoreError, OSError; then they continue to wait."""
        if not self._waiting:
            return
        if self._file is None:
            self.open()
        if self._end and self._end + len(self._waiting) > self._max_bytes:
            self._rotate()
        file = self._file
        if file is not None:
            file.write(bytes(self._waiting), self._end)
            self._end += len(self._waiting)
            self._waiting.clear()

    def _rotate(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._end, self._since = None, 0, None
        self._disk.rename(self._path, self._old_path)
        self.open()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def pieces(self) -> Iterator[tuple[bytes, int]]:
        """All there is at this moment, the oldest first: (bytes, how many of them are new). What follows the new ones
        is the beginning of the next piece, so that each event is whole in the piece in which it begins.
        """
        files = []
        for path in (self._old_path, self._path):
            try:
                file = self._disk.open(path)
            except (StoreError, OSError):
                continue  # there is none, or nobody can read it: what it says is not needed
            files.append((file, file.size()))
        return _pieces(files, bytes(self._waiting))

    @property
    def since_ms(self) -> int | None:
        """Time of the oldest event; None: there is none."""
        if self._since is None:
            first = next((event for piece, _ in self.pieces() if (event := events.first_event(piece[:4096]))), None)
            self._since = None if first is None else first.time_ms
        return self._since


def _pieces(files: list[tuple[File, int]], waiting: bytes) -> Iterator[tuple[bytes, int]]:
    try:
        for file, size in files:
            for at in range(0, size, PIECE_BYTES):
                count = min(PIECE_BYTES, size - at)
                yield file.read(min(count + events.MAX_BYTES, size - at), at), count
    finally:
        for file, _ in files:
            file.close()
    if waiting:
        yield waiting, len(waiting)


class TransactionHistory:
    """Takes note of events, and finds them again.

    Cheap enough to be called for each check; nothing here may be called for a transaction that goes as it should.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        directory: str,
        file_max_bytes: int = FILE_MAX_BYTES,
        waiting_max_bytes: int = WAITING_MAX_BYTES,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._directory = directory
        self._checks = Journal(disk, f"{directory}/checks", file_max_bytes, waiting_max_bytes)
        self._others = Journal(disk, f"{directory}/events", file_max_bytes, waiting_max_bytes)
        self._timer: Timer | None = None
        self._complained = False

    def start(self) -> None:
        """Continue the journals of the previous broker process. If that fails, the broker works nevertheless."""
        try:
            self._disk.make_dirs(self._directory, durable=False)
            self._checks.open()
            last = self._others.open()
        except (StoreError, OSError) as error:
            self._complain(error)
            last = None
        detail = FIRST_START if last is None else CLEAN_START if last.kind is EventKind.STOPPED else KILLED_START
        # Into both, so that each says since when it has been kept.
        event = pack(EventKind.STARTED, self._clock.wall_ms(), BROKER, detail)
        self._others.add(event)
        if self._checks.is_new:
            self._checks.add(event)
        self._write()

    def close(self) -> None:
        """Write what waits, and that this was an orderly stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._others.add(pack(EventKind.STOPPED, self._clock.wall_ms(), BROKER))
        self._write()
        self._checks.close()
        self._others.close()

    # What happened.

    def checked(self, half: OpenHalf, peer: str, detail: int = 0) -> None:
        """A check was sent to ``peer``. ``detail``: 1 for an early one."""
        key = key_of(half.queue_offset, half.log_offset)
        self._add(self._checks, pack(_CHECKED, self._clock.wall_ms(), key, detail, half.times_asked, peer))

    def answered_unknown(self, half: OpenHalf, peer: str, counts: bool) -> None:
        """The answer to a check was UNKNOWN."""
        key = key_of(half.queue_offset, half.log_offset)
        self._add(self._checks, pack(_ANSWERED, self._clock.wall_ms(), key, int(counts), 0, peer))

    def left(self, half: OpenHalf, peer: str) -> None:
        """The producer that was asked disconnected without an answer."""
        key = key_of(half.queue_offset, half.log_offset)
        self._add(self._checks, pack(_LEFT, self._clock.wall_ms(), key, 0, 0, peer))

    def nobody_online(self, half: OpenHalf) -> None:
        """It is due, and no producer is online; recorded once as long as that lasts."""
        key = key_of(half.queue_offset, half.log_offset)
        self._add(self._checks, pack(_NOBODY, self._clock.wall_ms(), key))

    def note(
        self, kind: EventKind, place: tuple[int, int], detail: int = 0, number: int = 0, peer: str = "", text: str = ""
    ) -> None:
        """Anything else. ``place``: queue offset and log offset of the half."""
        self._add(self._others, pack(kind, self._clock.wall_ms(), key_of(*place), detail, number, peer, text))

    def _add(self, journal: Journal, data: bytes) -> None:
        journal.add(data)
        if self._timer is None:
            self._timer = self._clock.call_later(WRITE_SECONDS, self._write_waiting)

    def _write_waiting(self) -> None:
        self._timer = None
        self._write()

    def _write(self) -> None:
        for journal in (self._checks, self._others):
            try:
                journal.write()
            except (StoreError, OSError) as error:
                self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            log.warning("the history of transactions cannot be written; `explain` will show less: %s", error)

    # What is known.

    async def of(self, places: Iterable[tuple[int, int]]) -> list[HistoryEvent]:
        """The events of these halves and of the broker, in order of time as far as its clock tells it."""
        keys = {BROKER, *(key_of(*place) for place in places)}
        found: list[HistoryEvent] = []
        # Piece by piece with pauses, so that a full journal of checks delays nobody else.
        for piece, new in chain(self._others.pieces(), self._checks.pieces()):
            for key in keys:
                found.extend(events.events_of(key, piece, new))
            await self._clock.sleep(0)
        return sorted(dict.fromkeys(found), key=lambda event: event.time_ms)

    @property
    def since_ms(self) -> int | None:
        """Since when nothing is missing: both journals reach back as far."""
        known = [journal.since_ms for journal in (self._checks, self._others)]
        return max((since for since in known if since is not None), default=None)

    @property
    def lost(self) -> bool:
        """Whether events were dropped because the disk did not take them."""
        return bool(self._checks.lost or self._others.lost)
