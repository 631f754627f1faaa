"""Which member of a group has the lock of a queue. Source: RebalanceLockManager; docs/protocol.md#locks-of-queues."""

from __future__ import annotations

from typing import Final

from gantrymq.message.queues import MessageQueue

LOCK_SECONDS: Final = 60.0
"""A lock that its holder does not renew ends after this long; clients renew every 20 s."""


class QueueLocks:
    """(group, queue) to holder and deadline."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, MessageQueue], tuple[str, float]] = {}

    def lock(self, group: str, client_id: str, queues: list[MessageQueue], now: float) -> list[MessageQueue]:
        """Take or renew what nobody else holds; returns the queues that are held by ``client_id`` now."""
        held: list[MessageQueue] = []
        for queue in queues:
            owner, deadline = self._held.get((group, queue), (client_id, now))
            if owner == client_id or deadline <= now:
                self._held[group, queue] = (client_id, now + LOCK_SECONDS)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Give up what ``client_id`` holds."""
        for queue in queues:
            if self._held.get((group, queue), ("", 0.0))[0] == client_id:
                del self._held[group, queue]

    def expire(self, now: float) -> None:
        """Forget locks that have ended, so that the table cannot grow for ever."""
        for key in [key for key, (_, deadline) in self._held.items() if deadline <= now]:
            del self._held[key]
