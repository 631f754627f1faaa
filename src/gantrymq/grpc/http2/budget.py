"""How much work a client may cause by frames that ask for nothing.

Frames such as PING or RST_STREAM are small, are answered or undo work, and no call is behind them. A client has some
units for them, gets new ones as time passes and with each call that is answered, and is disconnected when it has none.
"""

from __future__ import annotations

from typing import Final

from gantrymq.grpc.http2.codes import ConnectionFailed, ErrorCode

UNITS: Final = 50_000
UNITS_PER_SECOND: Final = 5_000
OF_CALL: Final = 20
"""What an answered call brings: enough for the frames that go with it, for example updates of windows and pings."""

FRAME: Final = 1
"""A frame without any effect."""
ANSWERED: Final = 10
"""A frame that is answered, as PING is."""
GIVEN_UP: Final = 50
"""A call that was begun in vain. A client whose deadlines pass may give up all its calls at once."""


class Budget:
    """Of one connection. Time is in seconds of a monotonic clock."""

    __slots__ = ("_at", "_left")

    def __init__(self, now: float) -> None:
        self._left = float(UNITS)
        self._at = now

    def spend(self, units: int, now: float) -> None:
        """Raises ConnectionFailed when there are not so many."""
        self._left -= units
        if self._left < 0:
            self._left = min(self._left + (now - self._at) * UNITS_PER_SECOND, float(UNITS))
            self._at = now
            if self._left < 0:
                raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def earn(self, units: int) -> None:
        """A call was answered."""
        if self._left < UNITS:
            self._left += units
