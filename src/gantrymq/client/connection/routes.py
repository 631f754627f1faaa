"""Routes: which brokers hold a topic, and at which addresses. The name servers know them; this module caches and
refreshes them.

Source: MQClientInstance.updateTopicRouteInfoFromNameServer; docs/protocol.md#sending.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from gantrymq.client.connection.name_servers import NameServers
from gantrymq.errors import GantryError, RequestRejected, RouteNotFound, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import MASTER_ID, TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.topics import PERM_READ, PERM_WRITE
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.runtime.tasks import SharedWork

log = logging.getLogger("gantrymq.client")


def publish_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """The queues that may be written: those of brokers with a master, in route order."""
    with_master = {broker.broker_name for broker in route.broker_datas if broker.master}
    if route.order_topic_conf:
        places = (item.partition(":") for item in route.order_topic_conf.split(";") if item)
        return [MessageQueue(topic, name, number) for name, _, count in places for number in range(int(count or 0))]
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
        if data.perm & PERM_WRITE and data.broker_name in with_master
        for number in range(data.write_queue_nums)
    ]


def subscribe_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """The queues that may be read, in RocketMQ's order."""
    return sorted(
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for number in range(data.read_queue_nums)
    )


class Routes:
    """The routes by topic, and the addresses by broker name. Concurrent look-ups of one topic share one request."""

    def __init__(self, name_servers: NameServers) -> None:
        self._name_servers = name_servers
        self._topics: dict[str, TopicRoute] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._last_masters: dict[str, str] = {}
        """By broker name; also those that the name servers have forgotten."""
        self._asking: SharedWork[str, TopicRoute] = SharedWork()

    def known(self, topic: str) -> TopicRoute | None:
        return self._topics.get(topic)

    async def get(self, topic: str) -> TopicRoute:
        """The cached route, or else the one of the name servers. Raises RouteNotFound, or Unreachable when no name
        server answers."""
        return self._topics.get(topic) or await self.fetch(topic)

    async def fetch(self, topic: str) -> TopicRoute:
        """The route as the name servers know it now; errors as for ``get``."""
        return await self._asking.join(topic, partial(self._ask, topic))

    async def _ask(self, topic: str) -> TopicRoute:
        answer = await self._name_servers.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic, accept_standard_json_only=True)
        )
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            # A cached route stays, because name servers that were just restarted know nothing for a while.
            raise RouteNotFound(
                topic, "no name server knows it; create it (`gantry topic create`), or start the broker that holds it"
            )
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRejected(answer.code, answer.remark, request=f"route of topic {topic!r}")
        return self._take(topic, TopicRoute.decode(answer.body))

    def _take(self, topic: str, route: TopicRoute) -> TopicRoute:
        self._topics[topic] = route
        for broker in route.broker_datas:
            self._brokers[broker.broker_name] = dict(broker.broker_addrs)
            if broker.master is not None:
                self._last_masters[broker.broker_name] = broker.master
        self._forget_brokers()
        return route

    def _forget_brokers(self) -> None:
        """Forget the brokers that no topic in use is on any more; they need no heartbeats."""
        used = {broker.broker_name for route in self._topics.values() for broker in route.broker_datas}
        for name in self._brokers.keys() - used:
            del self._brokers[name]

    def adopt(self, topic: str, template: TopicRoute) -> None:
        """Use the route of another topic until the name servers know this one."""
        self._topics.setdefault(topic, template)

    def introduce(self, topic: str, route: TopicRoute) -> None:
        """Use a route that another process has asked for, unless this one knows the topic. So brokers are reached while
        no name server is."""
        if topic not in self._topics:
            self._take(topic, route)

    def forget(self, topic: str) -> None:
        self._topics.pop(topic, None)

    async def refresh(self, topics: Iterable[str] | None = None) -> None:
        """Fetch the route of every topic in use again. Failures are logged, and the old routes stay."""
        for topic in list(self._topics if topics is None else topics):
            try:
                await self.fetch(topic)
            except GantryError as error:
                log.debug("route of %s not refreshed: %s", topic, error)
                if error.__class__ is Unreachable:
                    return

    def master(self, broker_name: str) -> str | None:
        """Address of a broker's master; None when there is none (now)."""
        addresses = self._brokers.get(broker_name)
        return addresses.get(MASTER_ID) if addresses else None

    def last_master(self, broker_name: str) -> str | None:
        """Address of the master of a broker when the name servers last knew one."""
        return self._last_masters.get(broker_name)

    def readable(self, broker_name: str) -> str | None:
        """Address to read from: the master, else any of its slaves."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        return addresses.get(MASTER_ID) or addresses[min(addresses)]

    def masters(self) -> set[str]:
        return {addresses[MASTER_ID] for addresses in self._brokers.values() if MASTER_ID in addresses}

    def addresses(self) -> set[str]:
        return {address for addresses in self._brokers.values() for address in addresses.values()}

    def name_at(self, address: str) -> str | None:
        """Name of the broker at ``address``."""
        return next((name for name, addresses in self._brokers.items() if address in addresses.values()), None)


def fallback_topics(topic: str) -> tuple[str, ...]:
    """The topics whose route is used for a topic that does not exist yet. There is none for retry topics, which only
    brokers create."""
    return () if topic.startswith(system_topics.RETRY_PREFIX) else (system_topics.AUTO_CREATE,)
