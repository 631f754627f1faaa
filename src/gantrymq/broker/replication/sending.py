"""The rules of a primary's side of one connection: what is sent next, and which reports count.

| state    | the first report         | a later report ``r``                          | the log grew |
|----------|--------------------------|-----------------------------------------------|--------------|
| NEW      | SENDING from there on    |                                               |              |
| SENDING  |                          | counts, at most up to what was sent; see below | send         |
| REFUSED  | the connection is closed, with the reason                                                |

A report is not believed. It counts as a copy up to what was sent on this connection, or where sending began. One that
is larger ends the connection: whoever sends it is not a replica of this log. The first report says only where to begin.
It may not lie behind the end of this log: that replica has records which are not here.
"""

from __future__ import annotations

import enum

from gantrymq.errors import RemoteProtocolError


class State(enum.Enum):
    """Of one connection."""

    NEW = "waits for its first report"
    SENDING = "follows"
    REFUSED = "refused"


class Sending:
    """Positions of one replica, in bytes from the start of the log."""

    def __init__(self) -> None:
        self.state = State.NEW
        self.next_place = 0
        """Where the next frame begins."""
        self.confirmed = 0
        """The replica has everything before this offset."""

    def reported(self, end: int, start: int, stored: int) -> None:
        """A report came. ``start``: of this log. ``stored``: how far it may be sent. Raises RemoteProtocolError with
        the reason why this connection has to end."""
        if self.state is State.NEW:
            self._begin(end, start, stored)
        elif end > self.next_place:
            self.state = State.REFUSED
            raise RemoteProtocolError(f"it reports {end}, and only what lies before {self.next_place} was sent to it")
        else:
            self.confirmed = max(self.confirmed, end)

    def _begin(self, end: int, start: int, stored: int) -> None:
        self.state = State.REFUSED
        if end > stored:
            raise RemoteProtocolError(
                f"its log reaches to {end}, and this one only to {stored}: it has records that are not here"
            )
        if 0 < end < start:
            raise RemoteProtocolError(
                f"its log ends at {end}, and this one begins at {start}: what is between was deleted. "
                "Empty the replica's store; it then gets everything that is here"
            )
        self.state = State.SENDING
        self.next_place = end or start

    def sent(self, size: int) -> None:
        """So many bytes are on their way."""
        self.next_place += size
