"""Requests of tools to brokers about groups, clients and progress. Source: RocketMQ's header classes."""

from __future__ import annotations

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class ConsumerGroupOnly(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST; answered with a ConsumerConnections body."""

    consumer_group: str


class ControllerMetadata(Header, frozen=True, kw_only=True):
    """The answer to CONTROLLER_GET_METADATA_INFO. Source: GetMetaDataResponseHeader."""

    group: str
    controller_leader_id: str
    controller_leader_address: str
    is_leader: bool
    peers: str


class ProducerGroupOnly(Header, frozen=True, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST; answered with a ProducerConnections body."""

    producer_group: str


class GetConsumeStats(Header, frozen=True, kw_only=True):
    """GET_CONSUME_STATS; answered with a ConsumeStats body."""

    consumer_group: str
    topic: str | None = None
    """Absent or empty: every topic in which the group has offsets."""
    topic_list: str | None = None
    """5.x: several topics, separated by ``;``."""


class ResetOffset(Header, frozen=True, kw_only=True):
    """INVOKE_BROKER_TO_RESET_OFFSET (222) and RESET_CONSUMER_CLIENT_OFFSET (220)."""

    topic: str
    group: str
    timestamp: Long
    """ms since 1970; -1: the end of every queue."""
    is_force: bool
    """False: only backwards."""
    queue_id: Int | None = None
    """5.x; -1 or absent: every queue."""
    offset: Long | None = None
    """5.x, with ``queue_id``; -1 or absent: by ``timestamp``."""


class ClientOfGroup(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO, which the broker passes on to the client; answered with a ConsumerRunning body."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


class ConsumeDirectly(Header, frozen=True, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY, which the broker passes on to the client together with the message."""

    consumer_group: str
    client_id: str | None = None
    """Absent: any member."""
    msg_id: str | None = None
    """Offset message id."""
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None


class GetConsumerStatus(Header, frozen=True, kw_only=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS and GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str
    group: str
    client_addr: str | None = None
    """A client id; absent: every member."""


class ResumeCheck(Header, frozen=True, kw_only=True):
    """RESUME_CHECK_HALF_MESSAGE: check a parked half message again."""

    msg_id: str
    """Offset message id of the parked copy."""
    topic: str | None = None


class ExplainTransaction(Header, frozen=True, kw_only=True):
    """EXPLAIN_TRANSACTION; the body of the answer is a JSON list, which is empty when nothing is known."""

    transaction_id: str
    """UNIQ_KEY, or the offset message id of the half message or of its parked copy."""


class ListChecks(Header, frozen=True, kw_only=True):
    """LIST_CHECKS; the body of the answer is a JSON list with [half queue offset, checks, UNKNOWNs, time of the next
    check in ms since 1970 or null] for each open half message."""

    begin: Long
    """The first half queue offset of the range."""
    end: Long
    """The half queue offset after the range."""


class ListTransactions(Header, frozen=True, kw_only=True):
    """LIST_TRANSACTIONS; the body of the answer is a JSON object: ``transactions``, and ``next``, a cursor or null."""

    state: str
    """``open`` or ``parked``."""
    count: Int
    after: Long = -1
    """The cursor: ``next`` of the page before."""
    min_age_ms: Long = 0
    group: str | None = None
    topic: str | None = None


class Summarize(Header, frozen=True, kw_only=True):
    """SUMMARIZE; the body of the answer is a ``message.summaries.Summaries`` as JSON."""

    what: str
    """``topics``, ``groups`` or ``clients``."""


class TopicAndGroup(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class CorrectionOffset(Header, frozen=True, kw_only=True):
    """QUERY_CORRECTION_OFFSET: the lowest offset of all groups."""

    topic: str
    compare_group: str
    filter_groups: str | None = None
    """Groups that do not count, separated by ``,``."""


class CloneOffsets(Header, frozen=True, kw_only=True):
    """CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    """Absent: every topic of ``src_group``."""
    offline: bool | None = None


class ElectMaster(Header, frozen=True, kw_only=True):
    """CONTROLLER_ELECT_MASTER. Source: ElectMasterRequestHeader."""

    broker_name: str
    broker_id: Long
    """By which the HA handshake names a replica: ours say the identity of their disk there."""
    cluster_name: str | None = None
    designate_elect: bool | None = None
    invoke_time: Long | None = None
    """ms since 1970."""


class StatsKey(Header, frozen=True, kw_only=True):
    """VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class BrokerConsumeStats(Header, frozen=True, kw_only=True):
    """GET_BROKER_CONSUME_STATS."""

    is_order: bool


class GroupTopics(Header, frozen=True, kw_only=True):
    """QUERY_TOPICS_BY_CONSUMER."""

    group: str


class GroupSubscription(Header, frozen=True, kw_only=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str


class UpdateForbidden(Header, frozen=True, kw_only=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str
    topic: str
    readable: bool | None = None
    """Absent: the request only asks for the value."""


class QueryConsumeQueue(Header, frozen=True, kw_only=True):
    """QUERY_CONSUME_QUEUE: the entries of a queue; answered with a ConsumeQueueEntries body."""

    topic: str
    queue_id: Int
    index: Long
    """Queue offset of the first entry."""
    count: Int
    consumer_group: str | None = None


class BrokerConfigAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CONFIG; the body is text, ``key=value`` on every line."""

    version: str | None = None
    """A DataVersion as JSON."""
