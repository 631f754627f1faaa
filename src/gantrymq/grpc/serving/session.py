"""One connection of a client, from accept to close."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, Protocol

from gantrymq.grpc.http2.codes import ConnectionFailed, ErrorCode
from gantrymq.grpc.http2.connection import Http2Connection
from gantrymq.grpc.http2.hpack import Header, encode
from gantrymq.grpc.http2.sending import Sending
from gantrymq.grpc.http2.stream import Stream
from gantrymq.grpc.serving.call import Call
from gantrymq.grpc.serving.methods import Method
from gantrymq.grpc.serving.opening import call_of
from gantrymq.grpc.serving.statuses import CallFailed, escaped
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.limits.bytes_in_flight import FREE_BYTES
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.peer_watch import PeerWatch
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.network import Link
from gantrymq.runtime.turns import Turns

log = logging.getLogger("gantrymq.grpc")

ASK_AFTER_SECONDS: Final = 120.0
"""A peer that is silent for so long is asked whether it is there. Some clients ping every 300 s, some never."""
SILENT_SECONDS: Final = 240.0
"""One that has not answered by then is gone."""
_NOT_HTTP2: Final = (
    b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade, close\r\nContent-Type: text/plain\r\n\r\n"
    b"This port is for clients of RocketMQ 5, which speak gRPC (HTTP/2).\n"
)
_LETTERS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Host(Protocol):
    """The server of a session."""

    @property
    def clock(self) -> Clock: ...

    @property
    def turns(self) -> Turns: ...

    @property
    def serves(self) -> bool:
        """False until the methods are known."""

    @property
    def client_limits(self) -> ClientLimits: ...

    def method(self, path: str) -> Method | None:
        """Which method a path names; None: there is no such method."""

    def began(self, call: Call) -> None:
        """A call has come: look at its deadline."""

    def execute(self, call: Call) -> None:
        """Its request is there."""

    def over(self, call: Call) -> None:
        """It has ended."""

    def forget(self, session: Session) -> None:
        """The connection ended."""


class Session:
    """A Receiver of the network, and the Peer of its HTTP/2 connection."""

    def __init__(self, host: Host) -> None:
        now = host.clock.monotonic()
        self._host = host
        self._http = Http2Connection(self, now)
        self._link: Link | None = None
        self._watch = PeerWatch(now)
        self._ready: deque[Call] = deque()
        """Calls whose requests are there, and that wait for their turn."""
        self._scheduled = self._receiving = self._deferred = self._counted = self._asked = False
        self._spoke = False
        self._early = b""
        """What came before the server serves."""
        self._closing = False
        self._written = 0
        self.calls: dict[Call, None] = {}
        self.peer = ""
        self.writable = True

    @property
    def clock(self) -> Clock:
        return self._host.clock

    @property
    def sending(self) -> Sending:
        return self._http.sending

    # What the network calls.

    def connected(self, link: Link) -> None:
        self._link, self.peer = link, link.peer

    def received(self, data: bytes) -> None:
        if self._link is None or self._closing:
            return
        if not self._host.serves:
            self._early += data
            self._link.pause_reading()
            return
        now = self._host.clock.monotonic()
        self._watch.heard_at = now
        self._asked = False
        self._receiving = True
        try:
            self._http.receive(data, now)
        except ConnectionFailed as failed:
            self._fail(failed, data)
            return
        finally:
            self._receiving = False
        self._spoke = True
        if self._ready and not self._deferred:
            if self._host.turns.must_wait(now):
                self._defer()
            else:
                self._execute()
        self._write_out()
        if len(data) > FREE_BYTES // 2 or self._counted:
            self._count_bytes()

    def start(self) -> None:
        """The server serves from now on."""
        early, self._early = self._early, b""
        if early and self._link is not None:
            self._link.resume_reading()
            self.received(early)

    def _fail(self, failed: ConnectionFailed, data: bytes) -> None:
        link = self._link
        if link is None:
            return
        log.warning("closing %s: %s", self.peer, failed)
        self._closing = True
        if self._http.greeted:
            self._write_out()
        elif not self._spoke and data[0] in _LETTERS:  # a browser, or a tool for HTTP
            link.write(_NOT_HTTP2)
        link.close()

    def lost(self, reason: str) -> None:
        self._link = None
        self._ready.clear()
        for call in list(self.calls):
            call.cancel()
        if self._counted:
            self._counted = False
            self._host.client_limits.bytes.note(self, 0)
        self._host.forget(self)

    def pause_writing(self) -> None:
        self.writable = False
        if self._link is not None:
            self._link.pause_reading()

    def resume_writing(self) -> None:
        self.writable = True
        if self._link is None:
            return
        for call in list(self.calls):
            if call.waits_for_room:
                call.drained()
        self._read_on()

    def _read_on(self) -> None:
        if self._link is not None and self.writable and not self._deferred:
            self._link.resume_reading()

    # Whose turn it is.

    def _execute(self) -> None:
        turns, monotonic = self._host.turns, self._host.clock.monotonic
        ready, now = self._ready, 0.0
        while ready:
            self._host.execute(ready.popleft())
            now = monotonic()
            if ready and now >= turns.ends:
                self._defer()
                break
        turns.executed(now)

    def _defer(self) -> None:
        """The rest has its turn later, and nothing more is read until then."""
        self._deferred = True
        if self._link is not None:
            self._link.pause_reading()
        self._host.turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._deferred = False
        if self._ready:
            self._execute()
        self._write_out()
        self._read_on()

    # What the HTTP/2 connection calls.

    def began(self, stream: Stream, headers: list[Header]) -> None:
        try:
            call = stream.call = call_of(self, stream, headers, self._host.method)
        except CallFailed as failed:
            self._refuse(stream, failed)
            return
        self.calls[call] = None
        self._host.began(call)
        if call.requests is not None:
            self._ready.append(call)

    def _refuse(self, stream: Stream, failed: CallFailed) -> None:
        self.sending.trailers(
            stream,
            encode(
                (
                    (":status", "200"), ("content-type", "application/grpc"),
                    ("grpc-status", str(int(failed.status))), ("grpc-message", escaped(str(failed))),
                )
            ),
        )  # fmt: skip

    def came(self, stream: Stream, data: bytes) -> None:
        call: Call | None = stream.call
        if call is None or call.is_over:
            return
        try:
            call.feed(data)
        except CallFailed as failed:
            call.finish(failed.status, str(failed))
            call.cancel()

    def ended(self, stream: Stream) -> None:
        call: Call | None = stream.call
        if call is None or call.is_over:
            return
        self._watch.asked = True
        if call.requests is not None:
            call.requests.end()
        else:
            self._ready.append(call)

    def given_up(self, stream: Stream) -> None:
        if stream.call is not None:
            stream.call.cancel()

    def drained(self, stream: Stream) -> None:
        if stream.call is not None and self.writable:
            stream.call.drained()

    # What calls say.

    def touch(self) -> None:
        if not (self._scheduled or self._receiving):
            self._scheduled = True
            self._host.clock.call_soon(self._flush)

    def reset(self, stream: Stream) -> None:
        self._http.reset(stream, ErrorCode.CANCEL)
        self.touch()

    def over(self, call: Call) -> None:
        self.calls.pop(call, None)
        self._host.over(call)

    def _flush(self) -> None:
        self._scheduled = False
        self._write_out()

    def _write_out(self) -> None:
        if self.sending.out and self._link is not None:
            data = self.sending.take()
            self._written += len(data)
            self._link.write(data)
            if len(data) > FREE_BYTES // 2 or self._counted:
                self._count_bytes()

    # Limits.

    def look(self, now: float) -> None:
        """End a connection that is used by nobody any more. Called every few seconds."""
        self._count_bytes()
        limits, watch = self._host.client_limits, self._watch
        slow, first = limits.limits.slow_reader_seconds, limits.limits.first_request_seconds
        if self._closing:
            self.cut_off()
        elif self._unread() and self._is_stuck(now, slow):
            text = f"cut off: it has read none of the {self._unread()} bytes that wait for it for {slow:g} s"
            limits.refusals.note(Reason.SLOW_READER, self.peer, text)
            self.cut_off()
        elif watch.never_asked(now, first) and not self.calls:
            text = f"cut off: no whole request came within {first:g} s"
            limits.refusals.note(Reason.FIRST_REQUEST, self.peer, text)
            self.cut_off()
        elif now - watch.heard_at > SILENT_SECONDS:
            log.info("closing %s: silent for %d s", self.peer, SILENT_SECONDS)
            self.cut_off()
        elif now - watch.heard_at > ASK_AFTER_SECONDS and not self._asked and self._http.greeted:
            self._asked = True
            self._http.ping()
            self._write_out()

    def _is_stuck(self, now: float, seconds: float) -> bool:
        """Whether the peer has taken nothing for so long. What it has taken counts downwards, as the watch wants it."""
        unsent = 0 if self._link is None else self._link.unsent
        return self._watch.is_stuck(now, unsent - self._written, seconds)

    def _unread(self) -> int:
        """Bytes that wait until the peer reads, or gives room."""
        return self.sending.queued + (0 if self._link is None else self._link.unsent)

    def _count_bytes(self) -> None:
        if self._link is None or self._closing:
            return
        size = self.bytes_in_flight()
        if size > FREE_BYTES or self._counted:
            self._counted = size > FREE_BYTES
            self._host.client_limits.bytes.note(self, size)

    def bytes_in_flight(self) -> int:
        """Bytes of requests that are not executed yet, and of answers that were not read."""
        return self._http.incomplete_bytes + sum(call.incomplete_bytes for call in self.calls) + self._unread()

    # The end.

    def finish(self) -> None:
        """Take no more calls."""
        if self._link is not None and self._http.greeted:
            self._http.close(ErrorCode.NO_ERROR, "the server stops")
            self._write_out()

    def close(self) -> None:
        """End the connection when its peer has read what was sent."""
        self._closing = True
        if self._link is not None:
            self._write_out()
            self._link.close()

    def cut_off(self) -> None:
        """End the connection at once, and drop what is unsent."""
        self._closing = True
        if self._link is not None:
            self._link.abort()
