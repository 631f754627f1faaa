"""Accepts connections, and passes every request to its handler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from gantrymq.errors import GantryError, RequestRejected
from gantrymq.protocol.codes import ResponseCode, request_name
from gantrymq.protocol.command import ONE_WAY_FLAG, RESPONSE_FLAG, Command, encode_response
from gantrymq.remoting.latency import RequestLatency
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.network import Listener, Network
from gantrymq.runtime.turns import Turns

log = logging.getLogger("gantrymq.remoting")

_SWEEP_SECONDS: Final = 10.0
_NONE: Final = -1

Handler = Callable[[Any, Command], bytes | None]
"""Executes one request of a session and returns its answer as a frame; None when the answer is sent later with
``Session.answer``, or never (one-way). May raise RequestRejected(code, remark) instead of returning that answer."""

Rejection = Callable[[GantryError], tuple[int, str | None] | None]
"""Response code and remark for an error that a handler raises on purpose; None for any other."""

NewSession = Callable[["RemotingServer", int], Session]


class RemotingServer:
    """A listening address with its sessions.

    ``handlers``: handlers by request code. ``closed``: called once for every session that ended. ``responses``: called
    with the answers to requests that the server sent. ``refusals``: the reasons why certain request codes have no
    handler, for the answer. ``rejection``: turns errors of handlers other than RequestRejected into an answer.
    ``new_session``: makes the session of a connection, which handlers and ``closed`` get, from the server and a number.
    ``client_limits``: what clients may take, which all doors of a server share; default: new ones, with the defaults.
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
        client_limits: ClientLimits | None = None,
    ) -> None:
        self._network = network
        self.clock = clock
        self._handlers = handlers
        self._closed = closed
        self._responses = responses
        self._refusals = refusals or {}
        self._rejection = rejection
        self._new_session = new_session
        self.client_limits: Final = client_limits or ClientLimits(clock, Limits())
        self.requests: Final = self.client_limits.requests
        self.latency: Final = RequestLatency(clock)
        """How long requests took, of all sessions."""
        self.last_request: tuple[int, str] = (_NONE, "")
        """Code and sender of the request that was executed last."""
        self.turns: Final = Turns(clock)
        """How much is executed at once."""
        self._sessions: dict[int, Session] = {}
        self._listeners: list[Listener] = []
        self._accepted = 0
        self._sweeper: Timer | None = None

    @property
    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    def last_request_text(self) -> str:
        """For people; empty when none was executed."""
        code, peer = self.last_request
        return "" if code == _NONE else f"{request_name(code)} of {peer}"

    async def start(self, host: str, port: int) -> str:
        """Listen on a port and return the address; port 0 means any free port. May be called for several ports."""
        listener = await self._network.listen(host, port, self._accept, self.client_limits.connections)
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
            session.write_out()
            session.close()

    def _accept(self) -> Session:
        self._accepted += 1
        session = self._new_session(self, self._accepted)
        self._sessions[session.id] = session
        return session

    def _sweep(self) -> None:
        now = self.clock.monotonic()
        for session in self.sessions:
            session.look(now)
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
        if command.flag & ONE_WAY_FLAG:
            self.latency.executed(command, answer)
            return None
        return answer

    def execute_if_allowed(self, session: Session, command: Command) -> bytes | None:
        """Execute a command of a client with a limited number of requests; too many are refused.

        A one-way request is executed in any case: nobody would learn of its refusal, and it may be the end of a
        transaction. It counts, and the client is not read from until it may send again.
        """
        allowance = self.requests.of(session.client)
        if command.flag & RESPONSE_FLAG or allowance.take():
            return self.execute(session, command)
        session.rest(allowance.rest_seconds())
        if command.flag & ONE_WAY_FLAG:
            allowance.owe()
            return self.execute(session, command)
        limit = self.requests.per_second
        remark = f"more than {limit} requests in a second from {session.client}; send slower (maxRequestsPerSecond)"
        self.client_limits.refusals.note(Reason.REQUESTS, session.peer, f"refused a request: {remark}")
        return encode_response(command, ResponseCode.SYSTEM_BUSY, remark=remark)

    def _refuse(self, command: Command) -> bytes:
        reason = self._refusals.get(command.code)
        remark = f" request type {command.code} not supported" + (f": {reason}" if reason else "")
        return encode_response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
