"""A network whose connections may have TLS, over another network."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from gantrymq.errors import Unreachable
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.clock import Clock, Timer, time_limit
from gantrymq.runtime.network import Gate, Link, Listener, Network, Receiver
from gantrymq.runtime.tls.certificates import ServerCertificates
from gantrymq.runtime.tls.link import PLAIN_ADVICE, TlsLink, is_plain
from gantrymq.runtime.tls.settings import TlsMode

log = logging.getLogger("gantrymq.tls")

HANDSHAKE: Final = 0x16
"""First byte of every connection with TLS. No RocketMQ frame begins with it: its length would be 369 MB."""
FIRST_BYTE_SECONDS: Final = 120.0
"""How long a connection may be silent before it sends its first byte; as long as any connection may be silent."""
HANDSHAKE_SECONDS: Final = 10.0
"""How long a client may take from its first byte until both sides have agreed."""


class TlsNetwork:
    """``server``: what listening addresses show; None: they have no TLS. ``client``: the context of the connections
    that this side opens; None: they have no TLS."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        *,
        server: ServerCertificates | None = None,
        mode: TlsMode = TlsMode.PERMISSIVE,
        client: ssl.SSLContext | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._server = None if mode is TlsMode.DISABLED else server
        self.only_tls: Final = self._server is not None and mode is TlsMode.ENFORCING
        """Whether listening addresses take no connection without TLS."""
        self._client = client

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        server = self._server
        if server is None:
            return await self._network.listen(host, port, accept, gate)
        return await self._network.listen(
            host, port, lambda: _Accepted(server, self._clock, accept, gate, only_tls=self.only_tls), gate
        )

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        if self._client is None:
            return await self._network.connect(host, port, receiver, timeout_s)
        outcome: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        def agreed(reason: str | None) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        link = TlsLink(self._client, lambda: receiver, agreed, server_name=host)
        started = self._clock.monotonic()
        await self._network.connect(host, port, link, timeout_s)
        try:
            async with time_limit(self._clock, timeout_s - (self._clock.monotonic() - started)):
                reason = await outcome
        except TimeoutError as error:
            link.abort()
            raise Unreachable(
                address_of(host, port), f"no agreement on TLS within {timeout_s:g} s; does it use TLS on this port?"
            ) from error
        except BaseException:
            link.abort()
            raise
        if reason is not None:
            raise Unreachable(address_of(host, port), reason, PLAIN_ADVICE if is_plain(reason) else "")
        return link


class _Accepted:
    """An accepted connection: its first byte says whether it has TLS. Then every call is passed on."""

    __slots__ = ("_accept", "_clock", "_failed", "_gate", "_link", "_only_tls", "_server", "_timer", "_to")

    def __init__(
        self,
        server: ServerCertificates,
        clock: Clock,
        accept: Callable[[], Receiver],
        gate: Gate | None,
        *,
        only_tls: bool,
    ) -> None:
        self._server = server
        self._clock = clock
        self._accept = accept
        self._gate = gate
        self._only_tls = only_tls
        self._link: Link | None = None
        self._to: Receiver | None = None
        self._timer: Timer | None = None
        self._failed = False

    def connected(self, link: Link) -> None:
        self._link = link
        self._wait(FIRST_BYTE_SECONDS, "it sent nothing")

    def received(self, data: bytes) -> None:
        if self._to is None and not self._begin(data[0] == HANDSHAKE):
            return
        assert self._to is not None
        self._to.received(data)

    def _begin(self, with_tls: bool) -> bool:
        """Choose who gets what is received; False: nobody, the connection is refused."""
        link = self._link
        if link is None:
            return False
        self._stop_waiting()
        if with_tls:
            self._to = TlsLink(self._server.context(), self._accept, self._agreed, server_name=None)
            self._wait(HANDSHAKE_SECONDS, "the handshake took too long")
        elif self._only_tls:
            self._refused("refused: it does not use TLS, and tls.server.mode is enforcing")
            link.abort()
            return False
        else:
            self._to = self._accept()
        self._to.connected(link)
        return True

    def _agreed(self, reason: str | None) -> None:
        self._stop_waiting()
        if reason is not None:
            self._refused(f"no TLS: {reason}")

    def _refused(self, reason: str) -> None:
        """Whoever counts connections counts this, and sees to it that the log is not flooded."""
        if self._failed or self._link is None:
            return
        self._failed = True
        if self._gate is not None:
            self._gate.failed(self._link.peer, reason)
        else:
            log.warning("%s: %s", self._link.peer, reason)

    def _wait(self, seconds: float, reason: str) -> None:
        def too_late() -> None:
            if self._link is not None:
                self._refused(f"{reason} within {seconds:g} s")
                self._link.abort()

        self._timer = self._clock.call_later(seconds, too_late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lost(self, reason: str) -> None:
        self._stop_waiting()
        if self._to is not None:
            self._to.lost(reason)

    def pause_writing(self) -> None:
        if self._to is not None:
            self._to.pause_writing()

    def resume_writing(self) -> None:
        if self._to is not None:
            self._to.resume_writing()
