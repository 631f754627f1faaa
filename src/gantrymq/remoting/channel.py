"""The client's end of one connection: sends requests, passes answers to their callers, and the server's own requests
to a callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gantrymq.errors import Closed, GantryError, RemoteProtocolError, TimedOut, Unreachable
from gantrymq.protocol.command import Command
from gantrymq.protocol.connection import Connection
from gantrymq.protocol.signature import Account, signed_frame
from gantrymq.remoting.other_protocols import CLOSED, TLS_ADVICE, other_protocol
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import Link
from gantrymq.runtime.tls.link import TlsLink

log = logging.getLogger("gantrymq.remoting")

FRAMES_PER_WRITE: Final = 16
"""Requests that are sent in one write. Then the server can begin with them while the client makes the next ones."""
_SWEEP_SECONDS: Final = 0.05
"""Deadlines are checked at most this often, by one timer for all requests of a channel, which is cheaper than a timer
for each."""

PushHandler = Callable[["ClientChannel", Command], None]
Answer = asyncio.Future[Command]


class ClientChannel:
    """An open connection to one address."""

    __slots__ = (
        "_clock",
        "_connection",
        "_create_future",
        "_encrypted",
        "_heard",
        "_link",
        "_lost",
        "_monotonic",
        "_out",
        "_pushes",
        "_scheduled",
        "_sweep_at",
        "_sweeper",
        "address",
        "alive",
        "local",
        "next_opaque",
    )

    def __init__(self, address: str, clock: Clock, pushes: PushHandler | None, lost: Callable[[ClientChannel], None]):
        self.address = address
        self.local = ""
        self.alive = False
        self._clock = clock
        self._pushes = pushes
        self._lost = lost
        self._monotonic = clock.monotonic
        self._create_future: Callable[[], Answer] = asyncio.get_running_loop().create_future
        self._connection: Connection[tuple[Answer, int]] = Connection()
        self.next_opaque = self._connection.next_opaque
        self._link: Link | None = None
        self._out: list[bytes] = []
        self._encrypted = False
        self._heard = False
        """Whether the peer has sent anything."""
        self._scheduled = False
        self._sweeper: Timer | None = None
        self._sweep_at = 0.0
        """When the timer runs next, while there is one."""

    def request(self, opaque: int, frame: bytes, timeout_ms: int, now: float | None = None) -> Answer:
        """Send a request; the future gets the answer, TimedOut or Unreachable. Cancelling it forgets the answer.

        ``now``: the monotonic time from which the time-out counts; default: the time of the call.
        """
        answer = self._create_future()
        if not self.alive:
            answer.set_exception(Unreachable(self.address, "the connection was lost"))
            return answer
        if now is None:
            now = self._monotonic()
        deadline = now + timeout_ms / 1000
        self._connection.expect(opaque, (answer, timeout_ms), deadline)
        self.send(frame)
        if self._sweeper is None or deadline < self._sweep_at:
            self._sweep_no_later(deadline)
        return answer

    def send(self, frame: bytes) -> None:
        """Queue a frame. The frames of one turn of the event loop are sent in few writes."""
        self._out.append(frame)
        if len(self._out) >= FRAMES_PER_WRITE:
            self._write_out()
        elif not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        self._write_out()

    def _write_out(self) -> None:
        if self._out:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            if self._link is not None and self.alive:
                self._link.write(data)

    def close(self) -> None:
        """Send the queued frames and close the connection. Callers that still wait get Closed."""
        self._flush()
        self._give_up(Closed(f"the connection to {self.address} was closed"))
        if self._link is not None:
            self._link.close()

    def abandon(self, reason: str, advice: str = "") -> None:
        """Drop the connection without sending anything more. Callers that still wait get Unreachable."""
        self._give_up(Unreachable(self.address, reason, advice))
        if self._link is not None:
            self._link.abort()

    def _sweep(self) -> None:
        self._sweeper = None
        for answer, timeout_ms in self._connection.expired(self._clock.monotonic()):
            if not answer.done():
                answer.set_exception(TimedOut(f"request to {self.address}", timeout_ms))
        if self._connection.pending:
            self._sweep_no_later(self._connection.next_deadline())

    def _sweep_no_later(self, deadline: float) -> None:
        """Check the deadlines when the first one has passed, but not separately for each of many close deadlines."""
        now = self._clock.monotonic()
        at = max(deadline, now + _SWEEP_SECONDS)
        if self._sweeper is not None:
            if self._sweep_at <= at:
                return
            self._sweeper.cancel()
        self._sweep_at = at
        self._sweeper = self._clock.call_later(at - now, self._sweep)

    def _give_up(self, error: GantryError) -> None:
        self.alive = False
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for answer, _ in self._connection.abandon():
            if not answer.done():
                answer.set_exception(error)

    # The network calls these methods.

    def connected(self, link: Link) -> None:
        self._link = link
        self._encrypted = isinstance(link, TlsLink)
        self.local = link.local
        self.alive = True

    def received(self, data: bytes) -> None:
        if not self._heard:
            self._heard = True
            if (found := other_protocol(data)) is not None:
                self.abandon(*found)
                return
        try:
            for command in self._connection.receive(data):
                if command.flag & 1:
                    waiting = self._connection.answered(command)
                    if waiting is not None and not waiting[0].done():
                        waiting[0].set_result(command)
                elif self._pushes is not None:
                    self._push(command)
        except RemoteProtocolError as error:
            log.warning("closing the connection to %s: %s", self.address, error)
            self.abandon(str(error))

    def _push(self, command: Command) -> None:
        if self._pushes is None:
            return
        try:
            self._pushes(self, command)
        except GantryError as error:
            log.warning("request %d from %s was not understood: %s", command.code, self.address, error)

    def lost(self, reason: str) -> None:
        if self._heard or self._encrypted:
            self._give_up(Unreachable(self.address, f"connection lost ({reason}) before the answer came"))
        else:  # what a server that takes only TLS does, ours and Apache's
            self._give_up(Unreachable(self.address, f"{CLOSED} ({reason})", TLS_ADVICE))
        self._lost(self)

    def pause_writing(self) -> None:
        """The peer does not read. Nothing to do here, because each caller has a deadline of its own."""

    def resume_writing(self) -> None:
        """See pause_writing."""


class SignedChannel(ClientChannel):
    """A channel whose requests are signed. Every frame passes ``send``, so that none is forgotten."""

    __slots__ = ("_account",)

    def __init__(
        self,
        address: str,
        clock: Clock,
        pushes: PushHandler | None,
        lost: Callable[[ClientChannel], None],
        account: Account,
    ) -> None:
        super().__init__(address, clock, pushes, lost)
        self._account = account

    def send(self, frame: bytes) -> None:
        super().send(signed_frame(frame, self._account))
