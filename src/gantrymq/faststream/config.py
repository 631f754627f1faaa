"""What brokers, subscribers and publishers are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from faststream._internal.configs import (
    BrokerConfig,
    PublisherSpecificationConfig,
    PublisherUsecaseConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
)
from faststream._internal.constants import EMPTY
from faststream.middlewares import AckPolicy

from gantrymq.client.config import PushConfig, settings_of
from gantrymq.client.consuming.filters import filter_of
from gantrymq.errors import ConfigError
from gantrymq.faststream.connection import Connection
from gantrymq.faststream.response import Sending
from gantrymq.message import system_topics
from gantrymq.message.arguments import shown
from gantrymq.message.heartbeat import ConsumeFromWhere


def check_name(what: str, name: object) -> None:
    """Raises ConfigError. What is in the name is checked with its prefix, when it is used."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f'{what} must be a text, for example "orders-paid", not {shown(name)}')


@dataclass(kw_only=True)
class GantryBrokerConfig(BrokerConfig):
    connection: Connection


@dataclass(kw_only=True)
class GantrySubscriberConfig(SubscriberUsecaseConfig):
    _outer_config: GantryBrokerConfig

    topic: str
    group: str
    tags: str = "*"
    sql: str | None = None
    batch: bool = False
    from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    settings: dict[str, Any] = field(default_factory=dict)
    """Fields of PushConfig, of this subscriber alone."""

    def __post_init__(self) -> None:
        check_name("the topic of a subscriber", self.topic)
        if self.group:
            system_topics.check_group(self.group)
        filter_of(self.tags, self.sql)
        settings_of(PushConfig, "127.0.0.1:9876", self.settings)  # errors come where the subscriber is written

    @property
    def ack_policy(self) -> AckPolicy:
        if self._ack_policy is not EMPTY:
            return AckPolicy(self._ack_policy)
        outer = self._outer_config.ack_policy
        return outer if outer is not EMPTY else AckPolicy.NACK_ON_ERROR


@dataclass(kw_only=True)
class GantrySubscriberSpecificationConfig(SubscriberSpecificationConfig):
    topic: str
    group: str


@dataclass(kw_only=True)
class GantryPublisherConfig(PublisherUsecaseConfig):
    _outer_config: GantryBrokerConfig

    topic: str
    headers: dict[str, Any]
    reply_to: str
    sending: Sending

    def __post_init__(self) -> None:
        check_name("the topic of a publisher", self.topic)


@dataclass(kw_only=True)
class GantryPublisherSpecificationConfig(PublisherSpecificationConfig):
    topic: str
