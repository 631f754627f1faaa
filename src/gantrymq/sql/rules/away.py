"""Which errors of sending mean that brokers are away, so that a message may become a row instead. Pure.

| error                                      | by row                                                             |
|--------------------------------------------|--------------------------------------------------------------------|
| no connection, no answer, not on the disk  | yes: it passes                                                     |
| the broker has no room or too much to do   | yes: it passes                                                     |
| no route to the topic                      | unless a broker is connected: then the topic does not exist, and a |
|                                            | row would never leave                                              |
| the broker refuses the message or sender   | no: it would refuse the row, too                                   |
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import GantryError, HalfNotStored, RequestRejected, RouteNotFound, TimedOut, Unreachable
from gantrymq.protocol.codes import ResponseCode

LONGEST_WAIT_S: Final = 60.0
"""With ``row_after_ms=0`` and a connection: sends end by themselves before, with an error of theirs."""
_PASSING: Final = frozenset(
    {
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.GO_AWAY,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)


def is_away(error: BaseException, connected: bool) -> bool:
    """``connected``: a connection to some broker is up."""
    if isinstance(error, RouteNotFound):
        return not connected
    if isinstance(error, RequestRejected):
        return error.code in _PASSING
    return isinstance(error, GantryError) and isinstance(error, Unreachable | TimedOut | HalfNotStored)
