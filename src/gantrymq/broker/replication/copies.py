"""When enough replicas have a record: what a SYNC_MASTER asks for beside its own disk (``store.log.conditions``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.message.send_status import SendStatus


class Unjoined:
    """What a former primary wrote and nobody confirmed is not visible at a replica, as long as it is not known whether
    the new primary has it, too. Then this condition is dropped."""

    name: Final = "the primary"
    position: Final = 0
    available: Final = True
    limit_ms: Final = None
    expired: Final = SendStatus.FLUSH_SLAVE_TIMEOUT
    absent: Final = SendStatus.SLAVE_NOT_AVAILABLE

    def follow(self, changed: Callable[[], None]) -> None: ...

    def truncated(self, position: int) -> None: ...


class Copies:
    """How far ``needed`` replicas have the log. One machine counts once, however many connections it has.

    ``limit_ms``: how long senders wait; then they are told FLUSH_SLAVE_TIMEOUT. While fewer replicas are connected than
    are needed, they are told SLAVE_NOT_AVAILABLE at once. Either way the message becomes visible to consumers only when
    it is copied.
    """

    name = "the replica"
    expired = SendStatus.FLUSH_SLAVE_TIMEOUT
    absent = SendStatus.SLAVE_NOT_AVAILABLE

    def __init__(self, needed: int, limit_ms: int) -> None:
        self._needed = needed
        self.limit_ms = limit_ms
        self._confirmed: dict[str, int] = {}
        """Identity of a connected replica to how far it has the log."""
        self.position = 0
        self._changed: Callable[[], None] = lambda: None

    @property
    def available(self) -> bool:
        return len(self._confirmed) >= self._needed

    def follow(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def truncated(self, position: int) -> None:
        self._confirmed = {name: min(end, position) for name, end in self._confirmed.items()}
        self.position = min(self.position, position)

    def confirm(self, identity: str, end: int) -> None:
        """A replica that is connected has everything before ``end``."""
        if self._confirmed.get(identity, -1) < end:
            self._confirmed[identity] = end
            self._look()

    def left(self, identity: str) -> None:
        """The last connection of a replica ended. What it has counts no longer for what is confirmed from now on; what
        was confirmed stays so."""
        self._confirmed.pop(identity, None)
        self._changed()

    def _look(self) -> None:
        if len(self._confirmed) >= self._needed:
            reached = sorted(self._confirmed.values(), reverse=True)[self._needed - 1]
            self.position = max(self.position, reached)
        self._changed()
