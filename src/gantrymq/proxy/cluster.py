"""The connections of a proxy to the brokers of its cluster, and which producer groups it is a member of there.

The proxy is a member of the producer groups of all its clients, so brokers send it the checks of their transactions. It
is no member of consumer groups: members of remoting would share the queues with it, and it pulls from none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.client.config import ClientConfig
from gantrymq.client.connection.cluster_brokers import ClusterBrokers
from gantrymq.client.connection.endpoint import Endpoint, Outside
from gantrymq.client.connection.heartbeat import Heartbeats
from gantrymq.errors import GantryError, RouteNotFound
from gantrymq.message.heartbeat import ProducerData
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.proxy.answers import away, refused_by
from gantrymq.proxy.config import ProxyConfig
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import SharedWork

log = logging.getLogger("gantrymq.proxy")

Pushed = Callable[[ClientChannel, Command], None]
"""A broker asks for something."""
T = TypeVar("T")
SUCCESS: tuple[int, ...] = (ResponseCode.SUCCESS,)


class Cluster:
    """Every call raises Refused."""

    def __init__(self, config: ProxyConfig, outside: Outside, pushed: Pushed) -> None:
        account = config.account
        settings = ClientConfig(
            name_servers=config.name_servers, call_timeout_ms=config.call_timeout_ms,
            access_key="" if account is None else account.access_key,
            secret_key=None if account is None else account.secret_key,
        )  # fmt: skip
        self._endpoint = Endpoint(
            "proxy", settings, outside, pushes=pushed, greet=lambda channel: self._heartbeats.greet(channel)
        )
        self._brokers = ClusterBrokers(self._endpoint)
        self._heartbeats = Heartbeats(self._endpoint, self._beat, self._brokers.addresses)
        self._groups: set[str] = set()
        """Producer groups that brokers were told of."""
        self._looking: SharedWork[str, bool] = SharedWork()

    @property
    def clock(self) -> Clock:
        return self._endpoint.clock

    @property
    def call_timeout_ms(self) -> int:
        return self._endpoint.config.call_timeout_ms

    def start(self) -> None:
        self._endpoint.start()
        self._heartbeats.start()
        self._endpoint.tasks.start("brokers", self._brokers.keep(self._heartbeats.connect))

    async def close(self) -> None:
        await self._endpoint.close()

    @property
    def reachable(self) -> bool:
        """Whether any broker is connected."""
        return self._endpoint.has_broker()

    def masters(self) -> list[str]:
        """The addresses of all brokers that take writes."""
        return self._brokers.addresses()

    async def known_masters(self) -> list[str]:
        """The same. The name servers are asked when none is known."""
        if not self.masters():
            await self._looking.join("", self._brokers.look)
        return self.masters()

    def name_at(self, address: str) -> str | None:
        """The name of the broker there."""
        return self._endpoint.routes.name_at(address) or self._brokers.name_at(address)

    def is_apache(self, broker_name: str) -> bool:
        """Whether the master of that name is one of Apache's; False while it has not answered a heartbeat."""
        address = self._endpoint.routes.master(broker_name) or self._brokers.master(broker_name)
        return address is not None and self._endpoint.speaks_java(address)

    def start_task(
        self, name: str, work: Coroutine[Any, Any, T], *, told: type[BaseException] | None = None
    ) -> asyncio.Task[T]:
        """A task that ends with the proxy. ``told``: see ``TaskGroupOwner.start``."""
        return self._endpoint.tasks.start(name, work, told=told)

    # Membership in producer groups.

    def _beat(self) -> HeartbeatData:
        return HeartbeatData(
            client_id=self._endpoint.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self._groups)],
        )

    async def join(self, groups: Iterable[str]) -> None:
        """Brokers hear of them before anything else that is sent from now on."""
        new = set(groups) - self._groups
        if new:
            self._groups |= new
            # In a task, as in ``_at``: brokers that are not connected are connected now.
            await asyncio.get_running_loop().create_task(self._heartbeats.send())

    async def keep(self, groups: Iterable[str]) -> None:
        """Leave all other groups: nobody here could answer their checks."""
        for group in sorted(self._groups - set(groups)):
            self._groups.discard(group)
            await self._heartbeats.unregister(producer_group=group)

    # Questions.

    async def route(self, topic: str) -> TopicRoute:
        try:
            return await self._endpoint.routes.get(topic)
        except RouteNotFound as error:
            raise Refused(Refusal.TOPIC_UNKNOWN, str(error)) from error
        except GantryError as error:
            raise away(error, f"route of topic {topic}") from error

    async def ask(
        self, broker_name: str, code: RequestCode, header: Header | None, body: bytes = b"", *, what: str,
        accept: Iterable[int] = SUCCESS, timeout_ms: int | None = None,
    ) -> Command:  # fmt: skip
        """The answer of the master of that name."""
        address = await self._master(broker_name, what)
        return await self.ask_at(address, code, header, body, what=what, accept=accept, timeout_ms=timeout_ms)

    async def _master(self, broker_name: str, what: str) -> str:
        """The name servers are asked about a broker that has no topic in use here."""
        routes, brokers = self._endpoint.routes, self._brokers
        address = routes.master(broker_name) or brokers.master(broker_name)
        if address is None:
            await self._looking.join("", brokers.look)
            address = brokers.master(broker_name)
        if address is None:
            raise Refused(Refusal.UNAVAILABLE, f"{what}: no master of the broker {broker_name!r} is known")
        return address

    async def ask_at(
        self, address: str, code: RequestCode, header: Header | None, body: bytes = b"", *, what: str,
        accept: Iterable[int] = SUCCESS, timeout_ms: int | None = None,
    ) -> Command:  # fmt: skip
        """The answer of the broker at that address."""
        try:
            answer = await self._at(address, self._endpoint.call(address, code, header, body, timeout_ms=timeout_ms))
        except GantryError as error:
            raise away(error, what) from error
        if answer.code not in accept:
            raise refused_by(answer, what)
        return answer

    async def tell(self, broker_name: str, code: RequestCode, header: Header, *, what: str) -> None:
        """Send without waiting for an answer."""
        address = await self._master(broker_name, what)
        try:
            await self._at(address, self._endpoint.call_oneway(address, code, header))
        except GantryError as error:
            raise away(error, what) from error

    async def _at(self, address: str, work: Coroutine[Any, Any, T]) -> T:
        """What is to be done at a broker. A call of gRPC is carried out in no task (``grpc.serving.running``), and to
        connect needs one, because that has a time limit."""
        if self._endpoint.ready(address) is not None:
            return await work
        return await asyncio.get_running_loop().create_task(work)
