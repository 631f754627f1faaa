"""Connected clients, as tools see them. In JSON the fields have RocketMQ's names.

Source: Connection, ConsumerConnection, ProducerInfo.
"""

from __future__ import annotations

import msgspec
from msgspec import field

from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.message.numbers import Int, Long


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group."""

    client_id: str
    client_addr: str
    language: str | None = None
    version: Int = 0


class GroupConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of a consumer group that is online."""

    connection_set: list[ClientConnection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    subscription_conflicts: dict[str, dict[str, list[str]]] | None = None
    """Topics that members select from in different ways: selector to client ids. Only GantryMQ's brokers say it, and
    only where there are such topics."""


class LiveProducer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a producer group."""

    client_id: str
    remote_ip: str = field(name="remoteIP", default="")
    language: str | None = None
    version: Int = 0
    last_update_timestamp: Long = 0
    """ms since 1970"""
