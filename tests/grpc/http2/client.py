"""The other side of a connection: frames as a client sends them, with headers from another library."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import hpack

from gantrymq.grpc.http2 import frames
from gantrymq.grpc.http2.codes import PREFACE, Flag, Frame, Setting
from gantrymq.grpc.http2.connection import Http2Connection
from gantrymq.grpc.http2.hpack import Header
from gantrymq.grpc.http2.stream import Stream

CALL: Header = (":path", "/service/method")
HEADERS = ((":method", "POST"), (":scheme", "http"), CALL, ("content-type", "application/grpc"), ("te", "trailers"))


@dataclass(frozen=True)
class Sent:
    """A frame of the server."""

    kind: int
    flags: int
    stream: int
    payload: bytes


@dataclass
class Heard:
    """A ``Peer`` that keeps what it hears."""

    began_on: list[int] = field(default_factory=list)
    headers: dict[int, list[Header]] = field(default_factory=dict)
    data: dict[int, bytes] = field(default_factory=dict)
    ended_on: list[int] = field(default_factory=list)
    given_up_on: list[int] = field(default_factory=list)
    drained_on: list[int] = field(default_factory=list)

    def began(self, stream: Stream, headers: list[Header]) -> None:
        self.began_on.append(stream.id)
        self.headers[stream.id] = headers
        self.data[stream.id] = b""

    def came(self, stream: Stream, data: bytes) -> None:
        self.data[stream.id] += data

    def ended(self, stream: Stream) -> None:
        self.ended_on.append(stream.id)

    def given_up(self, stream: Stream) -> None:
        assert stream.id not in self.given_up_on, "told twice"
        self.given_up_on.append(stream.id)

    def drained(self, stream: Stream) -> None:
        self.drained_on.append(stream.id)


class Pair:
    """A connection of the server, and what a client does with it."""

    def __init__(self, *, greeted: bool = True) -> None:
        self.heard = Heard()
        self.server = Http2Connection(self.heard, 0.0)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.now = 0.0
        if greeted:
            self.say(PREFACE + frames.settings({}))
            self.answers()

    def say(self, data: bytes) -> None:
        self.server.receive(data, self.now)

    def block(self, headers: Iterable[Header] = HEADERS) -> bytes:
        return bytes(self.encoder.encode(list(headers)))

    def open(self, stream: int, *, end: bool = False, headers: Iterable[Header] = HEADERS) -> Stream:
        flags = Flag.END_HEADERS | (Flag.END_STREAM if end else 0)
        self.say(frames.frame(Frame.HEADERS, flags, stream, self.block(headers)))
        return self.server.streams[stream]

    def data(self, stream: int, data: bytes, *, end: bool = False) -> None:
        self.say(frames.frame(Frame.DATA, Flag.END_STREAM if end else 0, stream, data))

    def settings(self, name: Setting, value: int) -> None:
        self.say(frames.settings({name: value}))

    def answers(self) -> list[Sent]:
        return list(cut(self.server.sending.take()))

    def of(self, kind: Frame) -> list[Sent]:
        """The frames of one type that were sent since the last look."""
        return [one for one in self.answers() if one.kind == kind]


def cut(data: bytes) -> Iterable[Sent]:
    at = 0
    while at < len(data):
        high, low, kind, flags, stream = frames.HEAD.unpack_from(data, at)
        at += frames.HEAD.size
        length = high << 16 | low
        yield Sent(kind, flags, stream, data[at : at + length])
        at += length
