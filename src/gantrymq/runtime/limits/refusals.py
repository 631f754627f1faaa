"""What a server refused because of its limits: counted, and named in the log."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Final

from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.remoting")

SAY_AGAIN_SECONDS: Final = 10.0
"""A refusal is in the log at most this often for each reason, since who is refused comes again."""


class Reason(StrEnum):
    """Why a server refused something. The values are labels of a metric."""

    CONNECTIONS = "connections"
    """A connection: there were too many."""
    TLS = "tls"
    """A connection: no agreement on TLS, or none was tried where it is demanded."""
    FIRST_REQUEST = "first_request"
    """A connection: its first whole request did not come in time."""
    SLOW_READER = "slow_reader"
    """A connection: its peer did not read what was sent to it."""
    BYTES = "bytes_in_flight"
    """A connection: incomplete requests and unread answers took too much memory."""
    REQUESTS = "requests"
    """A request: its client had sent too many."""


class Refusals:
    """Counts since the start of the server, by reason."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counts: Final[dict[Reason, int]] = dict.fromkeys(Reason, 0)
        self._say_from: dict[Reason, float] = {}

    def note(self, reason: Reason, peer: str, text: str) -> None:
        """Something of ``peer`` was refused. ``text`` says what, and what to do if it was wanted."""
        self.counts[reason] += 1
        now = self._clock.monotonic()
        if now >= self._say_from.get(reason, now):
            self._say_from[reason] = now + SAY_AGAIN_SECONDS
            log.warning("%s: %s (%d times since the start)", peer, text, self.counts[reason])
