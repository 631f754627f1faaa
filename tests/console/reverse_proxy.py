"""A small reverse proxy over real sockets: it shows one server under a prefix, stripped from paths or left in them.

Whatever is asked for outside the prefix is answered by another program, as on a host that many programs share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

ANOTHER = "another program"
ELSEWHERE = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(ANOTHER)}\r\nConnection: close\r\n\r\n{ANOTHER}".encode()


@dataclass
class Proxy:
    """One request for each connection."""

    target: str
    prefix: bytes
    strip: bool
    tasks: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.current_task())
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            line, _, headers = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
            method, path, version = line.split(b" ")
            if not (path.partition(b"?")[0] + b"/").startswith(self.prefix + b"/"):
                writer.write(ELSEWHERE)
                await writer.drain()
                return
            path = path.removeprefix(self.prefix) if self.strip else path
            kept = [one for one in headers.split(b"\r\n") if not one.lower().startswith(b"connection:")]
            head = [b" ".join((method, path or b"/", version)), b"Connection: close", *kept]
            await self.forward(b"\r\n".join(head), reader, writer)

    async def forward(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        below, above = await asyncio.open_connection(urlsplit(self.target).hostname, urlsplit(self.target).port)
        with contextlib.closing(above):
            above.write(head)
            up = asyncio.create_task(copy(reader, above))
            try:
                await copy(below, writer)
            finally:
                up.cancel()


@contextlib.asynccontextmanager
async def reverse_proxy(target: str, prefix: str, *, strip: bool) -> AsyncIterator[str]:
    """The address of the proxy, without the prefix."""
    proxy = Proxy(target, prefix.encode(), strip)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        running = [task for task in proxy.tasks if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while part := await source.read(65_536):
            target.write(part)
            await target.drain()
