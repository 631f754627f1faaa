"""Membership, progress and retries of groups. Source: RocketMQ's header classes of the same names."""

from __future__ import annotations

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class QueryConsumerOffset(Header, frozen=True, kw_only=True):
    """QUERY_CONSUMER_OFFSET; answered with an OffsetAnswer."""

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None
    bname: str | None = None


class UpdateConsumerOffset(Header, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long
    bname: str | None = None


class HeartBeatAnswer(Header, frozen=True, kw_only=True):
    """What a 5.x broker adds to its answer to HEART_BEAT."""

    heart_beat_v2: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    subscription_changed: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClient(Header, frozen=True, kw_only=True):
    """UNREGISTER_CLIENT: one client leaves one producer or consumer group."""

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class SendBack(Header, frozen=True, kw_only=True):
    """CONSUMER_SEND_MSG_BACK: deliver this message again later."""

    offset: Long
    """Log offset of the message."""
    group: str
    delay_level: Int
    """0: the broker decides; negative: to the dead letters."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None
    bname: str | None = None
    receipt_handle: str | None = None
    """Of a popped message, which goes to the dead letters while its delivery ends, in one step. Only GantryMQ has this
    and the next three; Apache's brokers pass over them."""
    popped_topic: str | None = None
    """The topic in which it lies."""
    queue_id: Int | None = None
    queue_offset: Long | None = None


class SendBackAnswer(Header, frozen=True, kw_only=True):
    """Answer to CONSUMER_SEND_MSG_BACK."""

    ended: bool | None = None
    """Whether the delivery has ended with it. Apache's brokers do not say that, and it has not."""


class ConsumerListByGroup(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP; answered with a ConsumerIdList body."""

    consumer_group: str


class ConsumerIdsChanged(Header, frozen=True, kw_only=True):
    """NOTIFY_CONSUMER_IDS_CHANGED, from broker to consumer."""

    consumer_group: str
