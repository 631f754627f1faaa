"""Accepts connections, and passes every request to its handler. Several answers are sent in one write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from gantrymq.errors import GantryError, RemoteProtocolError, RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import ONE_WAY_FLAG, RESPONSE_FLAG, Command, encode_response
from gantrymq.protocol.connection import Connection
from gantrymq.remoting.limits import ConnectionLimits, OpenConnections
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import Link, Listener, Network

log = logging.getLogger("gantrymq.remoting")

IDLE_SECONDS: Final = 120.0
"""A connection without traffic for this long is closed, as in every RocketMQ server."""
FRAMES_PER_WRITE: Final = 16
"""Answers that are sent in one write: enough to share the cost of the system call, and few enough that the peer can
begin with them while the server works on the next ones."""
_SWEEP_SECONDS: Final = 10.0
LARGE_ANSWER_BYTES: Final = 64 * 1024
"""A larger answer is written at once, because joining it with others would only copy it."""

Handler = Callable[[Any, Command], bytes | None]
"""Executes one request of a session and returns its answer as a frame; None when the answer is sent later with
``Session.send``, or never (one-way). May raise RequestRejected(code, remark) instead of returning that answer."""

Rejection = Callable[[GantryError], tuple[int, str | None] | None]
"""Response code and remark for an error that a handler raises on purpose; None for any other."""


class Session:
    """One client's connection, from accept to close."""

    __slots__ = (
        "_admitted",
        "_connection",
        "_heard_at",
        "_link",
        "_out",
        "_scheduled",
        "_server",
        "alive",
        "id",
        "local",
        "peer",
        "writable",
    )

    def __init__(self, server: RemotingServer, number: int) -> None:
        self._server = server
        self._connection: Connection[None] = Connection()
        self._link: Link | None = None
        self._out: list[bytes] = []
        self._scheduled = False
        self._admitted = True
        self._heard_at = server.clock.monotonic()
        self.id = number
        self.alive = False
        self.writable = True
        """False while the peer does not read and too much is unsent."""
        self.peer = ""
        self.local = ""

    def connected(self, link: Link) -> None:
        self._link = link
        self.peer, self.local = link.peer, link.local
        self._admitted = self.alive = self._server.connections.admit(self.peer)
        if not self.alive:
            link.abort()

    def received(self, data: bytes) -> None:
        if not self._admitted:
            return  # the connection was refused, and is not closed yet
        self._heard_at = self._server.clock.monotonic()
        try:
            for command in self._connection.receive(data):
                answer = self._server.execute(self, command)
                if answer is not None:
                    self._out.append(answer)
                    # A large answer is sent at once, so that the next command already knows whether the peer reads.
                    if len(answer) > LARGE_ANSWER_BYTES or len(self._out) >= FRAMES_PER_WRITE:
                        self._write_out()
        except RemoteProtocolError as error:
            log.warning("closing %s: %s", self.peer, error)
            self._write_out()
            self.close()
            return
        self._write_out()

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
        if self._link is not None:
            self._link.close()

    def close_if_idle(self, now: float) -> None:
        if now - self._heard_at > IDLE_SECONDS:
            log.info("closing %s: idle for %d s", self.peer, IDLE_SECONDS)
            self.close()

    def _flush(self) -> None:
        self._scheduled = False
        self._write_out()

    def _write_out(self) -> None:
        if self._out:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            if self._link is not None and self.alive:
                self._link.write(data)

    def lost(self, reason: str) -> None:
        if self.alive:
            self._server.connections.release(self.peer)
        self.alive = False
        self._out.clear()
        self._server.forget(self, reason)

    # A client that sends and never reads must not fill the server's memory, so the server stops reading from it.
    def pause_writing(self) -> None:
        self.writable = False
        if self._link is not None:
            self._link.pause_reading()

    def resume_writing(self) -> None:
        self.writable = True
        if self._link is not None:
            self._link.resume_reading()


NewSession = Callable[["RemotingServer", int], Session]


class RemotingServer:
    """A listening address with its sessions.

    ``handlers``: handlers by request code. ``closed``: called once for every session that ended. ``responses``: called
    with the answers to requests that the server sent. ``refusals``: the reasons why certain request codes have no
    handler, for the answer. ``rejection``: turns errors of handlers other than RequestRejected into an answer.
    ``new_session``: makes the session of a connection, which handlers and ``closed`` get, from the server and a number.
    ``limits``: of the open connections.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        handlers: Mapping[int, Handler],
        *,
        closed: Callable[[Any], None] | None = None,
        responses: Callable[[Any, Command], None] | None = None,
        refusals: Mapping[int, str] | None = None,
        rejection: Rejection | None = None,
        new_session: NewSession = Session,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self._network = network
        self.clock = clock
        self._handlers = handlers
        self._closed = closed
        self._responses = responses
        self._refusals = refusals or {}
        self._rejection = rejection
        self._new_session = new_session
        self.connections: Final = OpenConnections(clock, limits or ConnectionLimits())
        self._sessions: dict[int, Session] = {}
        self._listeners: list[Listener] = []
        self._accepted = 0
        self._sweeper: Timer | None = None

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    async def start(self, host: str, port: int) -> str:
        """Listen on a port and return the address; port 0 means any free port. May be called for several ports."""
        listener = await self._network.listen(host, port, self._accept)
        self._listeners.append(listener)
        if self._sweeper is None:
            self._sweeper = self.clock.call_later(_SWEEP_SECONDS, self._sweep)
        return listener.address

    async def close(self) -> None:
        """Accept no further connections, and close every session after its queued answers are sent."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for listener in self._listeners:
            await listener.close()
        for session in self.sessions:
            session._write_out()
            session.close()

    def _accept(self) -> Session:
        self._accepted += 1
        session = self._new_session(self, self._accepted)
        self._sessions[session.id] = session
        return session

    def _sweep(self) -> None:
        now = self.clock.monotonic()
        for session in self.sessions:
            session.close_if_idle(now)
        self._sweeper = self.clock.call_later(_SWEEP_SECONDS, self._sweep)

    def forget(self, session: Session, reason: str) -> None:
        if self._sessions.pop(session.id, None) is not None and self._closed is not None:
            log.debug("session of %s ended: %s", session.peer, reason)
            self._closed(session)

    def execute(self, session: Session, command: Command) -> bytes | None:
        """Execute one command. Returns the answer as a frame, or None when there is none (yet)."""
        if command.flag & RESPONSE_FLAG:
            if self._responses is not None:
                self._responses(session, command)
            return None
        handler = self._handlers.get(command.code)
        try:
            answer = self._refuse(command) if handler is None else handler(session, command)
        except RequestRejected as refusal:
            answer = encode_response(command, refusal.code, remark=refusal.remark)
        except GantryError as error:
            rejection = None if self._rejection is None else self._rejection(error)
            if rejection is None:
                log.warning("request %d of %s failed: %s", command.code, session.peer, error)
                rejection = ResponseCode.SYSTEM_ERROR, str(error)
            answer = encode_response(command, rejection[0], remark=rejection[1])
        # A defect in one handler must neither close the connection nor leave its client without an answer.
        except Exception as error:
            log.exception("request %d of %s hit a defect", command.code, session.peer)
            answer = encode_response(command, ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        return None if answer is None or command.flag & ONE_WAY_FLAG else answer

    def _refuse(self, command: Command) -> bytes:
        reason = self._refusals.get(command.code)
        remark = f" request type {command.code} not supported" + (f": {reason}" if reason else "")
        return encode_response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
