"""What a server does with clients that take too much, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvloop

from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, decode_command, encode_request, encode_response
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.remoting.server import Handler, RemotingServer
from gantrymq.remoting.session import Session
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.limits.refusals import Reason
from gantrymq.runtime.limits.values import Limits
from gantrymq.runtime.network import HIGH_WATER_BYTES, TcpNetwork
from gantrymq.testing.local.clock import VirtualClock

ASK, LARGE, TELL = RequestCode.HEART_BEAT, RequestCode.QUERY_MESSAGE, RequestCode.END_TRANSACTION
ANSWER_BYTES = 1 << 20
MIB = 1 << 20


class Server:
    """A server whose time passes when a test says so, unless ``clock`` is another one."""

    def __init__(self, limits: Limits, clock: Clock | None = None) -> None:
        self.time = VirtualClock(0, lambda: None)
        clock = clock or self.time
        self.executed: list[Command] = []
        self.ended: list[Session] = []
        handlers: dict[int, Handler] = {ASK: self._answer, LARGE: self._answer_much, TELL: self._told}
        self.client_limits = ClientLimits(clock, limits)
        self.remoting = RemotingServer(
            TcpNetwork(), clock, handlers, closed=self.ended.append, client_limits=self.client_limits
        )

    def _answer(self, session: Session, command: Command) -> bytes:
        self.executed.append(command)
        return encode_response(command, 0)

    def _answer_much(self, session: Session, command: Command) -> bytes:
        self.executed.append(command)
        return encode_response(command, 0, body=bytes(ANSWER_BYTES))

    def _told(self, session: Session, command: Command) -> None:
        self.executed.append(command)

    def unsent(self) -> int:
        """Bytes that wait for all peers."""
        return sum(session._link.unsent for session in self.remoting.sessions if session._link is not None)

    async def after(self, seconds: float) -> None:
        """Let time pass, ten seconds after ten seconds, so that the server looks at its sessions."""
        start = self.time.monotonic()
        while (now := self.time.monotonic()) < start + seconds:
            self.time.move_to(min(now + 10, start + seconds))
            for _ in range(3):
                await asyncio.sleep(0)


class Client:
    """A socket, and what was read from it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setblocking(False)
        self._frames = FrameSplitter()
        self.got: list[Command] = []

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def push(self, data: bytes) -> int:
        """Send what the kernel takes now."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def read(self) -> bool:
        """Read once; False at the end of the connection."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, 1 << 18)
        except ConnectionError:
            return False
        self.got += [decode_command(*parts) for parts in self._frames.feed(data)]
        return bool(data)

    async def until(self, count: int) -> list[Command]:
        """The answers, when there are so many."""
        while len(self.got) < count:
            assert await self.read(), f"the connection ended after {len(self.got)} of {count} answers"
        return self.got

    async def ended(self) -> None:
        while await self.read():
            pass

    def close(self) -> None:
        self._socket.close()


@contextlib.asynccontextmanager
async def serving(clock: Clock | None = None, **limits: float) -> AsyncIterator[tuple[Server, Callable[[], Client]]]:
    server = Server(Limits(**limits), clock)  # type: ignore[arg-type]
    _, port = split_address(await server.remoting.start("127.0.0.1", 0))
    clients: list[Client] = []

    def connect() -> Client:
        clients.append(Client(port))
        return clients[-1]

    try:
        yield server, connect
    finally:
        for client in clients:
            client.close()
        await server.remoting.close()


Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a test on both kinds of event loops: transports differ in when they pause and resume."""

    def bounded(test: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await test()

        request.param(limited())

    return bounded


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def asks(count: int, code: int = ASK, *, one_way: bool = False) -> bytes:
    return b"".join(encode_request(code, number + 1, one_way=one_way) for number in range(count))


def test_a_refused_connection_is_closed_and_makes_room_for_nobody(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    async def test() -> None:
        async with serving(SystemClock(), connections_of_client=2) as (server, connect):
            first, second = connect(), connect()
            for client in (first, second):
                await client.send(asks(1))
                await client.until(1)
            for _ in range(5):
                await connect().ended()
            assert (server.client_limits.connections.count, server.client_limits.refused(Reason.CONNECTIONS)) == (2, 5)
            assert len(server.remoting.sessions) == 2
            first.close()
            await until(lambda: server.client_limits.connections.count == 1)
            third = connect()
            await third.send(asks(1))
            await third.until(1)

    run(test)


def test_too_many_requests_are_refused_and_one_way_requests_are_executed(run: Run) -> None:
    async def test() -> None:
        async with serving(requests_per_second=50) as (server, connect):
            client = connect()
            await client.send(asks(80) + asks(30, TELL, one_way=True))
            answers = await client.until(80)
            codes = [answer.code for answer in answers]
            assert codes == [0] * 50 + [ResponseCode.SYSTEM_BUSY] * 30
            assert "more than 50 requests in a second from 127.0.0.1" in (answers[-1].remark or "")
            await until(lambda: len(server.executed) == 80)
            assert server.client_limits.refused(Reason.REQUESTS) == 30
            # It owes thirty requests, so nothing is read until they are paid; another connection is the same client.
            await client.send(asks(1))
            other = connect()
            await other.send(asks(1))
            assert (await other.until(1))[0].code == ResponseCode.SYSTEM_BUSY
            await server.after(0.5)
            assert len(client.got) == 80
            await server.after(1.0)
            assert (await client.until(81))[-1].code == 0

    run(test)


def test_a_limit_that_is_set_later_counts_for_open_connections(run: Run) -> None:
    async def test() -> None:
        async with serving() as (server, connect):
            client = connect()
            await client.send(asks(500))
            assert all(answer.code == 0 for answer in await client.until(500))
            server.client_limits.change(Limits(requests_per_second=5))
            await client.send(asks(10))
            assert [answer.code for answer in (await client.until(510))[500:]].count(0) < 10

    run(test)


def test_what_a_peer_asks_for_is_not_made_before_it_reads(run: Run) -> None:
    """Ten thousand requests in few reads, whose answers have ten gigabytes."""

    async def test() -> None:
        async with serving() as (server, connect):
            greedy, other = connect(), connect()
            wanted = asks(10_000, LARGE)
            sent = 0
            for _ in range(50):
                sent += greedy.push(wanted[sent:])
                await asyncio.sleep(0.002)
            await until(lambda: server.unsent() > HIGH_WATER_BYTES)
            assert server.unsent() <= HIGH_WATER_BYTES + ANSWER_BYTES + 1000
            await other.send(asks(1))
            await other.until(1)
            made = len(server.executed)
            assert made < 100 and server.client_limits.bytes.total >= server.unsent()
            await greedy.until(made + 20)  # it reads after all, and gets everything in order
            assert [answer.opaque for answer in greedy.got[: made + 20]] == list(range(1, made + 21))

    run(test)


def test_a_peer_that_never_reads_is_cut_off_and_the_log_says_so(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(slow_reader_seconds=60) as (server, connect):
            never, slow, other = connect(), connect(), connect()
            for client in (never, slow):
                await client.send(asks(30, LARGE))
            await until(lambda: server.unsent() > 2 * HIGH_WATER_BYTES)
            for look in range(1, 8):  # a slow one reads a little between two looks
                await other.send(asks(1))
                await slow.until(3 * look)
                await server.after(10)
            await never.ended()
            assert server.client_limits.refused(Reason.SLOW_READER) == 1 and len(server.remoting.sessions) == 2
            await slow.until(30)
            await other.until(7)
            await server.after(10)
            assert server.client_limits.bytes.total == 0

    run(test)
    assert "it has read none of the" in caplog.text and "for 60 s" in caplog.text


def test_a_connection_that_is_to_be_closed_does_not_wait_for_a_peer_that_never_reads(run: Run) -> None:
    async def test() -> None:
        async with serving() as (server, connect):
            client = connect()
            await client.send(asks(12, LARGE))
            await until(lambda: server.unsent() > HIGH_WATER_BYTES / 2)
            server.remoting.sessions[0].close()
            await asyncio.sleep(0)
            assert server.remoting.sessions
            await server.after(20)
            await until(lambda: not server.remoting.sessions)
            assert server.client_limits.connections.count == 0 and server.client_limits.bytes.total == 0

    run(test)


def test_incomplete_requests_do_not_fill_the_memory(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    announced = (16 * MIB).to_bytes(4, "big") + b"\0\0\0\2{}"

    async def test() -> None:
        async with serving(bytes_in_flight_of_client=8 * MIB) as (server, connect):
            clients = [connect() for _ in range(10)]
            for number, client in enumerate(clients):
                with contextlib.suppress(ConnectionError):
                    await client.send(announced + bytes(MIB + number * 1000))
                await until(lambda: server.client_limits.bytes.total <= 8 * MIB)
            await until(lambda: server.client_limits.refused(Reason.BYTES) == 3)
            assert server.client_limits.connections.count == 7
            other = connect()
            await other.send(asks(3))
            await other.until(3)

    run(test)
    assert "raise maxBytesInFlight" in caplog.text


def test_a_connection_must_send_a_whole_request_in_time(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(first_request_seconds=60) as (server, connect):
            silent, trickling, good = connect(), connect(), connect()
            await good.send(asks(1))
            await good.until(1)
            await until(lambda: len(server.remoting.sessions) == 3)
            for byte in asks(1)[:7]:
                await trickling.send(bytes([byte]))
                await server.after(10)
            await silent.ended()
            await trickling.ended()
            assert server.client_limits.refused(Reason.FIRST_REQUEST) == 2
            await good.send(asks(1))
            await good.until(2)
            await server.after(140)
            await good.ended()
            assert not server.remoting.sessions and len(server.ended) == 3

    run(test)
    assert "no whole request came within 60 s" in caplog.text


def test_who_asks_for_more_than_the_memory_allows_is_cut_off_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving(bytes_in_flight=2 * MIB) as (server, connect):
            other, greedy = connect(), connect()
            await greedy.send(asks(50, LARGE))
            await greedy.ended()
            await until(lambda: len(server.remoting.sessions) == 0 or server.client_limits.connections.count == 1)
            assert server.client_limits.refused(Reason.BYTES) == 1 and server.client_limits.bytes.total == 0
            assert len(server.executed) < 50
            await other.send(asks(1))
            await other.until(1)

    run(test)
    assert "all clients together have more than" in caplog.text
