"""Routes of topics as the name servers know them: what the broker asks for other brokers' queues."""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.topics import PERM_READ
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.several import Several
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.broker")

ROUTE_TIMEOUT_MS: Final = 2_000


class NameServerRoutes:
    """A ``RouteSource`` that asks the name servers; a silent one costs little, see ``Several``."""

    def __init__(self, config: LiveConfig, client: RemotingClient, clock: Clock) -> None:
        self._several = Several(client, clock, config.network.name_servers)

    async def readable_queues(self, topic: str) -> list[MessageQueue] | None:
        """Queues that can be read; None when no name server could be asked."""
        if not self._several.addresses:
            return None
        try:
            answer = await self._several.ask(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic=topic), timeout_ms=ROUTE_TIMEOUT_MS
            )
            if answer.code == ResponseCode.SUCCESS:
                return readable_queues(topic, TopicRoute.decode(answer.body))
        except GantryError as error:
            log.warning("no name server gives the route of %s: %s", topic, error)
        return None


def readable_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Of a topic on all brokers."""
    return [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & PERM_READ
        for queue_id in range(data.read_queue_nums)
    ]
