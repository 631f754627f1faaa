"""Server and client over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gantrymq.errors import Closed, RequestRejected, TimedOut, Unreachable
from gantrymq.protocol.command import Command, encode_request, encode_response
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from gantrymq.testing.local.clock import VirtualClock

ECHO, REFUSE, BREAK, SILENT = 1, 2, 3, 4


def echo(session: Session, command: Command) -> bytes:
    return encode_response(command, 0, body=command.body)


def refuse(session: Session, command: Command) -> bytes:
    raise RequestRejected(13, "do this instead")


def breaks(session: Session, command: Command) -> bytes:
    raise KeyError("defect")


def silent(session: Session, command: Command) -> None:
    return None


HANDLERS: dict[int, Handler] = {ECHO: echo, REFUSE: refuse, BREAK: breaks, SILENT: silent}


@contextlib.asynccontextmanager
async def server(handlers: dict[int, Handler] = HANDLERS) -> AsyncIterator[tuple[RemotingServer, str]]:
    running = RemotingServer(TcpNetwork(), SystemClock(), handlers)
    address = await running.start("127.0.0.1", 0)
    try:
        yield running, address
    finally:
        await running.close()


def client(**settings: object) -> RemotingClient:
    return RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), **settings)  # type: ignore[arg-type]


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


def test_answers_are_paired_whatever_their_order() -> None:
    async def scenario() -> None:
        async with server() as (_, address):
            peer = client()
            bodies = [str(number).encode() for number in range(300)]
            answers = await asyncio.gather(*(peer.call(address, ECHO, body=b, timeout_ms=5000) for b in bodies))
            assert [answer.body for answer in answers] == bodies
            await peer.close()

    run(scenario)


def test_refusals_defects_and_unknown_codes_are_answered() -> None:
    async def scenario() -> None:
        async with server() as (_, address):
            peer = client()
            refused = await peer.call(address, REFUSE, timeout_ms=5000)
            assert (refused.code, refused.remark) == (13, "do this instead")
            broken = await peer.call(address, BREAK, timeout_ms=5000)
            assert broken.code == 1 and "KeyError" in (broken.remark or "")
            unknown = await peer.call(address, 31999, timeout_ms=5000)
            assert (unknown.code, unknown.remark) == (3, " request type 31999 not supported")
            await peer.close()

    run(scenario)


def test_one_way_requests_are_never_answered() -> None:
    async def scenario() -> None:
        async with server() as (_, address):
            host, port = address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_request(31999, 1, one_way=True) + encode_request(BREAK, 2, one_way=True))
            writer.write(encode_request(ECHO, 3, body=b"x"))
            first = await reader.readexactly(8)
            rest = await reader.readexactly(int.from_bytes(first[:4]) - 4)
            assert b'"opaque":3' in rest
            writer.close()

    run(scenario)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 64,
        b"\x7f\xff\xff\xff\x00\x00\x00\x05",
        b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
        b"\x00\x00\x00\x06\x09\x00\x00\x02{}",
    ],
)
def test_garbage_closes_only_its_own_connection(garbage: bytes) -> None:
    async def scenario() -> None:
        async with server() as (running, address):
            peer = client()
            await peer.call(address, ECHO, timeout_ms=5000)
            host, port = address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(garbage)
            assert await reader.read() == b""
            writer.close()
            assert (await peer.call(address, ECHO, body=b"still here", timeout_ms=5000)).body == b"still here"
            assert len(running.sessions) == 1
            await peer.close()

    run(scenario)


def test_no_answer_times_out_and_no_server_is_unreachable() -> None:
    async def scenario() -> None:
        async with server() as (_, address):
            peer = client()
            with pytest.raises(TimedOut):
                await peer.call(address, SILENT, timeout_ms=100)
            assert (await peer.call(address, ECHO, timeout_ms=5000)).code == 0
        with pytest.raises(Unreachable) as refused:
            await peer.call(address, ECHO, timeout_ms=1000)
        assert address in str(refused.value)
        await peer.close()
        with pytest.raises(Closed):
            await peer.call(address, ECHO, timeout_ms=1000)

    run(scenario)


def test_each_request_times_out_at_its_own_time_and_few_timers_are_set() -> None:
    async def scenario() -> None:
        clock = VirtualClock(0, lambda: None)
        async with server() as (_, address):
            peer = RemotingClient(TcpNetwork(), clock, SystemRng())
            channel = await peer.channel(address)
            assert clock.next_due() is None, "an idle connection sets no timer"

            def ask(timeout_ms: int) -> asyncio.Future[Command]:
                opaque = channel.next_opaque()
                return channel.request(opaque, encode_request(SILENT, opaque), timeout_ms)

            late, soon, between = ask(30_000), ask(1_000), ask(20_000)
            for at, over in ((1.0, soon), (20.0, between), (30.0, late)):
                assert clock.next_due() == at
                clock.move_to(at)
                with pytest.raises(TimedOut):
                    await over
            assert clock.next_due() is None
            await peer.close()

    run(scenario)


def test_a_lost_connection_fails_its_calls_and_the_next_call_reconnects() -> None:
    async def scenario() -> None:
        async with server() as (running, address):
            peer = client()
            call = asyncio.ensure_future(peer.call(address, SILENT, timeout_ms=10_000))
            while not any(session.alive for session in running.sessions):  # it is accepted a moment before it is open
                await asyncio.sleep(0.01)
            running.sessions[0].close()
            with pytest.raises(Unreachable):
                await call
            assert (await peer.call(address, ECHO, timeout_ms=5000)).code == 0
            await peer.close()

    run(scenario)


def test_a_port_in_use_is_named() -> None:
    async def scenario() -> None:
        async with server() as (_, address):
            other = RemotingServer(TcpNetwork(), SystemClock(), HANDLERS)
            with pytest.raises(Unreachable) as taken:
                await other.start("127.0.0.1", int(address.split(":")[1]))
            assert address in str(taken.value) and "another server" in str(taken.value)

    run(scenario)


def test_pushes_reach_the_client() -> None:
    async def scenario() -> None:
        pushed: asyncio.Queue[Command] = asyncio.Queue()

        def push_back(session: Session, command: Command) -> None:
            session.send(encode_request(39, session.next_opaque(), body=b"check", one_way=True))

        async with server({ECHO: push_back}) as (_, address):
            peer = client(requests=lambda _, command: pushed.put_nowait(command))
            await peer.call_oneway(address, ECHO)
            assert (await pushed.get()).body == b"check"
            await peer.close()

    run(scenario)


def test_a_connect_that_nobody_waits_for_any_more_fails_in_silence() -> None:
    """Found by simulation: each such connect left "Task exception was never retrieved" in the log."""
    complaints: list[dict[str, object]] = []

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        async with server() as (running, address):
            await running.close()
        asking = client()
        with pytest.raises(Unreachable):
            await asking.channel(address)
        with pytest.raises(Unreachable, match="within 1 ms"):  # it pauses before it tries again
            await asking.channel(address, timeout_ms=1)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.01)
        gc.collect()

    run(scenario)
    assert complaints == []
