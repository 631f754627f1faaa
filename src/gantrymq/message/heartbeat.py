"""The heartbeat: a client, its groups and their subscriptions. In JSON the fields have RocketMQ's names.

Source: HeartbeatData, SubscriptionData.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.message.tags import java_hash, parse_tag_expression

ALL = "*"
"""The expression that matches every message."""


class ConsumeType(enum.StrEnum):
    """How a group gets its messages."""

    PUSH = "CONSUME_PASSIVELY"
    PULL = "CONSUME_ACTIVELY"
    POP = "CONSUME_POP"


class MessageModel(enum.StrEnum):
    """Whether the members of a group share its messages or each get all."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(enum.StrEnum):
    """Where a group starts in a queue for which it has no offset. The last three are deprecated names of the first."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    LAST_OFFSET_MIN_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"


class SubscriptionData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The subscription of a group to one topic."""

    topic: str
    sub_string: str = ALL
    """``*``, or tags joined by ``||``, or SQL text."""
    sub_version: Long = 0
    """When the subscription was made, in milliseconds (Java) or nanoseconds (Go) since 1970."""
    tags_set: list[str] = field(default_factory=list)
    code_set: list[Int] = field(default_factory=list)
    """Hashes of the tags; empty: every message."""
    expression_type: str | None = None
    """``TAG`` (also when absent) or ``SQL92``."""
    class_filter_mode: bool | None = None
    filter_class_source: str | None = None

    @classmethod
    def of_tags(cls, topic: str, expression: str, version_ms: int) -> SubscriptionData:
        """The subscription a Java client makes of ``"A || B"`` or ``"*"``. Source: FilterAPI."""
        tags = sorted(parse_tag_expression(expression))
        return cls(
            topic=topic,
            sub_string=expression.strip() if tags else ALL,
            sub_version=version_ms,
            tags_set=tags,
            code_set=[java_hash(tag) for tag in tags],
            expression_type="TAG",
            class_filter_mode=False,
        )


class ConsumerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A consumer group with a member in this client."""

    group_name: str
    consume_type: ConsumeType = ConsumeType.PUSH
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool | None = None


class ProducerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A producer group with a member in this client."""

    group_name: str


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client says of itself, over and over."""

    client_id: str = field(name="clientID")
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: Int | None = None
    """Not 0: heartbeat version 2."""
    without_sub: bool | None = None
    """True: keep the subscriptions that were sent before."""
