"""The limits of one connection, with time and bytes in the hands of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gantrymq.grpc.definition_pb2 import Message
from gantrymq.grpc.http2 import frames
from gantrymq.grpc.http2.codes import PREFACE, ErrorCode, Flag, Frame, Setting
from gantrymq.grpc.http2.hpack import encode
from gantrymq.grpc.serving.framing import framed
from gantrymq.grpc.serving.server import GrpcServer
from gantrymq.grpc.serving.session import ASK_AFTER_SECONDS, SILENT_SECONDS, Session
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.values import Limits
from tests.grpc.http2.client import Sent, cut
from tests.grpc.serving.service import NAME, Service
from tests.support.connections import FakeLink
from tests.support.sim_clock import SimClock


class Wire(FakeLink):
    """A link that may be written to when it is closed; ``paused``: nothing is read from it."""

    paused = False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Client:
    def __init__(self, server: GrpcServer) -> None:
        self.link = Wire()
        self.session: Session = server._accept()
        self.session.connected(self.link)

    def greet(self, **settings: int) -> None:
        self.say(PREFACE + frames.settings({Setting[name]: value for name, value in settings.items()}))

    def say(self, data: bytes) -> None:
        self.session.received(data)

    def call(self, stream: int, method: str, body: bytes = b"x", topic: str = "", *headers: tuple[str, str]) -> None:
        message = Message(body=body)
        message.topic.name = topic
        block = encode([
            (":method", "POST"), (":path", f"/{NAME}/{method}"), ("content-type", "application/grpc"), *headers,
        ])  # fmt: skip
        self.say(
            frames.frame(Frame.HEADERS, Flag.END_HEADERS, stream, block)
            + frames.frame(Frame.DATA, Flag.END_STREAM, stream, framed(message.SerializeToString()))
        )

    def got(self) -> list[Sent]:
        data, self.link.written = self.link.written, b""
        return list(cut(data))


def story(work: Callable[[Service, GrpcServer, SimClock], Awaitable[None]], **limits: Any) -> None:
    async def play() -> None:
        clock, service = SimClock(), Service()
        server = GrpcServer(None, clock, ClientLimits(clock, Limits(**limits)))  # type: ignore[arg-type]
        server.serve({NAME: service.methods()})
        async with asyncio.timeout(30):
            await work(service, server, clock)

    asyncio.run(play())


async def looks(server: GrpcServer, clock: SimClock, seconds: float) -> None:
    for _ in range(int(seconds)):
        await clock.advance(1)
        for session in server.sessions:
            session.look(clock.monotonic())


def test_an_answer_leaves_in_one_write_with_its_end() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        client = Client(server)
        client.greet()
        client.got()
        client.call(1, "Echo", b"hello")
        assert [one.kind for one in client.got()] == [Frame.HEADERS, Frame.DATA, Frame.HEADERS]

    story(work)


def test_a_silent_peer_is_asked_and_then_cut_off_unless_it_answers() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        dead, alive = Client(server), Client(server)
        for client in (dead, alive):
            client.greet()
            client.call(1, "Wait")
            client.got()
        for _ in range(3):
            await looks(server, clock, ASK_AFTER_SECONDS + 2)
            (ping,) = (one for one in alive.got() if one.kind == Frame.PING)
            alive.say(frames.frame(Frame.PING, Flag.ACK, 0, ping.payload))
        assert dead.link.closed
        assert not alive.link.closed
        assert SILENT_SECONDS < 3 * ASK_AFTER_SECONDS

    story(work)


def test_somebody_who_asks_nothing_is_cut_off() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        silent, half, asked = Client(server), Client(server), Client(server)
        half.say(PREFACE[:5])
        asked.greet()
        asked.call(1, "Echo")
        await looks(server, clock, 12)
        assert [client.link.closed for client in (silent, half, asked)] == [True, True, False]
        assert server.client_limits.refused(Reason.FIRST_REQUEST) == 2

    story(work, first_request_seconds=10)


def test_a_peer_that_gives_no_room_is_cut_off_and_one_that_is_slow_is_not() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        stuck, slow = Client(server), Client(server)
        for client in (stuck, slow):
            client.greet(INITIAL_WINDOW_SIZE=10)
            client.call(1, "Several", b"x" * 1000, "3")
        for _ in range(4):
            await looks(server, clock, 15)
            slow.say(frames.more_room(1, 1))
        assert stuck.link.closed
        assert not slow.link.closed
        assert server.client_limits.refused(Reason.SLOW_READER) == 1
        stuck.session.lost("closed")
        await clock.advance(0)
        assert service.ended == [b"x" * 1000]

    story(work, slow_reader_seconds=20)


def test_what_is_not_read_and_what_is_not_whole_is_counted_with_all_other_doors() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        reader, filler = Client(server), Client(server)
        for client in (reader, filler):
            client.greet(INITIAL_WINDOW_SIZE=0)
        reader.call(1, "Several", b"x" * 1000, "1")
        filler.say(frames.frame(Frame.HEADERS, Flag.END_HEADERS, 1, encode([
            (":method", "POST"), (":path", f"/{NAME}/Echo"), ("content-type", "application/grpc"),
        ])))  # fmt: skip
        filler.say(frames.frame(Frame.DATA, 0, 1, b"\0\0\x7f\xff\xff"))
        for _ in range(40):
            if filler.link.closed:
                break
            filler.say(frames.frame(Frame.DATA, 0, 1, b"y" * 16_384) * 4)
        assert filler.link.closed
        assert server.client_limits.refused(Reason.BYTES) == 1
        assert not reader.link.closed
        filler.session.lost("closed")
        assert server.client_limits.bytes.total == 0

    story(work, bytes_in_flight_of_client=1_000_000)


def test_nothing_more_is_read_while_the_socket_is_full() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        client = Client(server)
        client.greet(INITIAL_WINDOW_SIZE=1 << 30)
        client.say(frames.more_room(0, 1 << 30))
        client.session.pause_writing()
        assert client.link.paused
        client.call(1, "Several", b"x", "5")
        await clock.advance(0)
        messages = [one for one in client.got() if one.kind == Frame.DATA]
        assert len(messages) == 1, "the second one waits"
        client.session.resume_writing()
        await clock.advance(0)
        assert not client.link.paused
        assert len([one for one in client.got() if one.kind == Frame.DATA]) == 4

    story(work)


def test_a_deadline_ends_a_call_in_the_middle_of_its_answer() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        client = Client(server)
        client.greet(INITIAL_WINDOW_SIZE=10)
        client.call(1, "Several", b"x" * 1000, "3", ("grpc-timeout", "2S"))
        client.got()
        await clock.advance(3)
        (reset,) = client.got()
        assert (reset.kind, frames.number(reset.payload)) == (Frame.RST_STREAM, ErrorCode.CANCEL)
        assert service.ended == [b"x" * 1000]
        assert client.session.calls == {}

    story(work)


def test_a_lost_connection_ends_its_calls() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        client = Client(server)
        client.greet()
        client.call(1, "Wait", b"lost")
        client.session.lost("reset")
        await clock.advance(0)
        assert service.ended == [b"lost"]
        assert (server.sessions, server._calls) == ([], 0)

    story(work)


def test_much_at_once_is_shared_out_in_turns() -> None:
    async def work(service: Service, server: GrpcServer, clock: SimClock) -> None:
        first, second = Client(server), Client(server)
        for client in (first, second):
            client.greet()
            client.got()
        server.turns.wait(lambda: None)  # somebody waits already, so whoever comes waits behind it
        first.call(1, "Echo")
        assert first.got() == []
        assert first.link.paused
        await clock.advance(0)
        assert [one.kind for one in first.got()] == [Frame.HEADERS, Frame.DATA, Frame.HEADERS]
        assert not first.link.paused

    story(work)
