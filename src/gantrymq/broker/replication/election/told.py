"""How far a replica's log is confirmed, as its primary says (``store.log.conditions``).

What lies behind is here and may vanish: another member of the in-sync set may not have it, and may become primary.
Nobody sees it before it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.message.send_status import SendStatus


class Told:
    """Of one replica. Nobody waits for it: a replica takes nothing from clients."""

    name = "the primary"
    available = True
    limit_ms = None
    expired = SendStatus.FLUSH_SLAVE_TIMEOUT
    absent = SendStatus.SLAVE_NOT_AVAILABLE

    def __init__(self, position: int) -> None:
        """``position``: what was confirmed before."""
        self.position = position
        self._changed: Callable[[], None] = lambda: None

    def follow(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def truncated(self, position: int) -> None:
        self.position = min(self.position, position)

    def confirm(self, position: int) -> None:
        """Everything before this log offset is confirmed."""
        if position > self.position:
            self.position = position
            self._changed()
