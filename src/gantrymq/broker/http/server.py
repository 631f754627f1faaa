"""Serves HTTP/1.1 on the event loop, through ``Network``. h11 reads and writes the protocol; this module has the
limits.

Only GET and HEAD are allowed. A connection has one request at a time, and its answer must have been read before the
next request is read. A client that sends too slowly, too much or something invalid is told so and disconnected.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

import h11

from gantrymq.broker.http.messages import Answer, HttpError, Request, parse_target, problem
from gantrymq.errors import GantryError
from gantrymq.runtime.addresses import host_without_port, is_loopback, numeric
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.connections import client_of
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.network import Link, Listener, Network
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.http")

HEAD_MAX_BYTES: Final = 16 * 1024
"""Of a request's first line and headers."""
BODY_MAX_BYTES: Final = 64 * 1024
"""Of a body, which no request needs; it is read and thrown away."""

Handler = Callable[[Request], Awaitable[Answer]]

_HEADERS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)
_METHODS: Final = (b"GET", b"HEAD")
_VERSIONS: Final = (b"1.0", b"1.1")
_BUSY: Final = HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later")
_TOO_MANY: Final = HttpError(HTTPStatus.TOO_MANY_REQUESTS, "too many requests in a second; see maxRequestsPerSecond")
_DEFECT: Final = HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "the broker hit a defect; its log says more")


@dataclass(frozen=True, slots=True)
class Limits:
    """What all clients together, and each request, may take."""

    connections: int = 64
    request_seconds: float = 10.0
    """Until a request is complete, from the connection or from the answer before on; then the connection is cut."""
    answer_seconds: float = 60.0
    """Until an answer is made and the next request may come."""


class HttpServer:
    """One listening address. ``handle`` answers requests; it may raise HttpError and GantryError."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        handle: Handler,
        limits: Limits | None = None,
        client_limits: ClientLimits | None = None,
    ) -> None:
        """``client_limits``: count connections and requests together with those that come through other doors."""
        self._network = network
        self._client_limits = client_limits
        self._handle = handle
        self.limits = limits or Limits()
        self._listener: Listener | None = None
        self.address = ""
        """``ip:port``; empty while it does not listen."""
        self._connections: set[_Connection] = set()
        self._tasks = TaskGroupOwner("http")
        self.clock = clock
        self.only_local_names = False
        """Bound to the loopback address: requests that a browser was led to by a foreign name are refused."""

    async def start(self, host: str, port: int) -> str:
        """Listen, and return the address. Raises Unreachable when the port is in use."""
        self.only_local_names = is_loopback(host)
        gate = None if self._client_limits is None else self._client_limits.connections
        self._listener = await self._network.listen(host, port, self._accept, gate)
        self.address = self._listener.address
        return self.address

    async def close(self) -> None:
        """Accept nothing more, and cut what is open."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        await self._tasks.stop()
        for connection in list(self._connections):
            connection.end()

    def _accept(self) -> _Connection:
        connection = _Connection(self, len(self._connections) >= self.limits.connections)
        self._connections.add(connection)
        return connection

    def forget(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    def allows(self, peer: str) -> bool:
        """Count a request of ``ip:port``; False when that client has sent too many."""
        limits = self._client_limits
        if limits is None or limits.requests.per_second == 0 or limits.requests.of(client_of(peer)).take():
            return True
        limits.refusals.note(Reason.REQUESTS, peer, f"refused a request to the HTTP endpoint: {_TOO_MANY.reason}")
        return False

    def execute(self, request: Request, tell: Callable[[Answer], None]) -> None:
        """Answer one request in a task of its own."""
        self._tasks.start("request", self._execute(request, tell))

    async def _execute(self, request: Request, tell: Callable[[Answer], None]) -> None:
        try:
            answer = await self._handle(request)
        except HttpError as refused:
            answer = problem(refused)
        except GantryError as error:
            answer = problem(HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)))
        except Exception:
            log.exception("the request %s hit a defect", "/".join(request.path))
            answer = problem(_DEFECT)
        tell(answer)


class _Connection:
    """One client, from accept to close. It is a Receiver of the Network."""

    def __init__(self, server: HttpServer, too_many: bool) -> None:
        self._server = server
        self._too_many = too_many
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)
        self._link: Link | None = None
        self._timer: Timer | None = None
        self._request: h11.Request | None = None
        self._body_bytes = 0
        self._ended = False

    # From the network.

    def connected(self, link: Link) -> None:
        self._link = link
        if self._too_many:
            self._refuse(_BUSY)
        else:
            self._wait(self._server.limits.request_seconds)

    def received(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            self._http.receive_data(data)
            self._go_on()
        except h11.RemoteProtocolError as error:
            self._refuse_nonsense(error)

    def lost(self, reason: str) -> None:
        self._ended = True
        self._stop_waiting()
        self._server.forget(self)

    def pause_writing(self) -> None:
        """Answers are bounded, and the next request is not read before the last answer was taken."""

    def resume_writing(self) -> None:
        """See ``pause_writing``."""

    # The protocol.

    def _go_on(self) -> None:
        while not self._ended:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._request, self._body_bytes = event, 0
                if self._http.they_are_waiting_for_100_continue:
                    self._refuse(HttpError(HTTPStatus.EXPECTATION_FAILED, "a request here needs no body"))
            elif isinstance(event, h11.Data):
                self._body_bytes += _size(event)
                if self._body_bytes > BODY_MAX_BYTES:
                    self._refuse(HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request here needs no body"))
            elif isinstance(event, h11.EndOfMessage) and self._request is not None:
                self._execute(self._request)
            elif isinstance(event, h11.ConnectionClosed):
                self.end()

    def _execute(self, asked: h11.Request) -> None:
        self._wait(self._server.limits.answer_seconds)
        try:
            request = self._understood(asked)
        except HttpError as refused:
            self._tell(problem(refused))
            return
        if self._link is not None:
            self._link.pause_reading()  # h11 would keep whatever comes meanwhile
        self._server.execute(request, self._answered)

    def _answered(self, answer: Answer) -> None:
        self._tell(answer)
        if self._ended or self._link is None:
            return
        self._link.resume_reading()
        try:
            self._go_on()
        except h11.RemoteProtocolError as error:
            self._refuse_nonsense(error)

    def _understood(self, asked: h11.Request) -> Request:
        if self._link is not None and not self._server.allows(self._link.peer):
            raise _TOO_MANY
        if asked.http_version not in _VERSIONS:
            raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "speak HTTP/1.1")
        if asked.method not in _METHODS:
            reason = (
                f"the method {asked.method.decode('ascii', 'replace')} is not allowed; everything here is read by GET"
            )
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, reason, (("Allow", ", ".join(map(bytes.decode, _METHODS))),))
        host = next((value for name, value in asked.headers if name == b"host"), b"").decode("ascii", "replace")
        if self._server.only_local_names and host and not is_local_name(host):
            # A page on the internet may give its own name the address 127.0.0.1 and have a browser ask us.
            reason = f"this endpoint serves its own machine, and {host!r} is no name of that; see httpBindAddress"
            raise HttpError(HTTPStatus.FORBIDDEN, reason)
        request = parse_target(asked.target.decode("ascii", "replace"))
        authorization = next((value for name, value in asked.headers if name == b"authorization"), b"")
        peer = "" if self._link is None else self._link.peer
        return replace(request, authorization=authorization.decode("ascii", "replace"), address=peer)

    def _tell(self, answer: Answer) -> None:
        """Send an answer; the next request may follow, if there is to be one."""
        if self._ended or self._link is None:
            return
        headers = [
            ("Content-Type", answer.content_type),
            *_HEADERS,
            ("Content-Length", str(len(answer.body))),
            *answer.headers,
        ]
        reason = HTTPStatus(answer.status).phrase.encode()
        response = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        # HEAD gets the headers of GET, with the length of a body that must not follow.
        body = b"" if self._request is not None and self._request.method == b"HEAD" else answer.body
        parts = (response, h11.Data(data=body), h11.EndOfMessage())
        self._link.write(b"".join(self._http.send(part) or b"" for part in parts))
        if self._http.our_state is h11.MUST_CLOSE or self._http.their_state is not h11.DONE:
            self._close_when_sent()
            return
        self._http.start_next_cycle()
        self._request = None
        self._wait(self._server.limits.request_seconds)

    def _refuse_nonsense(self, error: h11.RemoteProtocolError) -> None:
        self._refuse(HttpError(HTTPStatus(error.error_status_hint), f"this is no HTTP request: {error}"))

    def _refuse(self, refused: HttpError) -> None:
        """Say why, as far as that can still be said, and hang up."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._tell(problem(HttpError(refused.status, refused.reason, (*refused.headers, ("Connection", "close")))))
        if not self._ended:
            self._close_when_sent()

    def _close_when_sent(self) -> None:
        """What comes from now on is not looked at; who does not take the answer is cut off in the end."""
        self._ended = True
        self._wait(self._server.limits.request_seconds)
        if self._link is not None:
            self._link.close()

    def end(self) -> None:
        """Cut the connection."""
        self._ended = True
        self._stop_waiting()
        if self._link is not None:
            self._link.abort()

    # Time.

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self._server.clock.call_later(seconds, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        begun = self._request is not None or bool(self._http.trailing_data[0])
        if self._ended or not begun:
            self.end()
        elif self._http.their_state is h11.DONE:
            self._refuse(HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "the answer took too long; try again later"))
        else:
            self._refuse(HttpError(HTTPStatus.REQUEST_TIMEOUT, "the request did not come to its end in time"))


def is_local_name(host: str) -> bool:
    """Whether the value of a Host header is a numeric address or ``localhost``, with or without a port."""
    name = host_without_port(host)
    return numeric(name) is not None or name.lower() == "localhost"


def _size(piece: Any) -> int:
    """Bytes of a piece of a body. ``Any``: h11 promises ``bytes`` and gives ``bytearray``, which mypyc refuses."""
    return len(piece.data)
