"""The rules of a replica's side of one connection: first compare, then follow.

A log that was written elsewhere, by another primary or by a broker of the same name, must not be continued here. So a
replica that has a log asks for its own last record first, and compares it with what comes:

| state     | bytes that come              | next state                                                      |
|-----------|------------------------------|-----------------------------------------------------------------|
| COMPARING | equal to those here          | COMPARING, and FOLLOWING where this log ends                    |
| COMPARING | different                    | DIVERGED: nothing is taken, and the reason is logged             |
| FOLLOWING | any, at the next place       | FOLLOWING: they are checked and appended                        |
| any       | at another place             | the connection ends, and a new one begins                       |

Records hold their place, their times and their body. So two logs whose last records are equal are equal before them.
"""

from __future__ import annotations

import enum

from gantrymq.broker.replication.frames import Frame
from gantrymq.errors import RemoteProtocolError


class State(enum.Enum):
    """Of a replica, as people read it."""

    AWAY = "has no connection to its primary"
    COMPARING = "compares its last record with the primary's"
    FOLLOWING = "follows"
    DIVERGED = "stands still: its log and the primary's differ"


class Diverged(RemoteProtocolError):
    """Two logs that should be one are different."""

    what_to_do = (
        "Find out which of the two brokers has the right log. Move the store directory of the other one away, and "
        "start it again as a replica: it then gets the whole log."
    )


class Following:
    """One connection of a replica. ``own_end``: where its log ends. ``begin``: where its last record begins;
    ``own_end``: there is nothing to compare."""

    def __init__(self, begin: int, own_end: int) -> None:
        self.begin = begin
        self.own_end = own_end
        self.next_place = begin
        self.state = State.COMPARING if begin < own_end else State.FOLLOWING

    def takes(self, frame: Frame, own: bytes) -> bytes:
        """What of a frame has to be appended. ``own``: the bytes of this log at the place of the frame, as far as it
        reaches. Raises Diverged, or RemoteProtocolError when the frame belongs to another place."""
        if not frame.data:
            return b""
        if frame.place != self.next_place and not (self.own_end == 0 and self.next_place == 0):
            raise RemoteProtocolError(f"bytes of log offset {frame.place} came, and {self.next_place} is next")
        self.next_place = frame.place + len(frame.data)
        if self.state is State.FOLLOWING:
            return frame.data
        known = min(len(frame.data), self.own_end - frame.place)
        if frame.data[:known] != own[:known]:
            self.state = State.DIVERGED
            raise Diverged(
                f"this log and the primary's differ in the record at log offset {self.begin}: they were written by two "
                "brokers, and nothing more is taken"
            )
        if self.next_place >= self.own_end:
            self.state = State.FOLLOWING
        return frame.data[known:]
