"""Which operation each remoting request is, and what it names: the one table, from which docs/permissions.md is made.
What an operation needs stands in ``access.operations``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.access import operations as does
from gantrymq.access.operations import Operation
from gantrymq.access.remoting import bodies
from gantrymq.access.remoting.naming import Either, Field, Is, Row, Source
from gantrymq.protocol.codes import RequestCode as Code


def _is(
    operation: Operation, *, topic: str | Source = "", group: str | Source = "", other_group: str | Source = "",
    cluster: str = "",
) -> Is:  # fmt: skip
    """``topic`` and the others: the field that has the name."""
    return Is(operation, _source(topic), _source(group), _source(other_group), _source(cluster))


def _source(place: str | Source) -> tuple[Source, ...]:
    if isinstance(place, str):
        return (Field(place),) if place else ()
    return (place,)


_SEE: Final = _is(does.SEE_CLUSTER)
_LIST: Final = _is(does.LIST_CLUSTER)
_CHANGE: Final = _is(does.CHANGE_CLUSTER)
_CHANGE_USERS: Final = _is(does.CHANGE_USERS)
_CHANGE_MESSAGES: Final = _is(does.CHANGE_MESSAGES)
_CONSUME: Final = _is(does.CONSUME, topic="topic", group="consumerGroup")
_OFFSET: Final = _is(does.READ_OFFSETS, topic="topic")

ACCESS_ROWS: Final[Mapping[int, Row]] = {
    Code.AUTH_CREATE_USER: _CHANGE_USERS,
    Code.AUTH_UPDATE_USER: _CHANGE_USERS,
    Code.AUTH_DELETE_USER: _CHANGE_USERS,
    Code.AUTH_GET_USER: _SEE,
    Code.AUTH_LIST_USER: _SEE,
    Code.AUTH_CREATE_ACL: _CHANGE_USERS,
    Code.AUTH_UPDATE_ACL: _CHANGE_USERS,
    Code.AUTH_DELETE_ACL: _CHANGE_USERS,
    Code.AUTH_GET_ACL: _SEE,
    Code.AUTH_LIST_ACL: _SEE,
}
"""Users and policies. A super user is made, changed and deleted only by a super user (``directory``)."""

_MESSAGES: Final[Mapping[int, Row]] = {
    Code.SEND_MESSAGE: _is(does.SEND, topic="topic"),
    Code.SEND_MESSAGE_V2: _is(does.SEND, topic="b"),
    Code.SEND_BATCH_MESSAGE: _is(does.SEND, topic="b"),
    Code.SEND_REPLY_MESSAGE: _is(does.REPLY, topic="topic"),
    Code.SEND_REPLY_MESSAGE_V2: _is(does.REPLY, topic="b"),
    Code.CONSUMER_SEND_MSG_BACK: _is(does.SEND_BACK, group="group", topic=bodies.AT_OFFSET),
    Code.RECALL_MESSAGE: _is(does.RECALL, topic="topic"),
    Code.GET_TIMER_CHECK_POINT: _SEE,
    Code.GET_TIMER_METRICS: _SEE,
    Code.PULL_MESSAGE: _CONSUME,
    Code.LITE_PULL_MESSAGE: _CONSUME,
    Code.QUERY_MESSAGE: _is(does.QUERY, topic="topic"),
    Code.VIEW_MESSAGE_BY_ID: _is(does.VIEW, topic=bodies.AT_OFFSET),
}
_TRANSACTIONS: Final[Mapping[int, Row]] = {
    Code.END_TRANSACTION: Either(
        bodies.by_operator, "an operator", _is(does.END, topic=bodies.HALF), _is(does.DECIDE, topic=bodies.HALF)
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: _is(does.RESUME, topic=bodies.PARKED),
    Code.EXPLAIN_TRANSACTION: _SEE,
    Code.LIST_CHECKS: _SEE,
    Code.LIST_TRANSACTIONS: _SEE,
    Code.SUMMARIZE_TRANSACTIONS: _SEE,
    Code.SEND_HALVES: _is(does.SEND, topic="b"),
    Code.END_HALVES: _is(does.END, topic=bodies.HALVES),
}
_POPPED: Final = _is(does.POP, topic=bodies.POPPED_TOPIC, group="consumerGroup")
_POP: Final[Mapping[int, Row]] = {
    Code.POP_MESSAGE: _is(does.POP, topic="topic", group="consumerGroup"),
    Code.POP_LITE_MESSAGE: _is(does.POP, topic="topic", group="consumerGroup"),
    Code.LITE_SUBSCRIPTION_CTL: _is(does.POP, topic=bodies.LITE_PARENTS, group=bodies.LITE_GROUPS),
    Code.PEEK_MESSAGE: _CONSUME,
    Code.NOTIFICATION: _CONSUME,
    Code.POLLING_INFO: _is(does.POLLING, topic="topic", group="consumerGroup"),
    Code.ACK_MESSAGE: _POPPED,
    Code.BATCH_ACK_MESSAGE: _is(does.POP, topic=bodies.ACKNOWLEDGED_TOPICS, group=bodies.ACKNOWLEDGED_GROUPS),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POPPED,
    Code.LIST_HELD: _SEE,
    Code.POP_ROLLBACK: _CHANGE_MESSAGES,
    Code.QUERY_ASSIGNMENT: _is(does.ASSIGN, topic=bodies.ASSIGNED_TOPIC, group=bodies.ASSIGNED_GROUP),
    Code.SET_MESSAGE_REQUEST_MODE: _is(does.SET_REQUEST_MODE, topic=bodies.MODE_TOPIC, group=bodies.MODE_GROUP),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _LIST,
}
_CLIENTS: Final[Mapping[int, Row]] = {
    Code.QUERY_CONSUMER_OFFSET: _is(does.READ_POSITION, topic="topic", group="consumerGroup"),
    Code.UPDATE_CONSUMER_OFFSET: _is(does.WRITE_POSITION, topic="topic", group="consumerGroup"),
    Code.GET_ALL_CONSUMER_OFFSET: _LIST,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _OFFSET,
    Code.GET_MAX_OFFSET: _OFFSET,
    Code.GET_MIN_OFFSET: _OFFSET,
    Code.GET_EARLIEST_MSG_STORETIME: _OFFSET,
    Code.HEART_BEAT: _is(does.JOIN, group=bodies.JOINED_GROUPS, topic=bodies.JOINED_TOPICS),
    Code.UNREGISTER_CLIENT: _is(does.LEAVE, group=Field("consumerGroup", optional=True)),
    Code.CHECK_CLIENT_CONFIG: _is(does.JOIN, group=bodies.CHECKED_GROUP, topic=bodies.CHECKED_TOPIC),
    Code.GET_CONSUMER_LIST_BY_GROUP: _is(does.LIST_MEMBERS, group="consumerGroup"),
    Code.LOCK_BATCH_MQ: _is(does.LOCK, group=bodies.LOCKED_GROUP, topic=bodies.LOCKED_TOPICS),
    Code.UNLOCK_BATCH_MQ: _is(does.LOCK, group=bodies.LOCKED_GROUP, topic=bodies.LOCKED_TOPICS),
}
_TOOLS: Final[Mapping[int, Row]] = {
    Code.UPDATE_AND_CREATE_TOPIC: _is(does.CREATE_TOPIC, topic="topic"),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _is(does.CREATE_TOPIC, topic=bodies.TOPICS),
    Code.DELETE_TOPIC_IN_BROKER: _is(does.DELETE_TOPIC, topic="topic"),
    Code.GET_TOPIC_CONFIG: _is(does.GET_TOPIC, topic="topic"),
    Code.GET_ALL_TOPIC_CONFIG: _LIST,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _is(does.CREATE_GROUP, group=bodies.GROUP),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: _is(does.CREATE_GROUP, group=bodies.GROUPS),
    Code.DELETE_SUBSCRIPTIONGROUP: _is(does.DELETE_GROUP, group="groupName"),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _is(does.GET_GROUP, group="group"),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _LIST,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: _is(does.FORBID, group="group", topic="topic"),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _LIST,
    Code.GET_TOPIC_STATS_INFO: _is(does.GET_TOPIC, topic="topic"),
    Code.GET_CONSUME_STATS: Is(
        does.GET_BOTH,
        topic=(Field("topic", optional=True), Field("topicList", optional=True, separator=";")),
        group=(Field("consumerGroup"),),
    ),
    Code.SUMMARIZE: _SEE,
    Code.COPY_TABLES: _is(does.COPY_TABLES),
    Code.GET_BROKER_CONSUME_STATS: _SEE,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _is(does.GET_TOPIC, topic="topic"),
    Code.QUERY_TOPICS_BY_CONSUMER: _is(does.GET_GROUP, group="group"),
    Code.QUERY_CONSUME_TIME_SPAN: _is(does.GET_BOTH, topic="topic", group="group"),
    Code.QUERY_CORRECTION_OFFSET: _is(
        does.COMPARE_GROUPS,
        topic="topic",
        other_group="compareGroup",
        group=Field("filterGroups", optional=True, separator=","),
    ),
    Code.CLONE_GROUP_OFFSET: _is(
        does.CLONE_POSITIONS, group="srcGroup", other_group="destGroup", topic=Field("topic", optional=True)
    ),
    Code.QUERY_CONSUME_QUEUE: _is(does.GET_BOTH, topic="topic", group=Field("consumerGroup", optional=True)),
    Code.GET_CONSUMER_CONNECTION_LIST: _is(does.GET_GROUP, group="consumerGroup"),
    Code.GET_PRODUCER_CONNECTION_LIST: _SEE,
    Code.GET_ALL_PRODUCER_INFO: _SEE,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: _is(does.GET_BOTH, group="group", topic="topic"),
    Code.GET_CONSUMER_RUNNING_INFO: _is(does.GET_GROUP, group="consumerGroup"),
    Code.CONSUME_MESSAGE_DIRECTLY: _is(does.CONSUME_DIRECTLY, group="consumerGroup", topic=bodies.AT_MESSAGE_ID),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _is(does.GET_BOTH, topic="topic", group="group"),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: _is(does.RESET, topic="topic", group="group"),
    Code.VIEW_BROKER_STATS_DATA: _SEE,
    Code.GET_ALL_DELAY_OFFSET: _SEE,
    Code.GET_BROKER_HA_STATUS: _SEE,
    Code.CONTROLLER_GET_METADATA_INFO: _SEE,
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _SEE,
    Code.GET_BROKER_EPOCH_CACHE: _SEE,
    Code.UPDATE_BROKER_CONFIG: _CHANGE,
    Code.CONTROLLER_ELECT_MASTER: _CHANGE,
    Code.NOTIFY_BROKER_ROLE_CHANGED: _SEE,
    Code.GET_BROKER_CONFIG: _SEE,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _CHANGE,
    Code.CLEAN_UNUSED_TOPIC: _CHANGE_MESSAGES,
    Code.DELETE_EXPIRED_COMMITLOG: _CHANGE,
    Code.GET_BROKER_RUNTIME_INFO: _SEE,
}

BROKER_ROWS: Final[Mapping[int, Row]] = {
    **_MESSAGES, **_TRANSACTIONS, **_POP, **_CLIENTS, **_TOOLS, **ACCESS_ROWS,
}  # fmt: skip
"""Everything that a broker answers."""

_REGISTER: Final = _is(does.REGISTER, cluster="clusterName")

NAME_SERVER_ROWS: Final[Mapping[int, Row]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: _is(does.ROUTE, topic=bodies.ROUTE_TOPIC),
    Code.REGISTER_BROKER: _REGISTER,
    Code.UNREGISTER_BROKER: _REGISTER,
    Code.QUERY_DATA_VERSION: _REGISTER,
    Code.GET_BROKER_CLUSTER_INFO: _LIST,
    Code.WIPE_WRITE_PERM_OF_BROKER: _CHANGE,
    Code.ADD_WRITE_PERM_OF_BROKER: _CHANGE,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _LIST,
    Code.DELETE_TOPIC_IN_NAMESRV: _is(does.DELETE_TOPIC, topic="topic"),
    Code.GET_TOPICS_BY_CLUSTER: _is(does.LIST_TOPICS_OF_CLUSTER, cluster="cluster"),
    Code.REGISTER_TOPIC_IN_NAMESRV: _is(does.CREATE_TOPIC, topic="topic"),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _LIST,
    Code.GET_UNIT_TOPIC_LIST: _LIST,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _LIST,
    Code.PUT_KV_CONFIG: _CHANGE,
    Code.GET_KV_CONFIG: _SEE,
    Code.DELETE_KV_CONFIG: _CHANGE,
    Code.GET_KVLIST_BY_NAMESPACE: _SEE,
    Code.UPDATE_NAMESRV_CONFIG: _CHANGE,
    Code.GET_NAMESRV_CONFIG: _SEE,
    **ACCESS_ROWS,
}
"""Everything that a name server answers. Apache's name servers have no users at all."""
