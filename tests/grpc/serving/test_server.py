"""A client of another maker (grpcio), with its odd behaviours, on a real socket."""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest

import grpc
from gantrymq.grpc.definition_pb2 import Message
from gantrymq.grpc.serving.server import GrpcServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.network import TcpNetwork
from tests.grpc.serving.service import SECONDS, Caller, Service, serving, story, until

BIG = bytes(range(256)) * 4 * 4096  # 4 MiB
NO_LIMIT = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


async def status_of(call: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call  # type: ignore[misc]
    return failed.value.code(), failed.value.details() or ""


def test_a_call_is_answered_and_its_method_knows_who_asks_and_how_long() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        answer = await caller.one("Echo", b"hello", metadata=(("x-one", "1"), ("x-two", "a"), ("x-two", "b")))
        assert answer.body == b"hello"
        (context,) = service.contexts
        assert context.headers["x-one"] == "1"
        assert context.headers["x-two"].replace(" ", "") == "a,b"
        assert context.peer.startswith("127.0.0.1:")
        assert context.remaining_s is not None
        assert SECONDS - 20 < context.remaining_s <= SECONDS
        await caller.one("Echo", timeout=None)
        assert service.contexts[1].remaining_s is None

    story(work)


def test_what_cannot_be_answered_has_a_status_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        code, text = await status_of(caller.one("Nothing"))
        assert (code, text) == (grpc.StatusCode.UNIMPLEMENTED, "the method /test.Service/Nothing is not there")
        code, text = await status_of(caller.one("Fail"))
        assert code == grpc.StatusCode.INTERNAL
        assert "its log says why" in text
        assert "ZeroDivisionError" in caplog.text
        method = caller.channel.unary_unary("/test.Service/Echo")
        code, text = await status_of(method(b"\xff\xff", timeout=SECONDS))
        assert (code, text) == (grpc.StatusCode.INTERNAL, "the request is not a valid Message")
        many = caller.channel.stream_unary("/test.Service/Echo", Message.SerializeToString, Message.FromString)
        code, text = await status_of(many(iter([Message(), Message()]), timeout=SECONDS))
        assert (code, text) == (grpc.StatusCode.UNIMPLEMENTED, "the method takes one request")
        code, text = await status_of(many(iter([]), timeout=SECONDS))
        assert (code, text) == (grpc.StatusCode.INTERNAL, "the request is missing")
        assert (await caller.one("Echo", b"still there")).body == b"still there"

    story(work)


def test_large_messages_go_both_ways_and_many_at_a_time() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        answers = await asyncio.gather(*(caller.one("Echo", BIG) for _ in range(6)), *(
            caller.one("Echo", str(number).encode()) for number in range(300)
        ))  # fmt: skip
        assert [answer.body for answer in answers[:6]] == [BIG] * 6
        assert [answer.body for answer in answers[6:]] == [str(number).encode() for number in range(300)]
        got = [answer.body async for answer in caller.several(8, BIG)]
        assert got == [BIG] * 8

    story(work, NO_LIMIT)


def test_a_compressed_request_is_read() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        for way in (grpc.Compression.Gzip, grpc.Compression.NoCompression):
            assert (await caller.one("Echo", BIG, compression=way)).body == BIG
        code, text = await status_of(caller.one("Echo", BIG, compression=grpc.Compression.Deflate))
        assert code == grpc.StatusCode.UNIMPLEMENTED
        assert "gzip" in text

    story(work, NO_LIMIT)


def test_a_call_that_its_client_gives_up_is_ended_and_so_is_one_whose_deadline_is_over() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        given_up = caller.one("Wait", b"given up")
        late = caller.one("Wait", b"late", timeout=0.5)
        await until(lambda: len(service.began) == 2)
        given_up.cancel()
        assert (await status_of(late))[0] == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: sorted(service.ended) == [b"given up", b"late"])
        await until(lambda: not any(session.calls for session in server.sessions))
        assert (await caller.one("Echo")).body == b"x"

    story(work)


def test_more_calls_than_a_connection_may_have_are_all_answered_in_the_end() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        calls = [asyncio.ensure_future(caller.one("Wait", str(number).encode())) for number in range(1_500)]
        await until(lambda: len(service.began) == 1_000)
        service.go_on.set()
        answers = await asyncio.gather(*calls)
        assert [answer.body for answer in answers] == [str(number).encode() for number in range(1_500)]

    story(work)


def test_a_client_that_reads_nothing_gets_no_more_and_ends_its_stream_alone() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        unread = caller.several(1_000, BIG[:1_000_000])
        await unread.read()
        await until(lambda: bool(server.sessions[0]._unread()))
        assert (await caller.one("Echo", b"beside it")).body == b"beside it"
        assert server.sessions[0].bytes_in_flight() < 40_000_000
        unread.cancel()
        await until(lambda: service.ended == [BIG[:1_000_000]])
        await until(lambda: not server.sessions[0].bytes_in_flight())

    story(work, NO_LIMIT)


def test_both_sides_talk_until_the_client_has_said_all() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        talk = caller.talk()
        await talk.initial_metadata()  # they come before the first word
        for body in (b"1", b"2"):
            await talk.write(Message(body=body))
            assert (await talk.read()).body == body
        await talk.done_writing()
        assert (await talk.read()).body == b"bye"
        assert await talk.read() is grpc.aio.EOF
        assert await talk.code() == grpc.StatusCode.OK

    story(work)


def test_a_client_may_ping_as_often_as_it_wants() -> None:
    often = (
        ("grpc.keepalive_time_ms", 50), ("grpc.keepalive_timeout_ms", 20_000), ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.min_time_between_pings_ms", 50),
    )  # fmt: skip

    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        talk = caller.talk()
        await talk.initial_metadata()
        await asyncio.sleep(1)
        await talk.write(Message(body=b"there"))
        assert (await talk.read()).body == b"there"
        assert len(server.sessions) == 1

    story(work, often)


def test_a_server_that_stops_lets_calls_end_and_takes_no_more() -> None:
    async def work(service: Service, server: GrpcServer, caller: Caller) -> None:
        waiting = asyncio.ensure_future(caller.one("Wait", b"under way"))
        await until(lambda: bool(service.began))
        closing = asyncio.ensure_future(server.close(30))
        await until(lambda: server._idle is not None)
        assert (await status_of(caller.one("Echo")))[0] == grpc.StatusCode.UNAVAILABLE
        service.go_on.set()
        assert (await waiting).body == b"under way"
        await closing
        await server.close(0)

    story(work)


def test_nothing_is_answered_before_the_methods_are_there() -> None:
    async def play() -> None:
        clock, service = SystemClock(), Service()
        server = GrpcServer(TcpNetwork(), clock, ClientLimits(clock, Limits()))
        async with asyncio.timeout(60), grpc.aio.insecure_channel(await server.listen("127.0.0.1", 0)) as channel:
            early = asyncio.ensure_future(Caller(channel).one("Echo", wait_for_ready=True))
            await until(lambda: bool(server.sessions and server.sessions[0]._early))
            server.serve({"test.Service": service.methods()})
            assert (await early).body == b"x"
            await server.close(0)

    asyncio.run(play())


def test_somebody_who_speaks_http_1_is_told_what_this_port_is_for() -> None:
    async def play() -> None:
        async with asyncio.timeout(60), serving(Service()) as (_, address):
            for said, wanted in ((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"426"), (b'\0\0\0\x10{"code":1}', b"")):
                reader, writer = await asyncio.open_connection(*address.split(":"))
                writer.write(said)
                assert wanted in await reader.read()
                writer.close()

    asyncio.run(play())
