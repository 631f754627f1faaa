"""Sends heartbeats, which keep a client a member of its groups. A broker forgets a client that is silent for 120 s,
and forgets it at once when its connection closes.

Source: MQClientInstance.sendHeartbeatToAllBroker; docs/protocol.md#what-clients-send-and-when.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint, every, ignore_outcome
from gantrymq.errors import GantryError
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, encode_request
from gantrymq.protocol.headers.consumer import UnregisterClient
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

RECONNECT_INTERVAL_MS: Final = 1_000
"""How often the client tries to restore lost connections, so that a restarted broker soon knows its clients."""

RECONNECT_TRIES: Final = 6
"""Attempts right after a connection was lost. With the pauses of RemotingClient they take about half a second;
after them RECONNECT_INTERVAL_MS applies."""


class Heartbeats:
    """Sends ``beat()`` to the brokers at ``addresses()``: on every new connection, and at intervals."""

    def __init__(
        self, endpoint: Endpoint, beat: Callable[[], HeartbeatData], addresses: Callable[[], Iterable[str]]
    ) -> None:
        self._endpoint = endpoint
        self._beat = beat
        self._addresses = addresses

    def start(self) -> None:
        endpoint = self._endpoint
        config = endpoint.config
        endpoint.when_lost = self._lost
        endpoint.tasks.start("heartbeats", every(endpoint.clock, config.heartbeat_interval_ms, self.send, "heartbeat"))
        endpoint.tasks.start("reconnects", every(endpoint.clock, RECONNECT_INTERVAL_MS, self.connect, "reconnect"))
        endpoint.tasks.start(
            "routes", every(endpoint.clock, config.route_refresh_ms, endpoint.routes.refresh, "routes")
        )

    def _lost(self, address: str) -> None:
        if address in self._addresses():
            self._endpoint.tasks.start("reconnect", self._come_back(address))

    async def _come_back(self, address: str) -> None:
        """Connect again at once. When a producer is away for half a second, a broker considers it dead, and lets other
        members of the group with decisive checkers decide its transactions."""
        for _ in range(RECONNECT_TRIES):
            if self._endpoint.ready(address) is not None or address not in self._addresses():
                return
            await self._connect(address)

    def greet(self, channel: ClientChannel) -> None:
        """Send a heartbeat on a new connection, before anything else."""
        opaque = channel.next_opaque()
        frame = encode_request(RequestCode.HEART_BEAT, opaque, body=self._beat().encode())
        answer = channel.request(opaque, frame, self._endpoint.config.call_timeout_ms)
        answer.add_done_callback(lambda done: self._greeted(channel.address, done))

    def _greeted(self, address: str, answer: asyncio.Future[Command]) -> None:
        ignore_outcome(answer)
        if not answer.cancelled() and answer.exception() is None:
            self._endpoint.heard(address, answer.result())

    async def send(self) -> None:
        """One heartbeat to every broker that can be reached."""
        unconnected = []
        for address in self._addresses():
            channel = self._endpoint.ready(address)
            if channel is not None:
                self.greet(channel)
            else:
                unconnected.append(address)
        for address in unconnected:  # behind the others, which must not wait for brokers that cannot be reached
            await self._connect(address)

    async def connect(self) -> None:
        """Connect to the brokers that are not connected; each new connection begins with a heartbeat."""
        for address in list(self._addresses()):
            if self._endpoint.ready(address) is None:
                await self._connect(address)

    async def _connect(self, address: str) -> None:
        try:
            await self._endpoint.channel(address, RECONNECT_INTERVAL_MS)
        except GantryError as error:
            log.debug("no connection to send a heartbeat: %s", error)

    async def unregister(self, producer_group: str | None = None, consumer_group: str | None = None) -> None:
        """Tell the connected brokers that this client leaves its group. Failures do not matter, because a broker also
        notices when the connection closes."""
        header = UnregisterClient(
            client_id=self._endpoint.client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        for address in list(self._addresses()):
            channel = self._endpoint.ready(address)
            if channel is None:
                continue
            try:
                opaque = channel.next_opaque()
                await channel.request(opaque, encode_request(RequestCode.UNREGISTER_CLIENT, opaque, header), 1_000)
            except GantryError as error:
                log.debug("leaving the group: %s", error)
