"""All brokers that the name servers know, for a client that has something to answer wherever its predecessor sent.

Source: RouteInfoManager.getAllClusterInfo.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.errors import GantryError
from gantrymq.protocol.bodies.route import ClusterInfo
from gantrymq.protocol.codes import RequestCode, ResponseCode

log = logging.getLogger("gantrymq.client")

LOOK_UP_INTERVAL_S: Final = 2.0
"""How often the name servers are asked until they answer; from then on at the interval of the routes."""


class ClusterBrokers:
    """Asks the name servers for the brokers, at intervals."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._masters: dict[str, str] = {}
        """By the name of the broker."""
        self._replicas: dict[str, None] = {}

    def master(self, broker_name: str) -> str | None:
        """Address of a broker's master, whatever topics it has; None when none was known at the last look."""
        return self._masters.get(broker_name)

    def name_at(self, address: str) -> str | None:
        """Name of the broker whose master is at ``address``."""
        return next((name for name, master in self._masters.items() if master == address), None)

    def addresses(self) -> list[str]:
        """The masters: first those of the topics in use, then all others. Behind them the replicas: each may be the
        primary at any moment."""
        masters = (*sorted(self._endpoint.routes.masters()), *sorted(self._masters.values()))
        return list(dict.fromkeys((*masters, *self._replicas)))

    async def keep(self, connect: Callable[[], Awaitable[None]]) -> None:
        """Ask for ever, and ``connect`` to the brokers after every answer."""
        clock, config = self._endpoint.clock, self._endpoint.config
        while True:
            answered = await self.look()
            if answered:
                await connect()
            await clock.sleep(config.route_refresh_ms / 1000 if answered else LOOK_UP_INTERVAL_S)

    async def look(self) -> bool:
        """Ask now; whether any broker is known."""
        try:
            answer = await self._endpoint.name_servers.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
            if answer.code != ResponseCode.SUCCESS:
                log.debug("the name server does not list its brokers: %d %s", answer.code, answer.remark)
                return False
            brokers = ClusterInfo.decode(answer.body).broker_addr_table.values()
        except GantryError as error:
            log.debug("the brokers are not known: %s", error)
            return False
        self._masters = {broker.broker_name: broker.master for broker in brokers if broker.master is not None}
        self._replicas = dict.fromkeys(sorted(one for broker in brokers for one in broker.broker_addrs.values()))
        return bool(self._masters)
