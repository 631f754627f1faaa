"""The rules of a replica's side of one connection: first compare, then follow.

A log that was written elsewhere, by another primary or by a broker of the same name, must not be continued here. So a
replica that has a log asks for one of its own records first, and compares what comes with what it has:

| state     | what comes                              | next state                                                    |
|-----------|-----------------------------------------|---------------------------------------------------------------|
| COMPARING | bytes equal to those here               | COMPARING, and FOLLOWING where this log ends                  |
| COMPARING | others, in the record that was asked for| NotThere: an earlier record is asked for, see ``earlier``     |
| COMPARING | others, behind that record              | Differs: the logs are one up to there                         |
| COMPARING | nothing more: the primary's log ends    | NotThere or Differs in the same way                           |
| FOLLOWING | any, at the next place                  | FOLLOWING: they are checked and appended                      |
| any       | bytes of another place                  | the connection ends, and a new one begins                     |

It begins with its last record. Records hold their place, their times and their body. So two logs with one equal record
are equal before it.
"""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.broker.replication.frames import Frame
from gantrymq.errors import RemoteProtocolError

FIRST_STEP_BYTES: Final = 64 * 1024
"""So far before the end of the log the second record is asked for, and"""
GROWTH: Final = 8
"""each further one so many times as far."""


class State(enum.Enum):
    """Of a replica, as people read it."""

    AWAY = "has no connection to its primary"
    COMPARING = "compares its log with the primary's"
    FOLLOWING = "follows"
    DIVERGED = "stands still: its log and the primary's differ"


class NotThere(RemoteProtocolError):
    """The primary does not have the record that was asked for."""


class Differs(RemoteProtocolError):
    """Both logs are the same up to ``place``, a log offset, and not from there on."""

    def __init__(self, place: int) -> None:
        self.place: Final = place
        super().__init__(f"this log and the primary's are the same up to log offset {place} only")


class Diverged(RemoteProtocolError):
    """Two logs that should be one are different."""

    what_to_do = (
        "Find out which of the two brokers has the right log. Move the store directory of the other one away, and "
        "start it again as a replica: it then gets the whole log."
    )


def earlier(begin: int, own_end: int, start: int) -> int | None:
    """Where to look for the next record to ask for, behind NotThere for the one at ``begin``; None: there is none.
    ``start``, ``own_end``: of this log."""
    if begin <= start:
        return None
    return max(start, own_end - GROWTH * max(own_end - begin, FIRST_STEP_BYTES // GROWTH))


class Following:
    """One connection of a replica. ``own_end``: where its log ends. ``begin``, ``first_end``: of the record that it
    asks for; ``begin`` equal to ``own_end``: there is nothing to compare."""

    def __init__(self, begin: int, first_end: int, own_end: int) -> None:
        self.begin = begin
        self.own_end = own_end
        self._first_end = first_end
        self.next_place = begin
        self.state = State.COMPARING if begin < own_end else State.FOLLOWING

    def takes(self, frame: Frame, own: bytes) -> bytes:
        """What of a frame has to be appended. ``own``: the bytes of this log at the place of the frame, as far as it
        reaches. Raises NotThere or Differs, or RemoteProtocolError when the frame belongs to another place."""
        if not frame.data:
            if self.state is State.COMPARING:  # a sign of life comes only when nothing is left to send
                raise self._unequal(self.next_place)
            return b""
        if frame.place != self.next_place and not (self.own_end == 0 and self.next_place == 0):
            raise RemoteProtocolError(f"bytes of log offset {frame.place} came, and {self.next_place} is next")
        self.next_place = frame.place + len(frame.data)
        if self.state is State.FOLLOWING:
            return frame.data
        known = min(len(frame.data), self.own_end - frame.place)
        if frame.data[:known] != own[:known]:
            same = next(at for at in range(known) if frame.data[at : at + 1] != own[at : at + 1])
            raise self._unequal(frame.place + same)
        if self.next_place >= self.own_end:
            self.state = State.FOLLOWING
        return frame.data[known:]

    def _unequal(self, place: int) -> RemoteProtocolError:
        if place < self._first_end:
            return NotThere(f"the primary has not the record that is at log offset {self.begin} here")
        return Differs(place)
