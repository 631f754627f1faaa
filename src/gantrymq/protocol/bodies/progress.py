"""The progress of queues and groups, and connected clients: answers to tools.

The keys of a table by queue are queues as JSON (docs/protocol.md#json-bodies). :func:`queue_of` and :func:`key_of`
convert between queue and key.

Source: TopicStatsTable, ConsumeStats, ConsumerConnection, ProducerConnection, ProducerTableInfo, ConsumerRunningInfo,
ResetOffsetBody, QueryConsumeQueueResponseBody.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import field

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.connections import ClientConnection, GroupConnections, LiveProducer
from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.message.numbers import Int, Long
from gantrymq.message.progress import QueueEntries, QueueProgress, TimeSpan, TopicOffset
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.body import Body


def queue_of(key: str) -> MessageQueue:
    """The queue of a key in a table by queue. Raises RemoteProtocolError."""
    try:
        return msgspec.json.decode(key, type=MessageQueue)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"malformed queue {key[:100]!r}: {error}") from error


def key_of(queue: MessageQueue) -> str:
    """The key for a queue."""
    return msgspec.json.encode(queue, order="sorted").decode()


_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"(:?)')


class ByQueue(Body, frozen=True, kw_only=True):
    """A body with a table by queue. Its keys are written as objects, as Apache's brokers do, because not every reader
    accepts texts as keys (docs/protocol.md#json-bodies).
    """

    def encode(self) -> bytes:
        return _TEXT.sub(_object_key, super().encode())


def _object_key(text: re.Match[bytes]) -> bytes:
    if not text[1] or not text[0].startswith(b'"{'):
        return text[0]
    return msgspec.json.decode(text[0][:-1], type=str).encode() + b":"


class TopicStats(ByQueue, frozen=True, kw_only=True):
    """Answer to GET_TOPIC_STATS_INFO."""

    offset_table: dict[str, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float | None = None
    """5.x."""

    def by_queue(self) -> dict[MessageQueue, TopicOffset]:
        return {queue_of(key): value for key, value in self.offset_table.items()}


class ConsumeStats(ByQueue, frozen=True, kw_only=True):
    """Answer to GET_CONSUME_STATS."""

    offset_table: dict[str, QueueProgress] = field(default_factory=dict)
    consume_tps: float = 0.0

    def by_queue(self) -> dict[MessageQueue, QueueProgress]:
        return {queue_of(key): value for key, value in self.offset_table.items()}


class ConsumerConnections(Body, GroupConnections, frozen=True, kw_only=True):
    """Answer to GET_CONSUMER_CONNECTION_LIST."""


class ProducerConnections(Body, frozen=True, kw_only=True):
    """Answer to GET_PRODUCER_CONNECTION_LIST."""

    connection_set: list[ClientConnection] = field(default_factory=list)


class ProducerTable(Body, frozen=True, kw_only=True):
    """Answer to GET_ALL_PRODUCER_INFO: clients by producer group."""

    data: dict[str, list[LiveProducer]] = field(default_factory=dict)


class OffsetsByQueue(ByQueue, frozen=True, kw_only=True):
    """Answer to INVOKE_BROKER_TO_RESET_OFFSET: the new offset of every queue."""

    offset_table: dict[str, Long] = field(default_factory=dict)

    def by_queue(self) -> dict[MessageQueue, int]:
        return {queue_of(key): value for key, value in self.offset_table.items()}


class PositionsByClient(ByQueue, frozen=True, kw_only=True):
    """Answer to INVOKE_BROKER_TO_GET_CONSUMER_STATUS (by client, then queue) and, from the client, to
    GET_CONSUMER_STATUS_FROM_CLIENT (by queue).
    """

    consumer_table: dict[str, dict[str, Long]] = field(default_factory=dict)
    message_queue_table: dict[str, Long] = field(default_factory=dict)


class ConsumedDirectly(Body, frozen=True, kw_only=True):
    """Answer to CONSUME_MESSAGE_DIRECTLY. Source: ConsumeMessageDirectlyResult."""

    order: bool = False
    auto_commit: bool = True
    consume_result: str
    """``CR_SUCCESS``, ``CR_LATER``, ``CR_ROLLBACK``, ``CR_COMMIT``, ``CR_THROW_EXCEPTION`` or ``CR_RETURN_NULL``."""
    remark: str | None = None
    spent_time_mills: Long = 0


class ConsumerRunning(ByQueue, frozen=True, kw_only=True):
    """Answer to GET_CONSUMER_RUNNING_INFO, as the client wrote it. Clients of different languages fill different parts,
    so tools show the parts as they are.
    """

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By queue."""
    mq_pop_table: dict[str, dict[str, Any]] | None = None
    """5.x."""
    status_table: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By topic."""
    user_consumer_info: dict[str, str] | None = None
    """5.x."""
    jstack: str | None = None


class ConsumeStatsList(ByQueue, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CONSUME_STATS: the answer to GET_CONSUME_STATS for each topic, by group."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str = ""
    total_diff: Long = 0
    """Messages that were not consumed."""
    total_inflight_diff: Long = 0
    """Messages that were pulled and not consumed."""


class TimeSpans(Body, frozen=True, kw_only=True):
    """Answer to QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[TimeSpan] = field(default_factory=list)


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """Answer to QUERY_CORRECTION_OFFSET, by queue id."""

    correction_offsets: dict[Int, Long] = field(default_factory=dict)


class SubscriptionAnswer(Body, frozen=True, kw_only=True):
    """Answer to QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str
    subscription_data: SubscriptionData | None = None


class ConsumeQueueEntries(Body, QueueEntries, frozen=True, kw_only=True):
    """Answer to QUERY_CONSUME_QUEUE."""
