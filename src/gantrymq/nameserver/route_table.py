"""The route table of a name server. Pure: the time is an argument, and sessions are numbers.

A broker name stands for one master (id 0) and its slaves. Only the master says which queues its topics have. Source:
RouteInfoManager; docs/protocol.md#name-server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gantrymq.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute
from gantrymq.protocol.bodies.topics import PERM_WRITE, DataVersion, TopicConfig

EXPIRY_SECONDS: Final = 120.0
"""A broker that has not registered for this long is taken out (``heartbeatTimeoutMillis`` of its own wins)."""
ALIVE_SECONDS: Final = 70.0
"""A broker that has not been heard of for this long defends its name and id no more: it registers every minute, if not
more often, and its machine may have died without closing the connection."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What one REGISTER_BROKER says."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    topics: dict[str, TopicConfig]
    timeout_s: float = EXPIRY_SECONDS
    acting_master: bool | None = None


@dataclass(slots=True)
class _Live:
    """A registered broker process."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    session: int
    deadline: float
    timeout_s: float

    @property
    def heard(self) -> float:
        return self.deadline - self.timeout_s


@dataclass(slots=True)
class _Named:
    """A broker name: its processes by id."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool | None = None


class RouteTable:
    """All registrations. Not thread-safe; every method is immediate."""

    def __init__(self) -> None:
        self._live: dict[str, _Live] = {}
        """By broker address."""
        self._named: dict[str, _Named] = {}
        self._queues: dict[str, dict[str, QueueData]] = {}
        """Topic to broker name to queues."""

    # Changes.

    def rival(self, registration: Registration, session: int, now: float) -> str | None:
        """The address of the living broker whose place this one would take, having its name and id; None: none lives.

        A broker that moved is no rival of its old self: it comes over the same connection, or after the old one was
        closed. Nor is the master that a controller chose a rival of the one before: its state version is higher.
        """
        named = self._named.get(registration.broker_name)
        address = named.addresses.get(registration.broker_id) if named is not None else None
        live = self._live.get(address) if address is not None else None
        if live is None or live.address == registration.address or live.session == session:
            return None
        if now - live.heard >= ALIVE_SECONDS:
            return None
        if (registration.data_version.state_version or 0) > (live.data_version.state_version or 0):
            return None
        return live.address

    def register(self, registration: Registration, session: int, now: float) -> str | None:
        """Take in a broker, or the news of one. Returns the master's address when another process is the master.

        Whoever had its name and id is replaced: ask for its ``rival`` before.
        """
        known = self._live.get(registration.address)
        first = known is None or (known.cluster, known.broker_name, known.broker_id) != (
            registration.cluster, registration.broker_name, registration.broker_id,
        )  # fmt: skip
        if known is not None and first:
            self._remove(known)
        changed = first or known is None or known.data_version != registration.data_version
        self._place(registration)
        self._live[registration.address] = _Live(
            registration.cluster, registration.broker_name, registration.broker_id, registration.address,
            registration.ha_address, registration.data_version, session, now + registration.timeout_s,
            registration.timeout_s,
        )  # fmt: skip
        if registration.broker_id == MASTER_ID and changed:
            for topic in registration.topics.values():
                self._declare(registration.broker_name, topic)
        master = self._named[registration.broker_name].addresses.get(MASTER_ID)
        return master if registration.broker_id != MASTER_ID else None

    def _place(self, registration: Registration) -> None:
        named = self._named.get(registration.broker_name)
        if named is None:
            named = self._named[registration.broker_name] = _Named(registration.cluster)
        named.cluster = registration.cluster
        named.acting_master = registration.acting_master
        # A process that moved to another address, or took another id, replaces its old self.
        previous = named.addresses.get(registration.broker_id)
        if previous is not None and previous != registration.address:
            self._live.pop(previous, None)
        named.addresses = {
            broker_id: address for broker_id, address in named.addresses.items() if address != registration.address
        }
        named.addresses[registration.broker_id] = registration.address

    def _declare(self, broker_name: str, topic: TopicConfig) -> None:
        self._queues.setdefault(topic.topic_name, {})[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_sys_flag=topic.topic_sys_flag,
        )

    def unregister(self, address: str, broker_name: str, broker_id: int) -> bool:
        """A broker says goodbye; False when there is none of that name and id at that address."""
        live = self._live.get(address)
        if live is None or (live.broker_name, live.broker_id) != (broker_name, broker_id):
            return False
        self._remove(live)
        return True

    def session_closed(self, session: int) -> list[str]:
        """A connection ended: brokers that registered over it are gone. Returns their addresses."""
        return self._remove_all(live for live in self._live.values() if live.session == session)

    def expire(self, now: float) -> list[str]:
        """Take out brokers that were silent for too long. Returns their addresses."""
        return self._remove_all(live for live in self._live.values() if live.deadline <= now)

    def _remove_all(self, brokers: Iterable[_Live]) -> list[str]:
        gone = list(brokers)
        for live in gone:
            self._remove(live)
        return [live.address for live in gone]

    def _remove(self, live: _Live) -> None:
        self._live.pop(live.address, None)
        named = self._named.get(live.broker_name)
        if named is None:
            return
        if named.addresses.get(live.broker_id) == live.address:
            del named.addresses[live.broker_id]
        if not named.addresses:
            del self._named[live.broker_name]
            for topic in list(self._queues):
                self._drop_queues(topic, live.broker_name)

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        brokers = self._queues[topic]
        brokers.pop(broker_name, None)
        if not brokers:
            del self._queues[topic]

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Forget a topic, in one cluster or everywhere. A broker that still holds it can bring it back."""
        for broker_name in list(self._queues.get(topic, ())):
            if not cluster or self._named[broker_name].cluster == cluster:
                self._drop_queues(topic, broker_name)

    def set_writable(self, broker_name: str, writable: bool) -> int:
        """Give or take the write permission of all topics of a broker; returns how many topics."""
        touched = 0
        for brokers in self._queues.values():
            queues = brokers.get(broker_name)
            if queues is not None:
                perm = queues.perm | PERM_WRITE if writable else queues.perm & ~PERM_WRITE
                brokers[broker_name] = msgspec.structs.replace(queues, perm=perm)
                touched += 1
        return touched

    # Questions.

    def data_version(self, address: str) -> DataVersion | None:
        """What a broker registered last; None for a stranger."""
        live = self._live.get(address)
        return live.data_version if live is not None else None

    def touch(self, address: str, now: float) -> None:
        """A sign of life that brings no news."""
        live = self._live.get(address)
        if live is not None:
            live.deadline = now + live.timeout_s

    def ha_address(self, address: str) -> str | None:
        """Where slaves of the broker at ``address`` replicate from."""
        live = self._live.get(address)
        return live.ha_address if live is not None else None

    def lookup(self, topic: str, order_conf: str | None = None) -> TopicRoute | None:
        """Queues of a topic and the brokers that have them; None when nobody has it."""
        brokers = self._queues.get(topic)
        if not brokers:
            return None
        return TopicRoute(
            queue_datas=list(brokers.values()),
            broker_datas=[self._broker_data(name) for name in brokers],
            order_topic_conf=order_conf,
        )

    def _broker_data(self, broker_name: str) -> BrokerData:
        named = self._named[broker_name]
        return BrokerData(
            broker_name=broker_name,
            broker_addrs=dict(sorted(named.addresses.items())),
            cluster=named.cluster,
            enable_acting_master=bool(named.acting_master),
        )

    def clusters(self) -> ClusterInfo:
        """All brokers by name, all names by cluster."""
        names: dict[str, list[str]] = {}
        for name, named in self._named.items():
            names.setdefault(named.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name) for name in self._named}, cluster_addr_table=names
        )

    def topics(self) -> list[str]:
        return list(self._queues)

    def declare(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Queues that somebody else says brokers have; those of brokers that nobody registered are left out."""
        for queue in queues:
            if queue.broker_name in self._named:
                self._queues.setdefault(topic, {})[queue.broker_name] = queue

    def system_topics(self) -> tuple[list[str], str | None]:
        """Topics every cluster and broker has: those with their names. Also the address of some broker."""
        names = [named.cluster for named in self._named.values()] + list(self._named)
        return list(dict.fromkeys(names)), next(iter(self._live), None)

    def topics_with(self, has: int, has_not: int = 0) -> list[str]:
        """Topics with these bits in their system flag, and without those."""
        return [
            topic
            for topic, brokers in self._queues.items()
            if any((flag := queues.topic_sys_flag or 0) & has and not flag & has_not for queues in brokers.values())
        ]

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Topics that any broker of the cluster has."""
        members = {name for name, named in self._named.items() if named.cluster == cluster}
        return [topic for topic, brokers in self._queues.items() if members & brokers.keys()]
