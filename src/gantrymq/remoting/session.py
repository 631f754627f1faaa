"""One connection of a server, from accept to close: what comes is executed, and answered.

What is sent is in ``outgoing``, what waits to be executed in ``backlog``, and whether the peer is still there in
``runtime.limits.peer_watch``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final, Protocol

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.command import ONE_WAY_FLAG, Command
from gantrymq.protocol.connection import Connection
from gantrymq.remoting.backlog import Backlog
from gantrymq.remoting.latency import RequestLatency
from gantrymq.remoting.outgoing import FRAMES_PER_WRITE, Outgoing
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.bytes_in_flight import FREE_BYTES
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.connections import client_of
from gantrymq.runtime.limits.peer_watch import IDLE_SECONDS, PeerWatch
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.requests import RequestRates
from gantrymq.runtime.network import Link
from gantrymq.runtime.turns import Turns

log = logging.getLogger("gantrymq.remoting")

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
        "_backlog",
        "_closing",
        "_connection",
        "_link",
        "_outgoing",
        "_server",
        "_watch",
        "alive",
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
        self._connection: Connection[None] = Connection()
        self._link: Link | None = None
        self._backlog = Backlog()
        self._outgoing = Outgoing(server.clock, server.latency, self._count_bytes)
        self._watch = PeerWatch(server.clock.monotonic())
        self._closing = False
        self.id = number
        self.alive = False
        self.left = False
        """Whether the connection ended, and not because this side closed it."""
        self.writable = True
        """False while the peer does not read and too much is unsent."""
        self.user: Any = None
        """Who sent the last signed request, where the server has users (``gantrymq.access``)."""
        self.refused = False
        """Whether a request of this connection was refused for lack of rights; only the first one is logged."""
        self.peer = ""
        self.local = ""
        self.client = ""
        """Who shares the limits of one client: the peer's IP address, or the user where a guard knows one."""

    # Life.

    def connected(self, link: Link) -> None:
        self._link = link
        self._backlog.begin(link)
        self._outgoing.begin(link)
        self.peer, self.local = link.peer, link.local
        self.client = client_of(link.peer)
        self.alive = True

    def close(self) -> None:
        """End the connection when its peer has read what was sent. A peer that does not is not waited for long."""
        if self._link is not None:
            self._closing = True
            self._link.close()

    def cut_off(self) -> None:
        """End the connection at once, and drop what is unsent."""
        self.alive = False
        self._outgoing.stop()
        if self._link is not None:
            self._link.abort()

    def lost(self, reason: str) -> None:
        self.left = self.alive and not self._closing
        self.alive = False
        self._backlog.stop()
        self._outgoing.stop()
        if self._outgoing.counted:
            self._outgoing.counted = False
            self._server.client_limits.bytes.note(self, 0)
        self._server.forget(self, reason)

    def look(self, now: float) -> None:
        """End a connection that is used by nobody any more. Called every few seconds."""
        self._count_bytes()
        limits, watch, unsent = self._server.client_limits, self._watch, self._unsent()
        if self._closing:
            self.cut_off()
        elif not self.writable:
            seconds = limits.limits.slow_reader_seconds
            if watch.is_stuck(now, unsent, seconds):
                text = f"cut off: it has read none of the {unsent} bytes that wait for it for {seconds:g} s"
                limits.refusals.note(Reason.SLOW_READER, self.peer, text)
                self.cut_off()
        elif not watch.asked:
            seconds = limits.limits.first_request_seconds
            if watch.never_asked(now, seconds):
                text = f"cut off: no whole request came within {seconds:g} s"
                limits.refusals.note(Reason.FIRST_REQUEST, self.peer, text)
                self.cut_off()
        elif watch.is_idle(now):
            log.info("closing %s: idle for %d s", self.peer, IDLE_SECONDS)
            self.close()

    # What comes.

    def received(self, data: bytes) -> None:
        if not self.alive:
            return  # it was cut off, and the network has not said so yet
        now = self._server.clock.monotonic()
        watch = self._watch
        if watch.asked:
            watch.heard_at = now
        commands = self._connection.receive(data, now)
        if self._backlog.commands is not None:
            self._backlog.add(commands)
        elif self._server.turns.must_wait(now):
            self._defer(commands)
        else:
            self._execute(commands, len(data))

    def _execute(self, commands: Iterator[Command], size: int) -> None:
        """``size``: bytes of the read in which they came."""
        server, outgoing = self._server, self._outgoing
        monotonic, ends = server.clock.monotonic, server.turns.ends
        now = 0.0
        execute = server.execute if server.requests.per_second == 0 else server.execute_if_allowed
        frames, latency = outgoing.frames, outgoing.latency
        command: Command | None = None
        try:
            for command in commands:
                answer = execute(self, command)
                if answer is not None:
                    frames.append(answer)
                    latency.answered(command, answer)
                    # A large answer is sent at once, so that the next command already knows whether the peer reads.
                    if len(answer) > LARGE_ANSWER_BYTES or len(frames) >= FRAMES_PER_WRITE:
                        outgoing.write_out()
                now = monotonic()
                if not (self.writable and self.alive):
                    self._backlog.commands = commands
                    break
                if now >= ends:
                    self._defer(commands)
                    break
        except RemoteProtocolError as error:
            log.warning("closing %s: %s", self.peer, error)
            server.turns.executed(monotonic())
            outgoing.write_out()
            self.close()
            return
        outgoing.write_out()
        if command is not None:
            server.turns.executed(now)
            server.last_request = (command.code, self.peer)
            self._watch.asked = True
            if size <= FREE_BYTES and not outgoing.counted:
                return  # the rest of this read cannot be much, and it is what there is of an incomplete request
        self._count_bytes()

    def _defer(self, commands: Iterator[Command]) -> None:
        """Execute the rest in another turn. Nothing more is read until then, so that it cannot grow."""
        self._backlog.defer(commands)
        self._server.turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._backlog.deferred = False
        if self.alive and self.writable:  # else nobody is there, or ``resume_writing`` goes on
            self._catch_up()

    def _catch_up(self) -> None:
        """Execute what waits, then read on."""
        commands = self._backlog.take()
        if commands is not None:
            self._execute(commands, FREE_BYTES + 1)
        else:
            self._count_bytes()
        self._read_on()

    # What is sent.

    def answer(self, command: Command, frame: bytes, body: bytes = b"", *, held: bool = False) -> None:
        """Answer a request whose handler returns nothing; nobody waits for the answer to a one-way one.

        ``body``: the rest of the frame; a large one is not copied. ``held``: the request waited for something to happen
        (long polling).
        """
        if command.flag & ONE_WAY_FLAG:
            return
        outgoing = self._outgoing
        outgoing.latency.answered(command, frame, held)
        if len(body) <= LARGE_ANSWER_BYTES:
            outgoing.add(frame + body if body else frame)
        else:
            outgoing.frames.append(frame)
            outgoing.write_out()
            outgoing.write(body)

    def send(self, frame: bytes) -> None:
        """Queue a frame. The frames of one turn of the event loop are sent in few writes. After the connection is lost
        this does nothing."""
        self._outgoing.add(frame)

    def write_out(self) -> None:
        """Write what is queued, because the connection is about to be closed."""
        self._outgoing.write_out()

    def next_opaque(self) -> int:
        """A number for a request from this side."""
        return self._connection.next_opaque()

    # A client that sends and never reads must not fill the server's memory, so the server stops reading from it, and
    # executes nothing more of what has come.

    def pause_writing(self) -> None:
        self.writable = False
        self._backlog.hold()
        self._watch.reads_no_more(self._server.clock.monotonic(), self._unsent())

    def resume_writing(self) -> None:
        if not self.alive:
            return
        self.writable = True
        self._backlog.held = False
        self._watch.heard_at = self._server.clock.monotonic()  # what the peer has sent meanwhile was not looked at
        if not self._backlog.deferred:
            self._catch_up()

    def rest(self, seconds: float) -> None:
        """Read nothing for a while, because the client sends too many requests."""
        self._backlog.rest(seconds, self._server.clock, self._rested)

    def _rested(self) -> None:
        self._backlog.rested()
        seconds = self._server.requests.of(self.client).rest_seconds()
        if seconds > 0 and self.alive:
            self.rest(seconds)
        else:
            self._read_on()

    def _read_on(self) -> None:
        if self.alive:
            self._backlog.read_on()

    def _count_bytes(self) -> None:
        if self._link is None or not self.alive:
            return
        size = self.bytes_in_flight()
        if size > FREE_BYTES or self._outgoing.counted:
            self._outgoing.counted = size > FREE_BYTES
            self._server.client_limits.bytes.note(self, size)

    def bytes_in_flight(self) -> int:
        """Bytes of an incomplete request, and of answers that the peer has not read."""
        return self._connection.incomplete_bytes + self._unsent()

    def _unsent(self) -> int:
        return 0 if self._link is None else self._link.unsent
