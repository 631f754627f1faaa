"""Which records of the log point at another one: copies of what was delivered, and final messages of transactions.

A broker that becomes primary needs all of them, and reading a log of many GB takes longer than clients should wait. So
a replica looks ahead, piece by piece, and only the rest is read then. Nothing depends on it: what was not looked at is
read when it is asked for. What was looked at can be kept, and given back behind a restart: ``Links``.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from gantrymq.message import flags
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import LogWalk, made_of, transaction_type
from gantrymq.store.recovery.quarantine import Quarantine

MOST: Final = 2_000_000
"""Records that are remembered of each kind, 16 bytes each. Older ones are read from the log again."""
HEAD_BYTES: Final = 4096
"""By so much a piece is longer when it does not hold the beginning of one record."""


class Pointers(NamedTuple):
    """Places of records, in the order of the log, and what each of them points at: log offsets."""

    places: array[int]
    targets: array[int]


class Links(NamedTuple):
    """What a part of the log has."""

    copies: Pointers
    finals: Pointers


class _Known:
    """Pointers that grow."""

    def __init__(self, known: Pointers | None = None) -> None:
        self.places, self.targets = known or (array("q"), array("q"))

    def add(self, place: int, target: int) -> None:
        self.places.append(place)
        self.targets.append(target)

    def cut(self, position: int) -> None:
        at = bisect_left(self.places, position)
        del self.places[at:], self.targets[at:]

    def from_(self, position: int) -> Iterator[tuple[int, int]]:
        at = bisect_left(self.places, position)
        return zip(self.targets[at:], self.places[at:], strict=True)

    def since(self, position: int) -> Pointers:
        at = bisect_left(self.places, position)
        return Pointers(self.places[at:], self.targets[at:])

    def shorten(self) -> int:
        """Forget the older half. Returns the log offset from which on all are known."""
        at = len(self.places) // 2
        del self.places[:at], self.targets[:at]
        return self.places[0]


class LinkedRecords:
    """Of one log. Only visible records count."""

    def __init__(self, commit_log: CommitLog, dispatch: Dispatch, quarantine: Quarantine) -> None:
        self._log = commit_log
        self._dispatch = dispatch
        self._quarantine = quarantine
        self._copies, self._finals = _Known(), _Known()
        self._begin = self._end = 0
        """What lies between these log offsets was looked at: ``begin <= end <= dispatch.position``."""
        self._last = -1

    @property
    def begin(self) -> int:
        """Everything between this log offset and ``ahead`` was looked at."""
        return self._begin

    @property
    def ahead(self) -> int:
        """Everything before this log offset was looked at."""
        return self._end

    @property
    def last(self) -> int:
        """Log offset of the last record before ``ahead``; -1: not known."""
        return self._last

    def since(self, position: int) -> Links:
        """What was found from a log offset on."""
        return Links(self._copies.since(position), self._finals.since(position))

    def restore(self, begin: int, end: int, last: int, links: Links) -> None:
        """Go on from what was found before in this log: ``begin <= end <= dispatch.position``."""
        self._copies, self._finals = _Known(links.copies), _Known(links.finals)
        self._begin, self._end, self._last = begin, end, last

    def look_ahead(self, most_bytes: int) -> None:
        """Look at the next piece of the log, of about so many bytes."""
        if self._end < self._log.start:
            self.truncated(0)
            self._begin = self._end = self._log.start
        visible = self._dispatch.position
        stop = min(visible, self._end + most_bytes)
        while self._end < stop:
            walk = LogWalk(self._log.files, self._end, stop, linked=True)
            for place, _parsed, data, at in walk:
                is_final = transaction_type(data, at) == flags.COMMITTED
                (self._finals if is_final else self._copies).add(place, made_of(data, at))
            self._last = max(self._last, walk.last)
            if walk.position < stop and (walk.bad is not None or stop == visible):
                self._end = self._behind(walk.position)
            elif walk.position > self._end:
                self._end = walk.position
                break  # it may be the beginning of a record that goes on behind the piece
            else:
                stop = min(visible, stop + HEAD_BYTES)  # not even the size of a record was in the piece
        for known in (self._copies, self._finals):
            if len(known.places) > MOST:
                self._begin = max(self._begin, known.shorten())

    def _behind(self, position: int) -> int:
        return self._quarantine.behind(position, self._dispatch.position)

    def truncated(self, position: int) -> None:
        """The log ends there now."""
        self._copies.cut(position)
        self._finals.cut(position)
        self._end = min(self._end, position)
        self._begin = min(self._begin, self._end)
        if self._last >= self._end:
            self._last = -1

    def copies(self, from_offset: int) -> Iterator[tuple[int, int]]:
        """What each copy from ``from_offset`` on was made of, as its field says it, and its place."""
        return self._all(self._copies, from_offset, is_final=False)

    def finals(self, from_offset: int) -> Iterator[tuple[int, int]]:
        """Log offset of the half message that each committed message from ``from_offset`` on names, and its place."""
        return self._all(self._finals, from_offset, is_final=True)

    def _all(self, known: _Known, from_offset: int, *, is_final: bool) -> Iterator[tuple[int, int]]:
        position, end = max(from_offset, self._log.start), self._dispatch.position
        begin, ahead = self._begin, self._end
        if position >= ahead:
            yield from self._read(position, end, is_final=is_final)
            return
        yield from self._read(position, begin, is_final=is_final)
        yield from known.from_(max(position, begin))
        yield from self._read(ahead, end, is_final=is_final)

    def _read(self, position: int, end: int, *, is_final: bool) -> Iterator[tuple[int, int]]:
        kind = flags.COMMITTED if is_final else flags.ORDINARY
        while position < end:
            walk = LogWalk(self._log.files, position, end, only=kind, copies=not is_final)
            for place, _parsed, data, at in walk:
                yield made_of(data, at), place
            position = end if walk.position >= end else self._quarantine.behind(walk.position, end)
