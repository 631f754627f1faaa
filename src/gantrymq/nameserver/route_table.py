"""The route table of a name server. It does no I/O: the time is an argument, and sessions are numbers.

A broker name stands for one master (id 0) and its slaves. Only the master determines which queues its topics have.
Source: RouteInfoManager; docs/protocol.md#name-server.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gantrymq.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute
from gantrymq.protocol.files.topics import PERM_WRITE, DataVersion, TopicConfig

EXPIRY_SECONDS: Final = 120.0
"""A broker that has not registered for this long is removed. The broker's own ``heartbeatTimeoutMillis`` takes
precedence."""
ALIVE_SECONDS: Final = 70.0
"""When a broker has been silent for this long, another broker may take its name and id. Brokers register at least every
minute, and a machine may die without closing its connections."""


class Removed(enum.Enum):
    """Why a broker was removed."""

    UNREGISTERED = "unregistered"
    LOST = "lost"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Registration:
    """The content of one REGISTER_BROKER request."""

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
    """The processes with one broker name, by id."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    acting_master: bool | None = None


class RouteTable:
    """All registrations. Not thread-safe; no method waits."""

    def __init__(self) -> None:
        self._live: dict[str, _Live] = {}
        """The registered broker processes by address."""
        self._named: dict[str, _Named] = {}
        self._queues: dict[str, dict[str, QueueData]] = {}
        """The queues by topic and broker name."""
        self.registered_new = self.registered_again = 0
        """Registrations of brokers that were not known before, and of those that were."""
        self.removed: Counter[Removed] = Counter()

    # Changes.

    def rival(self, registration: Registration, session: int, now: float) -> str | None:
        """The address of a living broker with the same name and id, which this registration would replace; None: there
        is none.

        A broker that has moved to another address is not its own rival: it registers over the same connection, or after
        the old connection was closed. The previous master is not a rival of a master that a controller has chosen,
        which has a higher state version.
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
        """Add or update a broker with its topics. Returns the master's address when another process is the master.

        This replaces a broker with the same name and id, so call ``rival`` first.
        """
        for _ in self.registering(registration, session, now):
            pass
        return self.master_of(registration)

    def registering(self, registration: Registration, session: int, now: float) -> Iterator[None]:
        """The same in steps, of which each declares one topic. Before the first one the broker counts as registered.

        The rest is left out when the broker leaves meanwhile, or registers other topics.
        """
        if not self._enter(registration, session, now):
            return
        for topic in registration.topics.values():
            live = self._live.get(registration.address)
            if live is None or live.data_version != registration.data_version:
                return
            self._declare(registration.broker_name, topic)
            yield

    def master_of(self, registration: Registration) -> str | None:
        """The address of the master, when another process is the master."""
        named = self._named.get(registration.broker_name)
        if named is None or registration.broker_id == MASTER_ID:
            return None
        return named.addresses.get(MASTER_ID)

    def _enter(self, registration: Registration, session: int, now: float) -> bool:
        """Note the process. Returns whether its topics are to be declared."""
        known = self._live.get(registration.address)
        first = known is None or (known.cluster, known.broker_name, known.broker_id) != (
            registration.cluster, registration.broker_name, registration.broker_id,
        )  # fmt: skip
        if first:
            self.registered_new += 1
        else:
            self.registered_again += 1
        if known is not None and first:
            self._remove(known)
        changed = first or known is None or known.data_version != registration.data_version
        self._place(registration)
        self._live[registration.address] = _Live(
            registration.cluster, registration.broker_name, registration.broker_id, registration.address,
            registration.ha_address, registration.data_version, session, now + registration.timeout_s,
            registration.timeout_s,
        )  # fmt: skip
        return registration.broker_id == MASTER_ID and changed

    def _place(self, registration: Registration) -> None:
        named = self._named.get(registration.broker_name)
        if named is None:
            named = self._named[registration.broker_name] = _Named(registration.cluster)
        named.cluster = registration.cluster
        named.acting_master = registration.acting_master
        # A process that moved to another address, or took another id, replaces its old registration.
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
        """Remove a broker that shuts down; False when there is none with that name and id at that address."""
        live = self._live.get(address)
        if live is None or (live.broker_name, live.broker_id) != (broker_name, broker_id):
            return False
        self._remove(live)
        self.removed[Removed.UNREGISTERED] += 1
        return True

    def session_closed(self, session: int) -> list[str]:
        """Remove the brokers that registered over a connection that was closed. Returns their addresses."""
        return self._remove_all((live for live in self._live.values() if live.session == session), Removed.LOST)

    def expire(self, now: float) -> list[str]:
        """Remove brokers that were silent for too long. Returns their addresses."""
        return self._remove_all((live for live in self._live.values() if live.deadline <= now), Removed.SILENT)

    def _remove_all(self, brokers: Iterable[_Live], reason: Removed) -> list[str]:
        gone = list(brokers)
        self.removed[reason] += len(gone)
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
        """Remove a topic, in one cluster or everywhere. A broker that still has it can register it again."""
        for broker_name in list(self._queues.get(topic, ())):
            if not cluster or self._named[broker_name].cluster == cluster:
                self._drop_queues(topic, broker_name)

    def set_writable(self, broker_name: str, writable: bool) -> int:
        """Grant or remove the write permission for all topics of a broker. Returns the number of topics."""
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
        """The data version that a broker registered last; None for an unknown broker."""
        live = self._live.get(address)
        return live.data_version if live is not None else None

    def touch(self, address: str, now: float) -> None:
        """Record that a broker is alive and has registered no changes."""
        live = self._live.get(address)
        if live is not None:
            live.deadline = now + live.timeout_s

    def ha_address(self, address: str) -> str | None:
        """The address from which slaves of the broker at ``address`` replicate."""
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
        """All brokers by name, and all broker names by cluster."""
        names: dict[str, list[str]] = {}
        for name, named in self._named.items():
            names.setdefault(named.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name) for name in self._named}, cluster_addr_table=names
        )

    def topics(self) -> list[str]:
        return list(self._queues)

    def brokers_by_cluster(self) -> Counter[str]:
        """How many processes are registered."""
        return Counter(live.cluster for live in self._live.values())

    def declare(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Add queues that a tool declares for brokers. Those of brokers that are not registered are left out."""
        for queue in queues:
            if queue.broker_name in self._named:
                self._queues.setdefault(topic, {})[queue.broker_name] = queue

    def system_topics(self) -> tuple[list[str], str | None]:
        """The topics that are named after each cluster and broker, and the address of one broker."""
        names = [named.cluster for named in self._named.values()] + list(self._named)
        return list(dict.fromkeys(names)), next(iter(self._live), None)

    def topics_with(self, has: int, has_not: int = 0) -> list[str]:
        """Topics whose system flag has all bits of ``has`` and none of ``has_not``."""
        return [
            topic
            for topic, brokers in self._queues.items()
            if any((flag := queues.topic_sys_flag or 0) & has and not flag & has_not for queues in brokers.values())
        ]

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Topics that any broker of the cluster has."""
        members = {name for name, named in self._named.items() if named.cluster == cluster}
        return [topic for topic, brokers in self._queues.items() if members & brokers.keys()]
