"""Which member of a group has the lock of a queue. Source: RebalanceLockManager; docs/protocol.md#locks-of-queues.

A lock ends after a time in which its holder does not renew it. When the peer closes the connection of a holder, which
happens when its process dies, its locks end sooner: a member that lives comes back and renews them before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.message.queues import MessageQueue

LOCK_SECONDS: Final = 60.0
"""A lock that its holder does not renew ends after this long; clients renew every 20 s."""
TRUSTED_SECONDS: Final = 32.0
"""RocketMQ's clients hand out messages for 30 s after the answer to a renewal, whatever becomes of their connection; an
answer may be a second under way (ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME)."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    deadline: float
    renewed: float
    ends_with_connection: bool
    """Its holder hands out no further message while it has no connection."""


class QueueLocks:
    """(group, queue) to holder and deadline."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, MessageQueue], _Lock] = {}

    def lock(
        self, group: str, client_id: str, queues: list[MessageQueue], now: float, *, ends_with_connection: bool = False
    ) -> list[MessageQueue]:
        """Take or renew what nobody else holds; returns the queues that are held by ``client_id`` now.

        ``ends_with_connection``: what the holder said of itself, see ``holder_gone``.
        """
        held: list[MessageQueue] = []
        for queue in queues:
            lock = self._held.get((group, queue))
            if lock is None or lock.client_id == client_id or lock.deadline <= now:
                self._held[group, queue] = _Lock(client_id, now + LOCK_SECONDS, now, ends_with_connection)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Give up what ``client_id`` holds."""
        for queue in queues:
            lock = self._held.get((group, queue))
            if lock is not None and lock.client_id == client_id:
                del self._held[group, queue]

    def holder_gone(self, group: str, client_id: str, now: float, grace: float) -> list[float]:
        """The last connection of a holder was closed by its peer: its locks end ``grace`` seconds from now, and never
        while it may hand out messages. Returns when they end. A renewal makes them whole again."""
        ends: set[float] = set()
        for (of, _), lock in self._held.items():
            if of == group and lock.client_id == client_id and lock.deadline > now:
                until = now + grace
                if not lock.ends_with_connection:
                    until = max(until, lock.renewed + TRUSTED_SECONDS)
                lock.deadline = min(lock.deadline, until)
                ends.add(lock.deadline)
        return sorted(ends)

    def has_ended(self, group: str, client_id: str, now: float) -> bool:
        """Whether a lock that the client had has ended, and nobody has taken it since."""
        return any(
            of == group and lock.client_id == client_id and lock.deadline <= now for (of, _), lock in self._held.items()
        )

    def expire(self, now: float) -> None:
        """Forget locks that have ended, so that the table cannot grow for ever."""
        for key in [key for key, lock in self._held.items() if lock.deadline <= now]:
            del self._held[key]
