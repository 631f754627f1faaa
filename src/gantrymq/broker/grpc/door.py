"""The gRPC door: clients of RocketMQ 5 over HTTP/2."""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.broker.client import Connection
from gantrymq.broker.door import Departures, Ground, Served
from gantrymq.broker.grpc.calls import Calls
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.deliveries import LOOK_SECONDS, HeldDeliveries
from gantrymq.broker.grpc.health import NAME as HEALTH_SERVICE
from gantrymq.broker.grpc.health import Health
from gantrymq.broker.grpc.latency import LOCAL, PROXY_UP, GrpcLatency
from gantrymq.broker.grpc.lite import tell_evicted
from gantrymq.broker.grpc.local import LocalMessaging
from gantrymq.broker.grpc.methods import methods_of
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.grpc.pool import SERVICE
from gantrymq.grpc.reflection import SERVICES as REFLECTION_SERVICES
from gantrymq.grpc.reflection import reflection
from gantrymq.grpc.serving.methods import Method
from gantrymq.grpc.serving.server import GrpcServer
from gantrymq.observability.rpc_latency import RPC_LATENCY
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.grpc")

GRACE_SECONDS: Final = 2.0
"""How long calls that are under way may last when the broker stops."""


class GrpcDoor:
    """Listens on ``grpcPort``. Clients that nobody has heard of for ``channelExpiredTimeout`` are gone."""

    name: Final = "grpc"

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._clients = GrpcClients(ground.outside.clock, self._gone)
        self._departures: Departures | None = None
        self._operations: Operations | None = None
        """Of the role that the broker has now."""
        self._health = Health(ground.outside.clock, self._refuses)
        self._server = GrpcServer(ground.outside.network, ground.outside.clock, ground.client_limits)
        self._held: HeldDeliveries | None = None
        self._tasks = TaskGroupOwner("grpc")
        self._looks = False
        self.address = ""

    async def listen(self) -> None:
        network = self._ground.config.network
        self.address = await self._server.listen(network.bind_address, network.grpc_port)

    def serve(self, broker: Served) -> None:
        self._departures = broker.departures
        self._operations = broker.operations
        services = {SERVICE: self._methods(broker), HEALTH_SERVICE: self._health.methods()}
        self._server.serve({**services, **reflection([*services, *REFLECTION_SERVICES])})
        if not self._looks:
            self._looks = True
            self._tasks.start("look", self._look())

    def _methods(self, broker: Served) -> dict[str, Method]:
        config, clock, operations = self._ground.config, self._ground.outside.clock, broker.operations
        guard = None if operations.users is None else operations.users.access.guard
        latency = GrpcLatency(clock)
        calls = Calls(self._clients, guard, broker.gate, self._ground.client_limits, latency)
        broker.metrics.share(RPC_LATENCY, latency.read)
        broker.metrics.declare(PROXY_UP, lambda: (((LOCAL,), 1),))
        popping = operations.consuming.popping
        self._held = HeldDeliveries(popping.acks, clock, self._clients.named)
        self._held.resume(popping.consumption.held())
        own = address_of(config.network.broker_ip1, config.network.grpc_port)
        popping.lite.evicted.append(self._evicted)
        return methods_of(LocalMessaging(config, operations), calls, self._clients, self._held, clock, own)

    async def _look(self) -> None:
        while True:
            await self._ground.outside.clock.sleep(LOOK_SECONDS)
            self._clients.expire(self._ground.config.groups.channel_expired_timeout / 1000)
            if self._held is not None:
                self._held.renew_due()

    def _refuses(self) -> bool:
        return self._operations is None or self._operations.administration.figures.refusal is not None

    async def refuse(self) -> None:
        self._clients.close()
        await self._server.close(GRACE_SECONDS)

    async def close(self) -> None:
        await self._tasks.stop()
        self._clients.close()
        await self._server.close(0)

    def forget(self, client: Connection) -> None:
        """What clients are asked has no answer that somebody waits for."""

    def last_request(self) -> str:
        return ""

    def _evicted(self, reader: LiteReader, lite_topic: str) -> None:
        tell_evicted(self._clients, reader.client, lite_topic)

    def _gone(self, client: GrpcClient) -> None:
        if self._operations is not None:
            self._operations.consuming.popping.lite.client_gone(client.name)
        if self._departures is not None:
            self._departures.client_gone(client)
