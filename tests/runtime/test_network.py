"""The TCP network."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from gantrymq.demo.ports import free_port
from gantrymq.errors import Unreachable
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.network import Listener, TcpNetwork


class Silent:
    """A receiver that keeps nothing."""

    def connected(self, link: Any) -> None: ...

    def received(self, data: bytes) -> None: ...

    def lost(self, reason: str) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


async def until_free(port: int) -> Listener:
    """Listen there; the kernel takes a moment to let go of a port."""
    deadline = asyncio.get_running_loop().time() + 10
    while True:
        try:
            return await TcpNetwork().listen("127.0.0.1", port, Silent)
        except Unreachable:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.01)


def test_a_connection_to_itself_is_none_and_frees_the_port() -> None:
    async def test() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        loop: Any = asyncio.get_running_loop()
        connect = loop.sock_connect

        async def from_there(sock: socket.socket, place: tuple[str, int]) -> None:
            # What the kernel does by chance: the connecting socket gets the very port that nobody listens on.
            sock.bind(place)
            await connect(sock, place)

        loop.sock_connect = from_there
        with pytest.raises(Unreachable, match="nobody listens there"):
            await TcpNetwork().connect("127.0.0.1", port, Silent(), 5.0)
        listener = await until_free(port)
        await listener.close()

    asyncio.run(test())


class Slow(Silent):
    """A receiver that begins to read late."""

    def __init__(self, expected: int) -> None:
        self.got = bytearray()
        self.expected = expected
        self.whole = asyncio.Event()

    def connected(self, link: Any) -> None:
        link.pause_reading()
        asyncio.get_running_loop().call_later(0.2, link.resume_reading)

    def received(self, data: bytes) -> None:
        self.got += data
        if len(self.got) >= self.expected:
            self.whole.set()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_listen_that_is_cancelled_holds_no_port(run: Any, host: str) -> None:
    """``create_server`` of asyncio waits a turn behind its start, and nobody could close what it had begun."""

    async def work() -> None:
        port = free_port()
        for turn in range(6):
            listening = asyncio.ensure_future(TcpNetwork().listen(host, port, Silent))
            for _ in range(turn):
                await asyncio.sleep(0)
            if not listening.cancel():
                await listening.result().close()
            await asyncio.wait([listening])
            await (await TcpNetwork().listen(host, port, Silent)).close()
            await asyncio.sleep(0)

    run(work())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_what_the_kernel_does_not_take_at_once_follows_in_order(run: Any) -> None:
    """Writes go to the kernel directly until it is full, and then through the transport; nothing may overtake."""
    parts = [random.Random(number).randbytes(300_000 if number % 3 else 7) for number in range(60)]

    async def test() -> None:
        reader = Slow(sum(map(len, parts)))
        listener = await TcpNetwork().listen("127.0.0.1", 0, lambda: reader)
        link = await TcpNetwork().connect("127.0.0.1", int(listener.address.split(":")[1]), Silent(), 5.0)
        for part in parts:
            link.write(part)
            await asyncio.sleep(0)
        link.close()  # sends what is queued first
        async with asyncio.timeout(20):
            await reader.whole.wait()
        assert bytes(reader.got) == b"".join(parts)
        await listener.close()

    run(test())


class Busy(Silent):
    """A receiver that is at work on the first byte while its peer sends more and goes; then it answers, twice."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._link: Any = None
        self.got = bytearray()
        self.ended = asyncio.Event()

    def connected(self, link: Any) -> None:
        self._link = link

    def received(self, data: bytes) -> None:
        if not self.got:
            self._work()
            for _ in range(2):  # the first may still go out; to it the kernel of the peer says that nobody is there
                self._link.write(b"answer")
                time.sleep(0.01)
        self.got += data

    def lost(self, reason: str) -> None:
        self.ended.set()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_what_a_peer_sent_before_it_went_is_received_whoever_cannot_be_answered(run: Any, reset: bool) -> None:
    """A client that ends its transactions or notes its offsets one-way, and closes."""

    async def test() -> None:
        def send_and_go() -> None:
            peer.sendall(b"more")
            if reset:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()

        receiver = Busy(send_and_go)
        listener = await TcpNetwork().listen("127.0.0.1", 0, lambda: receiver)
        peer = socket.create_connection(split_address(listener.address))
        peer.sendall(b"first ")
        async with asyncio.timeout(10):
            await receiver.ended.wait()
        assert receiver.got == b"first more"
        await listener.close()

    run(test())
