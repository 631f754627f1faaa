"""Certificates, and two ends of a connection, for the tests of TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import Gate, Link, Listener, TcpNetwork
from gantrymq.runtime.tls.certificates import ServerCertificates, client_context
from gantrymq.runtime.tls.network import TlsNetwork
from gantrymq.runtime.tls.settings import ClientTls, ServerTls, TlsMode

FILES = Path(__file__).with_name("files")


def file(name: str) -> str:
    return str(FILES / name)


def server_tls(**more: Any) -> ServerTls:
    return ServerTls(**{"cert_path": file("server.pem"), "key_path": file("server.key"), **more})


def client_tls(**more: Any) -> ClientTls:
    return ClientTls(**{"trust_cert_path": file("authority.pem"), **more})


def server_side(settings: ServerTls) -> TlsNetwork:
    return TlsNetwork(TcpNetwork(), SystemClock(), server=ServerCertificates(settings), mode=settings.mode)


def client_side(settings: ClientTls | None) -> TlsNetwork:
    return TlsNetwork(TcpNetwork(), SystemClock(), client=None if settings is None else client_context(settings))


class Keeper:
    """A receiver that keeps everything."""

    def __init__(self, answer: Callable[[Link, bytes], None] | None = None) -> None:
        self.link: Link | None = None
        self.got = bytearray()
        self.ended = asyncio.Event()
        self.came = asyncio.Event()
        self.reason = ""
        self._answer = answer

    def connected(self, link: Link) -> None:
        self.link = link

    def received(self, data: bytes) -> None:
        self.got += data
        self.came.set()
        if self._answer is not None and self.link is not None:
            self._answer(self.link, data)

    def lost(self, reason: str) -> None:
        self.reason = reason
        self.ended.set()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    async def until(self, size: int) -> bytes:
        """All that was received, when it is this much."""
        async with asyncio.timeout(30):
            while len(self.got) < size:
                self.came.clear()
                await self.came.wait()
        return bytes(self.got)


def echo(link: Link, data: bytes) -> None:
    link.write(data)


class Server:
    """A listening address that keeps what its connections receive, and sends it back."""

    def __init__(
        self,
        settings: ServerTls | None,
        answer: Callable[[Link, bytes], None] | None = echo,
        gate: Gate | None = None,
    ) -> None:
        self.settings = settings
        self._gate = gate
        self.accepted: list[Keeper] = []
        self._answer = answer
        self._came = asyncio.Event()
        self.port = 0

    def accept(self) -> Keeper:
        self.accepted.append(Keeper(self._answer))
        self._came.set()
        return self.accepted[-1]

    async def first(self) -> Keeper:
        """The first connection, as soon as there is one: a client has agreed on TLS before its server has."""
        async with asyncio.timeout(30):
            await self._came.wait()
        return self.accepted[0]

    async def __aenter__(self) -> Server:
        network: Any = TcpNetwork() if self.settings is None else server_side(self.settings)
        self._listener: Listener = await network.listen("127.0.0.1", 0, self.accept, self._gate)
        self.port = split_address(self._listener.address)[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.close()

    async def connect(self, settings: ClientTls | None, receiver: Keeper) -> Link:
        return await client_side(settings).connect("127.0.0.1", self.port, receiver, 10.0)


ENFORCING: Final = TlsMode.ENFORCING
