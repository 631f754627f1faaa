"""One call, from its headers to its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final, Protocol, cast

from google.protobuf.message import DecodeError, Message

from gantrymq.grpc.http2.hpack import encode
from gantrymq.grpc.http2.sending import Sending
from gantrymq.grpc.http2.stream import Stream
from gantrymq.grpc.serving.framing import ENCODINGS, MessageReader, framed
from gantrymq.grpc.serving.methods import Method
from gantrymq.grpc.serving.statuses import CallFailed, GrpcStatus, escaped
from gantrymq.runtime.clock import Clock

UNREAD_MAX: Final = 1_000
"""Messages of a stream of requests that wait for its method."""
_BEGIN: Final = (
    (":status", "200"),
    ("content-type", "application/grpc"),
    ("grpc-accept-encoding", ",".join(ENCODINGS)),
)
_HEADERS: Final = encode(_BEGIN)
_TRAILERS_OF_OK: Final = encode((("grpc-status", "0"),))


class Line(Protocol):
    """The connection of a call."""

    peer: str

    @property
    def clock(self) -> Clock: ...

    @property
    def sending(self) -> Sending: ...

    @property
    def writable(self) -> bool:
        """False while the peer reads too little of what was written."""

    def touch(self) -> None:
        """Something is to be written."""

    def reset(self, stream: Stream) -> None:
        """End a stream in the middle of its answer."""

    def over(self, call: Call) -> None:
        """The answer was sent, or nobody waits for it any more."""


class Call:
    """The answer to one request. After ``cancel`` and ``finish`` nothing more is sent."""

    __slots__ = ("_begun", "_drained", "_line", "_reader", "_stream", "deadline", "headers", "is_over", "messages",
                 "method", "peer", "requests", "running", "tick")  # fmt: skip

    def __init__(self, line: Line, stream: Stream, headers: Mapping[str, str], method: Method) -> None:
        self._line = line
        self._stream = stream
        self._reader = MessageReader(headers.get("grpc-encoding", ""))
        self._begun = False
        self._drained: asyncio.Future[None] | None = None
        self.headers = headers
        self.peer = line.peer
        self.method = method
        self.deadline: float | None = None
        """When the client gives up, by the monotonic clock."""
        self.tick: int | None = None
        """Where the deadline is kept."""
        self.messages: list[bytes] = []
        """Requests that came and are not executed yet, of a method that has one."""
        self.requests = Requests() if method.requests_stream else None
        self.running: Any = None
        """What carries it out; has ``cancel``."""
        self.is_over = False

    # What the method asks for.

    @property
    def remaining_s(self) -> float | None:
        return None if self.deadline is None else self.deadline - self._line.clock.monotonic()

    def begin(self) -> None:
        if not self._begun and not self.is_over:
            self._begun = True
            self._line.sending.headers(self._stream, _HEADERS)
            self._line.touch()

    # What comes.

    @property
    def incomplete_bytes(self) -> int:
        """Bytes of requests that wait."""
        return self._reader.size + sum(map(len, self.messages)) + (0 if self.requests is None else self.requests.size)

    def feed(self, data: bytes) -> None:
        """Raises CallFailed."""
        for message in self._reader.feed(data):
            if self.requests is not None:
                self.requests.add(self._parsed(message), len(message))
            elif self.messages:
                raise CallFailed(GrpcStatus.UNIMPLEMENTED, "the method takes one request")
            else:
                self.messages.append(message)

    def _parsed(self, message: bytes) -> Message:
        try:
            return self.method.request.FromString(message)
        except DecodeError as error:
            name = self.method.request.DESCRIPTOR.name
            raise CallFailed(GrpcStatus.INTERNAL, f"the request is not a valid {name}") from error

    # What is sent.

    async def execute(self) -> None:
        """Call the method, and send what it says. Raises CallFailed, and whatever the method raises."""
        method = self.method
        given: Any = self.requests
        if given is None:
            if not self.messages:
                raise CallFailed(GrpcStatus.INTERNAL, "the request is missing")
            message, self.messages = self.messages[0], []
            given = self._parsed(message)
        if not method.answers_stream:
            self._answer(await cast(Any, method.answer(given, self)))
            return
        async with aclosing(cast(Any, method.answer(given, self))) as answers:
            async for answer in answers:
                await self._send(answer)
        self.finish()

    def _answer(self, answer: Message) -> None:
        """The only message, and the end."""
        if self.is_over:
            return
        data = framed(answer.SerializeToString())
        if self._begun:
            self._line.sending.data(self._stream, data)
            self.finish()
            return
        self.is_over = self._begun = True
        self._line.sending.whole(self._stream, _HEADERS, data, _TRAILERS_OF_OK)
        self._line.touch()
        self._line.over(self)

    async def _send(self, answer: Message) -> None:
        """Returns when there is room for the next one, so that a client that does not read gets no more."""
        if self.is_over:
            raise asyncio.CancelledError
        self.begin()
        self._line.sending.data(self._stream, framed(answer.SerializeToString()))
        self._line.touch()
        if self._stream.queue or not self._line.writable:
            self._stream.waits = True
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def drained(self) -> None:
        """There is room."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    @property
    def waits_for_room(self) -> bool:
        return self._drained is not None

    def finish(self, status: GrpcStatus = GrpcStatus.OK, text: str = "") -> None:
        """Send the status, and end."""
        if self.is_over:
            return
        self.is_over = True
        if status is not GrpcStatus.OK and self._stream.queue:
            self._line.reset(self._stream)  # part of a message was sent: nothing can follow it
            self._line.over(self)
            return
        block = _TRAILERS_OF_OK
        if status is not GrpcStatus.OK:
            said = (("grpc-status", str(int(status))), ("grpc-message", escaped(text)))
            block = encode(said if self._begun else (*_BEGIN, *said))
        elif not self._begun:
            self._line.sending.headers(self._stream, _HEADERS)
        self._line.sending.trailers(self._stream, block)
        self._line.touch()
        self._line.over(self)

    def cancel(self) -> None:
        """Nobody waits any more."""
        if not self.is_over:
            self.is_over = True
            self._line.over(self)
        if self.running is not None:
            self.running.cancel()
        if self.requests is not None:
            self.requests.end()


class Requests:
    """The stream of requests of a call."""

    __slots__ = ("_came", "_ended", "_messages", "size")

    def __init__(self) -> None:
        self._messages: deque[tuple[Message, int]] = deque()
        self._came: asyncio.Future[None] | None = None
        self._ended = False
        self.size = 0

    def add(self, message: Message, size: int) -> None:
        """Raises CallFailed when too many wait already."""
        if len(self._messages) >= UNREAD_MAX:
            raise CallFailed(GrpcStatus.RESOURCE_EXHAUSTED, f"more than {UNREAD_MAX} messages wait on this stream")
        self._messages.append((message, size))
        self.size += size
        self._wake()

    def end(self) -> None:
        """The client sends no more."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    def __aiter__(self) -> Requests:
        return self

    async def __anext__(self) -> Message:
        while not self._messages:
            if self._ended:
                raise StopAsyncIteration
            self._came = asyncio.get_running_loop().create_future()
            await self._came
        message, size = self._messages.popleft()
        self.size -= size
        return message
