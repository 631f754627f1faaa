"""One connection of a server, from accept to close. Several answers are sent in one write."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, Protocol

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.command import ONE_WAY_FLAG, Command
from gantrymq.protocol.connection import Connection
from gantrymq.remoting.latency import RequestLatency
from gantrymq.remoting.turns import Turns
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.limits.bytes_in_flight import FREE_BYTES
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.connections import client_of
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.requests import RequestRates
from gantrymq.runtime.network import Link

log = logging.getLogger("gantrymq.remoting")

IDLE_SECONDS: Final = 120.0
"""A connection without traffic for this long is closed, as in every RocketMQ server."""
FRAMES_PER_WRITE: Final = 16
"""Answers that are sent in one write: enough to share the cost of the system call, and few enough that the peer can
begin with them while the server works on the next ones."""
SMALL_WRITE_BYTES: Final = 4096
"""After larger writes the session looks how much is unsent; after smaller ones every few seconds, which is soon enough,
as they take long to fill the memory."""
LARGE_ANSWER_BYTES: Final = 64 * 1024
"""A larger answer is written at once, because joining it with others would only copy it."""


class Host(Protocol):
    """The server of a session."""

    last_request: tuple[int, str]
    """Code and sender of the request that was executed last."""

    @property
    def clock(self) -> Clock: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def requests(self) -> RequestRates: ...

    @property
    def client_limits(self) -> ClientLimits: ...

    @property
    def latency(self) -> RequestLatency: ...

    def execute(self, session: Session, command: Command) -> bytes | None:
        """Execute one command. Returns the answer as a frame, or None when there is none (yet)."""

    def execute_if_allowed(self, session: Session, command: Command) -> bytes | None:
        """Execute a command of a client with a limited number of requests; too many are refused."""

    def forget(self, session: Session, reason: str) -> None:
        """The connection ended."""


class Session:
    """One client's connection, from accept to close."""

    __slots__ = (
        "_closing",
        "_connection",
        "_counted",
        "_deferred",
        "_heard_at",
        "_latency",
        "_least_unsent",
        "_link",
        "_out",
        "_resting",
        "_scheduled",
        "_server",
        "_stuck_since",
        "_waiting",
        "alive",
        "asked",
        "client",
        "id",
        "left",
        "local",
        "peer",
        "refused",
        "user",
        "writable",
    )

    def __init__(self, server: Host, number: int) -> None:
        self._server = server
        self._latency = server.latency
        self._connection: Connection[None] = Connection()
        self._link: Link | None = None
        self._out: list[bytes] = []
        self._scheduled = False
        self._heard_at = self._stuck_since = server.clock.monotonic()
        """When something came; and since when the peer has taken none of the unsent bytes, while it must be told."""
        self._least_unsent = 0
        self._waiting: Iterator[Command] | None = None
        """Commands that came and are executed when the peer has read its answers."""
        self._resting: Timer | None = None
        """Ends the pause of a client that has sent too many requests."""
        self._counted = False
        """Whether the bytes of this connection are counted, because they are many."""
        self._closing = False
        self._deferred = False
        """Whether the rest of what came waits for another turn of the loop."""
        self.id = number
        self.alive = False
        self.left = False
        """Whether the connection ended, and not because this side closed it."""
        self.writable = True
        """False while the peer does not read and too much is unsent."""
        self.asked = False
        """Whether a whole command ever came."""
        self.user: Any = None
        """Who sent the last signed request, where the server has users (``gantrymq.access``)."""
        self.refused = False
        """Whether a request of this connection was refused for lack of rights; only the first one is logged."""
        self.peer = ""
        self.local = ""
        self.client = ""
        """Who shares the limits of one client: the peer's IP address, or the user where a guard knows one."""

    def connected(self, link: Link) -> None:
        self._link = link
        self.peer, self.local = link.peer, link.local
        self.client = client_of(link.peer)
        self.alive = True

    def received(self, data: bytes) -> None:
        if not self.alive:
            return  # it was cut off, and the network has not said so yet
        now = self._server.clock.monotonic()
        if self.asked:
            self._heard_at = now
        commands = self._connection.receive(data, now)
        if self._waiting is not None:
            self._waiting = chain(self._waiting, commands)
        elif self._server.turns.must_wait(now):
            self._defer(commands)
        else:
            self._execute(commands, len(data))

    def _execute(self, commands: Iterator[Command], size: int) -> None:
        """``size``: bytes of the read in which they came."""
        server = self._server
        monotonic, ends = server.clock.monotonic, server.turns.ends
        now = 0.0
        execute = server.execute if server.requests.per_second == 0 else server.execute_if_allowed
        command: Command | None = None
        try:
            for command in commands:
                answer = execute(self, command)
                if answer is not None:
                    self._out.append(answer)
                    self._latency.answered(command, answer)
                    # A large answer is sent at once, so that the next command already knows whether the peer reads.
                    if len(answer) > LARGE_ANSWER_BYTES or len(self._out) >= FRAMES_PER_WRITE:
                        self._write_out()
                now = monotonic()
                if not (self.writable and self.alive):
                    self._waiting = commands
                    break
                if now >= ends:
                    self._defer(commands)
                    break
        except RemoteProtocolError as error:
            log.warning("closing %s: %s", self.peer, error)
            server.turns.executed(monotonic())
            self._write_out()
            self.close()
            return
        self._write_out()
        if command is not None:
            server.turns.executed(now)
            server.last_request = (command.code, self.peer)
            self.asked = True
            if size <= FREE_BYTES and not self._counted:
                return  # the rest of this read cannot be much, and it is what there is of an incomplete request
        self._count_bytes()

    def _defer(self, commands: Iterator[Command]) -> None:
        """Execute the rest in another turn. Nothing more is read until then, so that it cannot grow."""
        self._waiting = commands
        self._deferred = True
        if self._link is not None:
            self._link.pause_reading()
        self._server.turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._deferred = False
        if not self.alive or not self.writable:
            return  # nobody is there, or ``resume_writing`` goes on
        commands, self._waiting = self._waiting, None
        if commands is not None:
            self._execute(commands, FREE_BYTES + 1)
        self._read_on()

    def answer(self, command: Command, frame: bytes, body: bytes = b"", *, held: bool = False) -> None:
        """Answer a request whose handler returns nothing; nobody waits for the answer to a one-way one.

        ``body``: the rest of the frame; a large one is not copied. ``held``: the request waited for something to happen
        (long polling).
        """
        if command.flag & ONE_WAY_FLAG:
            return
        self._latency.answered(command, frame, held)
        if len(body) <= LARGE_ANSWER_BYTES:
            self.send(frame + body if body else frame)
        else:
            self._out.append(frame)
            self._write_out()
            self._write(body)

    def send(self, frame: bytes) -> None:
        """Queue a frame. The frames of one turn of the event loop are sent in few writes. After the connection is lost
        this does nothing."""
        self._out.append(frame)
        if len(self._out) >= FRAMES_PER_WRITE:
            self._write_out()
        elif not self._scheduled:
            self._scheduled = True
            self._server.clock.call_soon(self._flush)

    def next_opaque(self) -> int:
        """A number for a request from this side."""
        return self._connection.next_opaque()

    def close(self) -> None:
        """End the connection when its peer has read what was sent. A peer that does not is not waited for long."""
        if self._link is not None:
            self._closing = True
            self._link.close()

    def cut_off(self) -> None:
        """End the connection at once, and drop what is unsent."""
        self.alive = False
        if self._link is not None:
            self._link.abort()

    def look(self, now: float) -> None:
        """End a connection that is used by nobody any more. Called every few seconds."""
        self._count_bytes()
        if self._closing:
            self.cut_off()
        elif not self.writable:
            self._look_at_reader(now)
        elif not self.asked:
            self._look_at_first_request(now)
        elif now - self._heard_at > IDLE_SECONDS:
            log.info("closing %s: idle for %d s", self.peer, IDLE_SECONDS)
            self.close()

    def _look_at_first_request(self, now: float) -> None:
        limits = self._server.client_limits
        seconds = limits.limits.first_request_seconds
        if 0 < seconds < now - self._heard_at:
            text = f"cut off: no whole request came within {seconds:g} s"
            limits.refusals.note(Reason.FIRST_REQUEST, self.peer, text)
            self.cut_off()

    def _look_at_reader(self, now: float) -> None:
        unsent = 0 if self._link is None else self._link.unsent
        if unsent < self._least_unsent:
            self._least_unsent, self._stuck_since = unsent, now
        limits = self._server.client_limits
        seconds = limits.limits.slow_reader_seconds
        if 0 < seconds < now - self._stuck_since:
            text = f"cut off: it has read none of the {unsent} bytes that wait for it for {seconds:g} s"
            limits.refusals.note(Reason.SLOW_READER, self.peer, text)
            self.cut_off()

    def _flush(self) -> None:
        self._scheduled = False
        self._write_out()

    def _write_out(self) -> None:
        if self._out:
            self._latency.take()
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._link is not None and self.alive:
            self._link.write(data)
            if len(data) > SMALL_WRITE_BYTES or self._counted:
                self._count_bytes()

    def _count_bytes(self) -> None:
        if self._link is None or not self.alive:
            return
        size = self.bytes_in_flight()
        if size > FREE_BYTES or self._counted:
            self._counted = size > FREE_BYTES
            self._server.client_limits.bytes.note(self, size)

    def bytes_in_flight(self) -> int:
        """Bytes of an incomplete request, and of answers that the peer has not read."""
        return self._connection.incomplete_bytes + (0 if self._link is None else self._link.unsent)

    def lost(self, reason: str) -> None:
        self.left = self.alive and not self._closing
        self.alive = False
        self._out.clear()
        self._waiting = None
        if self._resting is not None:
            self._resting.cancel()
        if self._counted:
            self._counted = False
            self._server.client_limits.bytes.note(self, 0)
        self._server.forget(self, reason)

    # A client that sends and never reads must not fill the server's memory, so the server stops reading from it, and
    # executes nothing more of what has come.
    def pause_writing(self) -> None:
        self.writable = False
        if self._link is not None:
            self._link.pause_reading()
            self._least_unsent, self._stuck_since = self._link.unsent, self._server.clock.monotonic()

    def resume_writing(self) -> None:
        if not self.alive:
            return
        self.writable = True
        self._heard_at = self._server.clock.monotonic()  # what the peer has sent meanwhile was not looked at
        if self._deferred:
            return
        commands, self._waiting = self._waiting, None
        if commands is not None:
            self._execute(commands, FREE_BYTES + 1)
        else:
            self._count_bytes()
        self._read_on()

    def rest(self, seconds: float) -> None:
        """Read nothing for a while, because the client sends too many requests."""
        if self._resting is None and self._link is not None:
            self._link.pause_reading()
            self._resting = self._server.clock.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._resting = None
        seconds = self._server.requests.of(self.client).rest_seconds()
        if seconds > 0 and self.alive:
            self.rest(seconds)
        else:
            self._read_on()

    def _read_on(self) -> None:
        if self.writable and not self._deferred and self._resting is None and self._link is not None and self.alive:
            self._link.resume_reading()
