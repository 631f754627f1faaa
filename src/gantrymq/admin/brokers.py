"""Brokers: what they say of themselves, and their settings. Source: DefaultMQAdminExtImpl."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.errors import ConfigError
from gantrymq.protocol.bodies.replication import HAStatus
from gantrymq.protocol.bodies.route import ClusterInfo
from gantrymq.protocol.bodies.topics import KVTable
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.tools import ElectMaster


class BrokerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A broker as the name servers know it."""

    cluster: str
    name: str
    broker_id: int
    """0: master."""
    address: str


def _places_in(info: ClusterInfo) -> list[BrokerPlace]:
    return [
        BrokerPlace(cluster=cluster, name=name, broker_id=number, address=address)
        for cluster, names in sorted(info.cluster_addr_table.items())
        for name in sorted(names)
        if name in info.broker_addr_table
        for number, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


class Brokers:
    """Questions about brokers. ``broker``: a name or an address; None: all masters."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def places(self) -> list[BrokerPlace]:
        """Every broker, by cluster, name and id. Raises Unreachable when the name servers know none."""
        info = await self._asking.cluster()
        if not info.broker_addr_table:
            raise self._asking.without_brokers()
        return _places_in(info)

    async def places_at(self, name_server: str) -> list[BrokerPlace]:
        """Every broker that this one name server knows; they may differ. Raises Unreachable, TimedOut and
        RequestRejected."""
        answer = await self._asking.ask(name_server, RequestCode.GET_BROKER_CLUSTER_INFO, what="cluster table")
        return _places_in(ClusterInfo.decode(answer.body))

    async def addresses(self, broker: str | None = None) -> dict[str, str]:
        """Name to address of the masters asked for."""
        return await self._asking.chosen(broker)

    async def runtime(self, address: str) -> dict[str, str]:
        """Figures by name; the names are those of RocketMQ's AdminBrokerProcessor.prepareRuntimeInfo."""
        answer = await self._asking.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO, what="runtime figures")
        return dict(sorted(KVTable.decode(answer.body).table.items()))

    async def replication(self, address: str) -> HAStatus:
        """How far its replicas are, or how far it is as a replica. Raises RequestRejected by brokers before 5.0, which
        do not know the question."""
        answer = await self._asking.ask(address, RequestCode.GET_BROKER_HA_STATUS, what="state of replication")
        return HAStatus.decode(answer.body)

    async def config(self, address: str) -> dict[str, str]:
        """Settings by key."""
        answer = await self._asking.ask(address, RequestCode.GET_BROKER_CONFIG, what="settings of the broker")
        return parse(answer.body.decode("utf-8", "replace"))

    async def set_config(self, address: str, changes: Mapping[str, str]) -> None:
        """Change settings of a running broker. Raises RequestRejected naming what it will not change."""
        for key, value in changes.items():
            if not key or "\n" in key + value or "=" in key:
                raise ConfigError(f"{key!r}={value!r} is not a setting; write key=value on one line")
        body = "".join(f"{key}={value}\n" for key, value in changes.items()).encode()
        await self._asking.ask(address, RequestCode.UPDATE_BROKER_CONFIG, None, body, what="change of settings")

    async def elect(self, place: BrokerPlace, disk: int) -> None:
        """Let a member of a broker group become primary in the place of ``place``. ``disk``: of the member, as its
        ``replication`` says it. Raises RequestRejected saying why not."""
        header = ElectMaster(
            broker_name=place.name, broker_id=disk, cluster_name=place.cluster, designate_elect=True
        )  # fmt: skip
        await self._asking.ask(place.address, RequestCode.CONTROLLER_ELECT_MASTER, header, what="change of the primary")


def parse(text: str) -> dict[str, str]:
    """``key=value`` on every line; Java's broker escapes nothing there."""
    pairs = (line.partition("=") for line in text.splitlines() if line and line[0] != "#")
    return dict(sorted((key.strip(), value) for key, mark, value in pairs if mark))
