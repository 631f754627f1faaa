"""The TCP network."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

import pytest
import uvloop

from gantrymq.errors import Unreachable
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
        connect = loop.create_connection
        # What the kernel does by chance: the connecting socket gets the very port that nobody listens on.
        loop.create_connection = lambda make, host, port: connect(make, host, port, local_addr=(host, port))
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
