"""How far queues and groups are. In JSON the fields have RocketMQ's names.

Source: TopicOffset, OffsetWrapper, QueueTimeSpan, ConsumeQueueData.
"""

from __future__ import annotations

import msgspec
from msgspec import field

from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.message.numbers import Int, Long
from gantrymq.message.queues import MessageQueue


class TopicOffset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The offsets of a queue."""

    min_offset: Long = 0
    max_offset: Long = 0
    last_update_timestamp: Long = 0
    """When its last message was stored, ms since 1970; 0: never."""


class QueueProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The progress of a group in a queue."""

    broker_offset: Long = 0
    """The offset after the last message."""
    consumer_offset: Long = 0
    last_timestamp: Long = 0
    """The store time of the last message that was consumed, ms since 1970; 0: unknown."""
    pull_offset: Long | None = None
    """The offset up to which messages were pulled (5.x)."""


class TimeSpan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The store times of one queue as a group sees it, in ms since 1970; -1 or 0 when there is no message."""

    message_queue: MessageQueue
    min_time_stamp: Long
    max_time_stamp: Long
    consume_time_stamp: Long
    delay_time: Long
    """ms since the next message was stored; 0 when all are consumed."""


class ConsumeQueueEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of a consume queue."""

    physic_offset: Long
    """Log offset of the record."""
    physic_size: Int = 0
    tags_code: Long = 0


class QueueEntries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some entries of a consume queue."""

    queue_data: list[ConsumeQueueEntry] = field(default_factory=list)
    min_queue_index: Long = 0
    max_queue_index: Long = 0
    subscription_data: SubscriptionData | None = None
    """The subscription of the group that the request named."""
