"""Whether a peer still uses its connection. Pure: time is an argument, in monotonic seconds."""

from __future__ import annotations

from typing import Final

IDLE_SECONDS: Final = 120.0
"""A connection without traffic for this long is closed, as in every RocketMQ server."""


class PeerWatch:
    """What one peer did when. A limit of 0 seconds: it may take as long as it wants."""

    __slots__ = ("_least_unsent", "_stuck_since", "asked", "heard_at")

    def __init__(self, now: float) -> None:
        self.asked = False
        """Whether a whole command ever came."""
        self.heard_at = now
        """When something came last; before the first command: when the connection began."""
        self._stuck_since = now
        """Since when the peer has taken none of the unsent bytes, while there are too many."""
        self._least_unsent = 0

    def reads_no_more(self, now: float, unsent: int) -> None:
        """Too many bytes are unsent."""
        self._least_unsent, self._stuck_since = unsent, now

    def is_stuck(self, now: float, unsent: int, seconds: float) -> bool:
        """Whether the peer has taken none of the unsent bytes for so long. To be asked again and again."""
        if unsent < self._least_unsent:
            self._least_unsent, self._stuck_since = unsent, now
        return 0 < seconds < now - self._stuck_since

    def never_asked(self, now: float, seconds: float) -> bool:
        """Whether no whole command came for so long."""
        return not self.asked and 0 < seconds < now - self.heard_at

    def is_idle(self, now: float) -> bool:
        """Whether nothing came for IDLE_SECONDS."""
        return now - self.heard_at > IDLE_SECONDS
