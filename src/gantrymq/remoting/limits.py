"""How many connections a server accepts, in all and from one host, and how many it refused."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.remoting")

SAY_AGAIN_SECONDS: Final = 10.0
"""A refusal is in the log at most this often, since who is refused comes again."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The largest numbers of open connections; 0: no limit."""

    total: int = 0
    per_host: int = 0


class OpenConnections:
    """Counts the open connections of a server. ``limits`` may be replaced at any time; it counts from then on."""

    def __init__(self, clock: Clock, limits: ConnectionLimits) -> None:
        self._clock = clock
        self.limits = limits
        self.count = 0
        self.refused = 0
        """Connections that were refused since the start."""
        self._of_host: dict[str, int] = {}
        self._say_from = 0.0

    def admit(self, peer: str) -> bool:
        """Count a connection from ``host:port``; False when there are too many already, and it is not counted."""
        host = peer.rpartition(":")[0]
        of_host = self._of_host.get(host, 0)
        if 0 < self.limits.total <= self.count:
            self._refuse(peer, f"there are {self.count} connections; raise maxConnections if they are wanted")
            return False
        if 0 < self.limits.per_host <= of_host:
            self._refuse(
                peer, f"there are {of_host} connections from there; raise maxConnectionsPerHost if they are wanted"
            )
            return False
        self.count += 1
        self._of_host[host] = of_host + 1
        return True

    def _refuse(self, peer: str, reason: str) -> None:
        self.refused += 1
        now = self._clock.monotonic()
        if now >= self._say_from:
            self._say_from = now + SAY_AGAIN_SECONDS
            log.warning("refused a connection from %s: %s (%d refused since the start)", peer, reason, self.refused)

    def release(self, peer: str) -> None:
        """A connection that was admitted has ended."""
        host = peer.rpartition(":")[0]
        left = self._of_host[host] - 1
        self.count -= 1
        if left:
            self._of_host[host] = left
        else:
            del self._of_host[host]
