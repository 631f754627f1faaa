"""Sending messages. Source: SendMessageRequestHeader, SendMessageRequestHeaderV2."""

from __future__ import annotations

from msgspec import field

from gantrymq.message.numbers import Int, Long
from gantrymq.message.submission import Submission
from gantrymq.protocol.command import Header


class SendMessage(Header, Submission, frozen=True, kw_only=True):
    """SEND_MESSAGE_V2, SEND_BATCH_MESSAGE, SEND_REPLY_MESSAGE_V2: the names on the wire are single letters."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    """Template for a topic that does not exist yet."""
    default_topic_queue_nums: Int = field(name="d")
    queue_id: Int = field(name="e")
    """Negative: the broker picks a queue."""
    sys_flag: Int = field(name="f")
    born_timestamp: Long = field(name="g")
    """Milliseconds since 1970 by the producer's clock."""
    flag: Int = field(name="h")
    properties: str | None = field(name="i", default=None)
    reconsume_times: Int | None = field(name="j", default=None)
    unit_mode: bool | None = field(name="k", default=None)
    max_reconsume_times: Int | None = field(name="l", default=None)
    """Only in sends to a retry topic."""
    batch: bool | None = field(name="m", default=None)
    bname: str | None = field(name="n", default=None)


class SendMessageLong(Header, Submission, frozen=True, kw_only=True):
    """SEND_MESSAGE and SEND_REPLY_MESSAGE: the fields of SendMessage under long names. The Go client sends them."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None
    batch: bool | None = None
    bname: str | None = None


class SendMessageAnswer(Header, frozen=True, kw_only=True):
    """Answer to every send whose message is stored."""

    msg_id: str
    """Offset message id; for a batch the ids of all messages, joined by commas. Clients decode it."""
    queue_id: Int
    queue_offset: Long
    """The queue offset; for a batch that of its first message, for a half message that in the half queue."""
    transaction_id: str | None = None
    """The message's UNIQ_KEY, also for messages without a transaction (5.x)."""
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = field(name="MSG_REGION", default=None)
    trace_on: str | None = field(name="TRACE_ON", default=None)


class PushReply(SendMessageLong, frozen=True, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT, from broker to producer: the answer to a request.

    Source: ReplyMessageRequestHeader.
    """

    born_host: str
    store_host: str
    store_timestamp: Long


class RecallMessage(Header, frozen=True, kw_only=True):
    """RECALL_MESSAGE: withdraw a timer message before its time of delivery."""

    topic: str
    recall_handle: str
    producer_group: str | None = None
    bname: str | None = None


class RecallMessageAnswer(Header, frozen=True, kw_only=True):
    """Answer to RECALL_MESSAGE."""

    msg_id: str
    """UNIQ_KEY of the message that was withdrawn."""
    region: str | None = field(name="MSG_REGION", default=None)
