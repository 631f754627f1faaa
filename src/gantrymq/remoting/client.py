"""Connections to peers by address: connects on demand, keeps one connection per address, and reconnects with jitter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from gantrymq.errors import Closed, TimedOut, Unreachable
from gantrymq.protocol.command import Command, Header, SerializeType, encode_request
from gantrymq.protocol.signature import Account
from gantrymq.remoting.channel import ClientChannel, PushHandler, SignedChannel
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import Clock, within
from gantrymq.runtime.network import Network
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.tasks import SharedWork

CONNECT_TIMEOUT_MS: Final = 3000
"""The value of Apache's clients (connectTimeoutMillis)."""
BACKOFF_FIRST_S: Final = 0.02
BACKOFF_MAX_S: Final = 1.0
"""The longest pause after a failed attempt to connect to an address. The pause doubles each time up to this maximum,
and is shortened by a random part of up to half, so that many clients do not return at the same moment."""


class RemotingClient:
    """Calls peers by address (``host:port``).

    ``requests`` is called with each request that a peer sends (check-backs, notifications), ``lost`` with each channel
    whose connection was lost. ``account``: signs every request. All methods belong to the event loop on which they were
    first used. When a call is cancelled, its answer is ignored; the request may still be executed.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        rng: Rng,
        *,
        requests: PushHandler | None = None,
        lost: Callable[[ClientChannel], None] | None = None,
        serialize: SerializeType = SerializeType.JSON,
        account: Account | None = None,
    ) -> None:
        self._account = account
        self._network = network
        self._clock = clock
        self._rng = rng
        self._requests = requests
        self._lost = lost
        self._serialize = serialize
        self._channels: dict[str, ClientChannel] = {}
        self._connecting: SharedWork[str, ClientChannel] = SharedWork()
        self._failures: dict[str, tuple[int, float]] = {}
        self._closed = False

    def ready(self, address: str) -> ClientChannel | None:
        """The open channel to ``address``; None when ``channel`` must be awaited first."""
        channel = self._channels.get(address)
        return channel if channel is not None and channel.alive else None

    def connected_addresses(self) -> list[str]:
        return [address for address, channel in self._channels.items() if channel.alive]

    async def channel(self, address: str, timeout_ms: int = CONNECT_TIMEOUT_MS) -> ClientChannel:
        """An open channel; raises Unreachable."""
        if self._closed:
            raise Closed("this client is closed; create a new one")
        channel = self.ready(address)
        if channel is not None:
            return channel
        try:
            joined = self._connecting.join(address, partial(self._connect, address))
            return await within(self._clock, timeout_ms / 1000, joined)
        except TimeoutError as error:
            raise Unreachable(address, f"no connection within {timeout_ms} ms") from error

    async def _connect(self, address: str) -> ClientChannel:
        try:
            host, port = split_address(address)
        except ValueError as error:
            raise Unreachable(address, str(error)) from error
        failures, not_before = self._failures.get(address, (0, 0.0))
        pause = not_before - self._clock.monotonic()
        if pause > 0:
            await self._clock.sleep(pause)
        channel = self._new_channel(address)
        try:
            await self._network.connect(host, port, channel, CONNECT_TIMEOUT_MS / 1000)
        except Unreachable:
            delay = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2**failures) * (1 - self._rng.random() / 2)
            self._failures[address] = (min(failures + 1, 16), self._clock.monotonic() + delay)
            raise
        self._failures.pop(address, None)
        if self._closed:
            channel.close()
            raise Closed("this client was closed while it connected")
        self._channels[address] = channel
        return channel

    def _new_channel(self, address: str) -> ClientChannel:
        if self._account is None:
            return ClientChannel(address, self._clock, self._requests, self._forget)
        return SignedChannel(address, self._clock, self._requests, self._forget, self._account)

    def _forget(self, channel: ClientChannel) -> None:
        if self._channels.get(channel.address) is channel:
            del self._channels[channel.address]
            if self._lost is not None and not self._closed:
                self._lost(channel)

    async def call(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int,
        remark: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Command:
        """Send a request and return the answer, whatever its code. ``timeout_ms`` covers connecting, too.

        Raises Unreachable (not executed, or lost before the answer) or TimedOut (may have been executed).
        """
        started = self._clock.monotonic()
        channel = self.ready(address) or await self.channel(address, timeout_ms)
        opaque = channel.next_opaque()
        frame = encode_request(code, opaque, header, body, remark=remark, serialize=self._serialize, extra=extra)
        remaining_ms = timeout_ms - int((self._clock.monotonic() - started) * 1000)
        if remaining_ms <= 0:
            raise TimedOut(f"connecting to {address}", timeout_ms)
        return await channel.request(opaque, frame, remaining_ms)

    async def call_oneway(
        self,
        address: str,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        *,
        remark: str | None = None,
    ) -> None:
        """Send a request without waiting for an answer. Raises Unreachable when there is no connection. Delivery is not
        confirmed."""
        channel = self.ready(address) or await self.channel(address)
        opaque = channel.next_opaque()
        channel.send(encode_request(code, opaque, header, body, one_way=True, remark=remark, serialize=self._serialize))

    def disconnect(self, address: str) -> None:
        """Drop the connection to a peer that does not answer; the next call resolves its name and connects again.
        Requests that wait on it raise Unreachable."""
        channel = self._channels.get(address)
        if channel is not None:
            channel.abandon("it does not answer")

    async def close(self) -> None:
        """Close every connection; calls in flight raise Closed."""
        self._closed = True
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()
        await self._connecting.stop()  # a connection that is being made is closed by the task that makes it
