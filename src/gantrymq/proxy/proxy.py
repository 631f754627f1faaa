"""Puts a proxy together: the gRPC door's methods over the messages of a cluster. It is imported by the command line."""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.access.metrics import declare_access
from gantrymq.broker.grpc.calls import Calls
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.deliveries import LOOK_SECONDS, HeldDeliveries
from gantrymq.broker.grpc.health import NAME as HEALTH_SERVICE
from gantrymq.broker.grpc.health import Health
from gantrymq.broker.grpc.latency import CLUSTER, PROXY_UP, GrpcLatency
from gantrymq.broker.grpc.methods import methods_of
from gantrymq.broker.write_gate import OPEN
from gantrymq.client.connection.endpoint import Outside, decline
from gantrymq.grpc.pool import SERVICE
from gantrymq.grpc.reflection import SERVICES as REFLECTION_SERVICES
from gantrymq.grpc.reflection import reflection
from gantrymq.grpc.serving.server import GrpcServer
from gantrymq.observability.limits import declare_limits
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, single
from gantrymq.observability.rpc_latency import RPC_LATENCY
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command
from gantrymq.proxy.cluster import Cluster
from gantrymq.proxy.config import ProxyConfig
from gantrymq.proxy.lite import pass_eviction
from gantrymq.proxy.messaging import RemotingMessaging
from gantrymq.proxy.orphans import Orphans
from gantrymq.proxy.transactions import Checks
from gantrymq.proxy.users import ClusterUsers
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.addresses import address_of, split_address
from gantrymq.runtime.limits.client_limits import ClientLimits
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.proxy")

FIRST_LOOK_SECONDS: Final = 5.0
"""How long clients wait while a proxy that has just started looks for brokers, and reads their users. Some clients end
when their first call is refused."""
FIRST_LOOK_STEP_SECONDS: Final = 0.02
GRACE_SECONDS: Final = 2.0
"""How long calls that are under way may last when the proxy stops."""
CLIENTS: Final[Metric] = Metric(
    "gantry_proxy_clients", MetricKind.GAUGE, "clients", (), "Clients of gRPC that were heard lately."
)


class Proxy:
    """Started once, and closed once."""

    def __init__(self, config: ProxyConfig, outside: Outside) -> None:
        self._config = config
        clock = outside.clock
        self._clock = clock
        self._limits = ClientLimits(clock, config.limits)
        self._clients = GrpcClients(clock, self._gone)
        self._cluster = Cluster(config, outside, self._pushed)
        account = config.account
        self._users = None if account is None else ClusterUsers(self._cluster, account, clock)
        guard = self._guard = None if self._users is None else self._users.guard
        self._checks = Checks(self._clients, self._cluster, guard)
        self._messaging = RemotingMessaging(config, self._cluster, has_users=guard is not None)
        self._held = HeldDeliveries(
            self._messaging.deliveries, clock, self._clients.named, self._messaging.deliveries.notes
        )
        self._server = GrpcServer(outside.network, clock, self._limits)
        self._latency = GrpcLatency(clock)
        self._tasks = TaskGroupOwner("proxy")
        self.metrics: Final = Metrics()
        self.metrics.declare(RPC_LATENCY, self._latency.read)
        self.metrics.declare(PROXY_UP, lambda: (((CLUSTER,), 1),))
        self.metrics.declare(CLIENTS, single(lambda: len(list(self._clients))))
        declare_limits(self.metrics, self._limits)
        if guard is not None:
            declare_access(self.metrics, guard.refusals)

    @property
    def limits(self) -> ClientLimits:
        """Those of all its ports."""
        return self._limits

    @property
    def healthy(self) -> bool:
        """Whether a broker is connected, and clients can be judged."""
        return self._cluster.reachable and (self._users is None or self._users.known)

    async def start(self) -> str:
        """Listen, and answer calls as soon as a broker is connected and its users are known, or ``FIRST_LOOK_SECONDS``
        have passed. Returns the address; raises Unreachable when the port is in use."""
        address = await self._server.listen(self._config.bind, self._config.grpc_port)
        self._cluster.start()
        users = self._users
        check_users = users.check if users is not None else lambda: None
        calls = Calls(self._clients, self._guard, OPEN, self._limits, self._latency, check_users)
        own = address_of(self._config.host, split_address(address)[1])
        methods = methods_of(self._messaging, calls, self._clients, self._held, self._clock, own)
        health = Health(self._clock, lambda: not self.healthy)
        services = {SERVICE: methods, HEALTH_SERVICE: health.methods()}
        self._tasks.start("look", self._look())
        self._tasks.start("orphans", Orphans(self._cluster, self._held).keep())
        try:
            await self._first_look()
        except BaseException:
            await self.close()
            raise
        self._server.serve({**services, **reflection([*services, *REFLECTION_SERVICES])})
        return address

    async def _first_look(self) -> None:
        clock, until = self._clock, self._clock.monotonic() + FIRST_LOOK_SECONDS
        while not self._cluster.reachable and clock.monotonic() < until:
            await clock.sleep(FIRST_LOOK_STEP_SECONDS)
        if self._users is not None:
            self._tasks.start("users", self._users.keep())
        while not self.healthy and clock.monotonic() < until:
            await clock.sleep(FIRST_LOOK_STEP_SECONDS)
        if not self._cluster.reachable:
            log.warning("no broker is connected yet; calls are refused until one is")

    async def close(self) -> None:
        await self._tasks.stop()
        self._clients.close()
        await self._server.close(GRACE_SECONDS)
        await self._cluster.close()

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            self._clients.expire(self._config.client_silent_s)
            self._held.renew_due()
            await self._cluster.keep({topic for client in self._clients for topic in client.topics})

    def _pushed(self, channel: ClientChannel, command: Command) -> None:
        """A broker asks for something, or says something."""
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._checks.pushed(channel, command)
        elif command.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
            pass_eviction(self._clients, channel, command)
        else:
            decline(channel, command)

    def _gone(self, client: GrpcClient) -> None:
        """Brokers hear of its producer groups with the next look at these."""
        silent_s = self._clock.monotonic() - client.heard_at
        self._messaging.lite.gone(client, says_goodbye=silent_s < self._config.client_silent_s)
