"""What each request needs, by its code: the one table, from which docs/permissions.md is made.

As in Apache's servers where those ask for something at all. Many requests of tools need nothing there but a signature
(UPDATE_BROKER_CONFIG is one of them); here they need an action on the cluster. Source:
DefaultAuthorizationContextBuilder, the annotations RocketMQAction and RocketMQResource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.access import computed
from gantrymq.access.computed import CREATE, PUB, READ, SUB, UPDATE
from gantrymq.access.needs import Computed, Named, OnCluster, Row, Sending
from gantrymq.access.values import Action, Kind
from gantrymq.protocol.codes import RequestCode as Code

_GET: Final = (Action.GET,)
_DELETE: Final = (Action.DELETE,)
_LIST: Final = (Action.LIST, Action.GET)
_WRITE_POSITION: Final = (Action.SUB, Action.UPDATE)


def _topic(actions: tuple[Action, ...], field: str = "topic", *, optional: bool = False, separator: str = "") -> Named:
    return Named(Kind.TOPIC, field, actions, optional, separator)


def _group(
    actions: tuple[Action, ...], field: str = "consumerGroup", *, optional: bool = False, separator: str = ""
) -> Named:
    return Named(Kind.GROUP, field, actions, optional, separator)


_CLUSTER_GET: Final[Row] = (OnCluster(_GET),)
_CLUSTER_LIST: Final[Row] = (OnCluster(_LIST),)
_CLUSTER_UPDATE: Final[Row] = (OnCluster(UPDATE),)
_CONSUME: Final[Row] = (_topic(SUB), _group(SUB))
_OFFSET: Final[Row] = (_topic(READ),)

ACCESS_ROWS: Final[Mapping[int, Row]] = {
    Code.AUTH_CREATE_USER: _CLUSTER_UPDATE,
    Code.AUTH_UPDATE_USER: _CLUSTER_UPDATE,
    Code.AUTH_DELETE_USER: _CLUSTER_UPDATE,
    Code.AUTH_GET_USER: _CLUSTER_GET,
    Code.AUTH_LIST_USER: _CLUSTER_GET,
    Code.AUTH_CREATE_ACL: _CLUSTER_UPDATE,
    Code.AUTH_UPDATE_ACL: _CLUSTER_UPDATE,
    Code.AUTH_DELETE_ACL: _CLUSTER_UPDATE,
    Code.AUTH_GET_ACL: _CLUSTER_GET,
    Code.AUTH_LIST_ACL: _CLUSTER_GET,
}
"""Users and policies. A super user is made, changed and deleted only by a super user (``directory``)."""

_MESSAGES: Final[Mapping[int, Row]] = {
    Code.SEND_MESSAGE: (Sending("topic"),),
    Code.SEND_MESSAGE_V2: (Sending("b"),),
    Code.SEND_BATCH_MESSAGE: (Sending("b"),),
    Code.SEND_REPLY_MESSAGE: (_topic(PUB),),
    Code.SEND_REPLY_MESSAGE_V2: (_topic(PUB, "b"),),
    Code.CONSUMER_SEND_MSG_BACK: (
        Computed("Sub on Group `group`, and on the topic of the message", computed.send_back),
    ),
    Code.RECALL_MESSAGE: (_topic(PUB),),
    Code.GET_TIMER_CHECK_POINT: _CLUSTER_GET,
    Code.GET_TIMER_METRICS: _CLUSTER_GET,
    Code.PULL_MESSAGE: _CONSUME,
    Code.LITE_PULL_MESSAGE: _CONSUME,
    Code.QUERY_MESSAGE: (_topic(READ),),
    Code.VIEW_MESSAGE_BY_ID: (Computed("Sub or Get on the topic of the message", computed.view),),
}
_TRANSACTIONS: Final[Mapping[int, Row]] = {
    Code.END_TRANSACTION: (Computed("Pub on the topic of the half message; an operator: Update", computed.end),),
    Code.RESUME_CHECK_HALF_MESSAGE: (Computed("Update on the topic of the half message", computed.resume),),
    Code.EXPLAIN_TRANSACTION: _CLUSTER_GET,
    Code.LIST_CHECKS: _CLUSTER_GET,
    Code.LIST_TRANSACTIONS: _CLUSTER_GET,
    Code.SUMMARIZE_TRANSACTIONS: _CLUSTER_GET,
    Code.SEND_HALVES: (Sending("b"),),
    Code.END_HALVES: (Computed("Pub on the topic of each half message", computed.end_halves),),
}
_POPPED: Final[Row] = (
    Computed(
        "Sub on Topic `topic` (of a retry topic of POP: the topic in it); Sub on Group `consumerGroup`", computed.popped
    ),
)
_POP: Final[Mapping[int, Row]] = {
    Code.POP_MESSAGE: _CONSUME,
    Code.PEEK_MESSAGE: _CONSUME,
    Code.NOTIFICATION: _CONSUME,
    Code.POLLING_INFO: (_topic(_GET), _group(_GET)),
    Code.ACK_MESSAGE: _POPPED,
    Code.BATCH_ACK_MESSAGE: (Computed("Sub on each topic and group in the body", computed.batch_ack),),
    Code.CHANGE_MESSAGE_INVISIBLETIME: _POPPED,
    Code.POP_ROLLBACK: _CLUSTER_UPDATE,
    Code.QUERY_ASSIGNMENT: (Computed("Sub or Get on topic and group in the body", computed.assignment),),
    Code.SET_MESSAGE_REQUEST_MODE: (Computed("Update on topic and group in the body", computed.request_mode),),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _CLUSTER_LIST,
}
_CLIENTS: Final[Mapping[int, Row]] = {
    Code.QUERY_CONSUMER_OFFSET: (_topic(READ), _group(READ)),
    Code.UPDATE_CONSUMER_OFFSET: (_topic(_WRITE_POSITION), _group(_WRITE_POSITION)),
    Code.GET_ALL_CONSUMER_OFFSET: _CLUSTER_LIST,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _OFFSET,
    Code.GET_MAX_OFFSET: _OFFSET,
    Code.GET_MIN_OFFSET: _OFFSET,
    Code.GET_EARLIEST_MSG_STORETIME: _OFFSET,
    Code.HEART_BEAT: (Computed("Sub on each consumer group and topic in the body", computed.heartbeat),),
    Code.UNREGISTER_CLIENT: (_group(SUB, optional=True),),
    Code.CHECK_CLIENT_CONFIG: (Computed("Sub on group and topic in the body", computed.client_config),),
    Code.GET_CONSUMER_LIST_BY_GROUP: (_group(READ),),
    Code.LOCK_BATCH_MQ: (Computed("Sub on the group and each topic in the body", computed.locks),),
    Code.UNLOCK_BATCH_MQ: (Computed("Sub on the group and each topic in the body", computed.locks),),
}
_TOOLS: Final[Mapping[int, Row]] = {
    Code.UPDATE_AND_CREATE_TOPIC: (_topic(CREATE),),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: (Computed("Create on each topic in the body", computed.topic_list),),
    Code.DELETE_TOPIC_IN_BROKER: (_topic(_DELETE),),
    Code.GET_TOPIC_CONFIG: (_topic(_GET),),
    Code.GET_ALL_TOPIC_CONFIG: _CLUSTER_LIST,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (Computed("Create or Update on the group in the body", computed.group),),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        Computed("Create or Update on each group in the body", computed.group_list),
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: (_group(_DELETE, "groupName"),),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: (_group(_GET, "group"),),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _CLUSTER_LIST,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: (_group(UPDATE, "group"), _topic(UPDATE)),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _CLUSTER_LIST,
    Code.GET_TOPIC_STATS_INFO: (_topic(_GET),),
    Code.GET_CONSUME_STATS: (
        _group(_GET),
        _topic(_GET, optional=True),
        _topic(_GET, "topicList", optional=True, separator=";"),
    ),
    Code.GET_BROKER_CONSUME_STATS: _CLUSTER_GET,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: (_topic(_GET),),
    Code.QUERY_TOPICS_BY_CONSUMER: (_group(_GET, "group"),),
    Code.QUERY_CONSUME_TIME_SPAN: (_topic(_GET), _group(_GET, "group")),
    Code.QUERY_CORRECTION_OFFSET: (
        _topic(_GET),
        _group(_GET, "compareGroup"),
        _group(_GET, "filterGroups", optional=True, separator=","),
    ),
    Code.CLONE_GROUP_OFFSET: (_group(_LIST, "srcGroup"), _group(UPDATE, "destGroup"), _topic(UPDATE, optional=True)),
    Code.QUERY_CONSUME_QUEUE: (_topic(_GET), _group(_GET, optional=True)),
    Code.GET_CONSUMER_CONNECTION_LIST: (_group(_GET),),
    Code.GET_PRODUCER_CONNECTION_LIST: _CLUSTER_GET,
    Code.GET_ALL_PRODUCER_INFO: _CLUSTER_GET,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: (_group(_GET, "group"), _topic(_GET)),
    Code.GET_CONSUMER_RUNNING_INFO: (_group(_GET),),
    Code.CONSUME_MESSAGE_DIRECTLY: (
        Computed("Sub on Group `consumerGroup`, and on the topic of the message", computed.consume_directly),
    ),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (_topic(_GET), _group(_GET, "group")),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: (_topic(UPDATE), _group(UPDATE, "group")),
    Code.VIEW_BROKER_STATS_DATA: _CLUSTER_GET,
    Code.GET_ALL_DELAY_OFFSET: _CLUSTER_GET,
    Code.UPDATE_BROKER_CONFIG: _CLUSTER_UPDATE,
    Code.GET_BROKER_CONFIG: _CLUSTER_GET,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _CLUSTER_UPDATE,
    Code.CLEAN_UNUSED_TOPIC: _CLUSTER_UPDATE,
    Code.DELETE_EXPIRED_COMMITLOG: _CLUSTER_UPDATE,
    Code.GET_BROKER_RUNTIME_INFO: _CLUSTER_GET,
}

BROKER_ROWS: Final[Mapping[int, Row]] = {
    **_MESSAGES, **_TRANSACTIONS, **_POP, **_CLIENTS, **_TOOLS, **ACCESS_ROWS,
}  # fmt: skip
"""Everything that a broker answers."""

NAME_SERVER_ROWS: Final[Mapping[int, Row]] = {
    Code.GET_ROUTEINFO_BY_TOPIC: (
        Computed("Pub, Sub or Get on Topic `topic`; of a retry topic: Sub or Get on its group", computed.route),
    ),
    # The cluster of the name server, too: a broker of any cluster could say that it has the topics of all others.
    Code.REGISTER_BROKER: (*_CLUSTER_UPDATE, Named(Kind.CLUSTER, "clusterName", UPDATE)),
    Code.UNREGISTER_BROKER: (*_CLUSTER_UPDATE, Named(Kind.CLUSTER, "clusterName", UPDATE)),
    Code.QUERY_DATA_VERSION: (*_CLUSTER_UPDATE, Named(Kind.CLUSTER, "clusterName", UPDATE)),
    Code.GET_BROKER_CLUSTER_INFO: _CLUSTER_LIST,
    Code.WIPE_WRITE_PERM_OF_BROKER: _CLUSTER_UPDATE,
    Code.ADD_WRITE_PERM_OF_BROKER: _CLUSTER_UPDATE,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _CLUSTER_LIST,
    Code.DELETE_TOPIC_IN_NAMESRV: (_topic(_DELETE),),
    Code.GET_TOPICS_BY_CLUSTER: (Named(Kind.CLUSTER, "cluster", _LIST),),
    Code.REGISTER_TOPIC_IN_NAMESRV: (_topic(CREATE),),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _CLUSTER_LIST,
    Code.GET_UNIT_TOPIC_LIST: _CLUSTER_LIST,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _CLUSTER_LIST,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _CLUSTER_LIST,
    Code.PUT_KV_CONFIG: _CLUSTER_UPDATE,
    Code.GET_KV_CONFIG: _CLUSTER_GET,
    Code.DELETE_KV_CONFIG: _CLUSTER_UPDATE,
    Code.GET_KVLIST_BY_NAMESPACE: _CLUSTER_GET,
    Code.UPDATE_NAMESRV_CONFIG: _CLUSTER_UPDATE,
    Code.GET_NAMESRV_CONFIG: _CLUSTER_GET,
    **ACCESS_ROWS,
}
"""Everything that a name server answers. Apache's name servers have no users at all."""
