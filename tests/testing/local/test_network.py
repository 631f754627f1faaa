"""Connections without sockets keep the promises of ``runtime.network``."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.errors import Unreachable
from gantrymq.runtime.network import Link
from gantrymq.testing.local.network import BROKER_PORT, HOST, NAME_SERVER_PORT, LocalNetwork
from gantrymq.testing.local.node import Node


def ignore() -> None:
    """Nobody wants to know."""


class Heard:
    """One side of a connection, with all that happened to it."""

    link: Link

    def __init__(self) -> None:
        self.events: list[object] = []

    def connected(self, link: Link) -> None:
        self.link = link
        self.events.append("connected")

    def received(self, data: bytes) -> None:
        self.events.append(data)

    def lost(self, reason: str) -> None:
        self.events.append(f"lost: {reason}")

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


async def turns(count: int = 8) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def serving(network: LocalNetwork, port: int = BROKER_PORT) -> tuple[Node, Heard]:
    """A server that accepts one connection."""
    node, server = Node("server", asyncio.get_running_loop()), Heard()
    await network.of(node).listen(HOST, port, lambda: server)
    return node, server


def test_bytes_arrive_in_order_and_the_end_behind_them() -> None:
    async def main() -> None:
        network = LocalNetwork(None, ignore)
        _, server = await serving(network)
        client = Heard()
        link = await network.of(None).connect(HOST, BROKER_PORT, client, 1)
        link.write(b"one")
        link.write(b"two")
        link.close()
        link.write(b"too late")
        await turns()
        assert server.events == ["connected", b"one", b"two", "lost: closed"]
        assert client.events == ["connected", "lost: closed"]
        assert (link.peer, link.local) == (server.link.local, server.link.peer)
        assert not network.ends

    asyncio.run(main())


def test_what_is_not_read_waits() -> None:
    async def main() -> None:
        network = LocalNetwork(None, ignore)
        _, server = await serving(network)
        link = await network.of(None).connect(HOST, BROKER_PORT, Heard(), 1)
        server.link.pause_reading()
        link.write(b"one")
        link.write(b"two")
        await turns()
        assert server.events == ["connected"]
        server.link.resume_reading()
        assert server.events == ["connected", b"one", b"two"]

    asyncio.run(main())


def test_nobody_listens_where_a_broker_was() -> None:
    async def main() -> None:
        network = LocalNetwork(None, ignore)
        await serving(network, NAME_SERVER_PORT)
        await serving(network)
        del network.servers[BROKER_PORT]
        with pytest.raises(Unreachable, match="nobody in the local cluster listens there"):
            await network.of(None).connect(HOST, BROKER_PORT, Heard(), 1)
        await network.of(None).connect("anything.example", 1234, Heard(), 1)

    asyncio.run(main())


def test_a_client_that_is_cut_off_loses_its_connections_and_gets_none() -> None:
    async def main() -> None:
        network = LocalNetwork(None, ignore)
        _, server = await serving(network)
        mine, other = network.of(None), network.of(None)
        client = Heard()
        await mine.connect(HOST, BROKER_PORT, client, 1)
        mine.cut()
        await turns()
        assert client.events[-1] == server.events[-1] == "lost: the process was killed"
        with pytest.raises(Unreachable, match="killed by the test"):
            await mine.connect(HOST, BROKER_PORT, Heard(), 1)
        await other.connect(HOST, BROKER_PORT, Heard(), 1)

    asyncio.run(main())


def test_a_port_has_one_server() -> None:
    async def main() -> None:
        network = LocalNetwork(None, ignore)
        await serving(network)
        with pytest.raises(Unreachable, match="cannot listen there"):
            await serving(network)

    asyncio.run(main())
