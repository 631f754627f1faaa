"""Routes: the brokers of a topic and their addresses. Source: TopicRouteData, QueueData, BrokerData, ClusterInfo."""

from __future__ import annotations

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.body import Body

MASTER_ID = 0
"""Key of the master in ``broker_addrs``."""


class QueueData(Body, frozen=True, kw_only=True):
    """The queues of a topic on one broker (or on one set of master and slaves)."""

    broker_name: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    """Bits: 4 read, 2 write, 1 inherit."""
    topic_sys_flag: Int | None = None


class BrokerData(Body, frozen=True, kw_only=True):
    """The addresses of a broker: id to ``ip:port``; id 0 is the master."""

    broker_name: str
    broker_addrs: dict[Long, str]
    cluster: str | None = None
    enable_acting_master: bool | None = None
    zone_name: str | None = None

    @property
    def master(self) -> str | None:
        """The address of the master; None while no master is registered."""
        return self.broker_addrs.get(MASTER_ID)


class TopicRoute(Body, frozen=True, kw_only=True):
    """Answer to GET_ROUTEINFO_BY_TOPIC."""

    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    """``broker:queues;broker:queues``."""


class ClusterInfo(Body, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CLUSTER_INFO: brokers by name, broker names by cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)
