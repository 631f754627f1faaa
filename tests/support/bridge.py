"""A real port that leads into the network of a local cluster, for clients with sockets of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gantrymq.runtime.network import Link, Network


class _Back:
    """What comes from the server goes to the socket."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def connected(self, link: Link) -> None: ...

    def received(self, data: bytes) -> None:
        self._writer.write(data)

    def lost(self, reason: str) -> None:
        self._writer.close()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


@asynccontextmanager
async def bridge(network: Network, port: int) -> AsyncIterator[str]:
    """``host:port`` of a socket on this machine; what comes there goes to ``port`` of the network."""

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = await network.connect("127.0.0.1", port, _Back(writer), 10)
        while data := await reader.read(1 << 16):
            link.write(data)
        link.close()

    server = await asyncio.start_server(joined, "127.0.0.1", 0)
    async with server:
        host, bound = server.sockets[0].getsockname()
        yield f"{host}:{bound}"
