"""Which header belongs to which request code, and to its answer."""

from __future__ import annotations

from typing import Final

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Header
from gantrymq.protocol.headers import consumer, nameserver, pull, send, tools, topics, transaction

REQUEST_HEADERS: Final[dict[RequestCode, type[Header]]] = {
    RequestCode.SEND_MESSAGE: send.SendMessageLong,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageLong,
    RequestCode.SEND_MESSAGE_V2: send.SendMessage,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessage,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessage,
    RequestCode.PULL_MESSAGE: pull.PullMessage,
    RequestCode.LITE_PULL_MESSAGE: pull.PullMessage,
    RequestCode.QUERY_MESSAGE: pull.QueryMessage,
    RequestCode.VIEW_MESSAGE_BY_ID: pull.ViewMessage,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: pull.SearchOffset,
    RequestCode.GET_MAX_OFFSET: pull.GetMaxOffset,
    RequestCode.GET_MIN_OFFSET: pull.GetMinOffset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: pull.GetEarliestStoreTime,
    RequestCode.QUERY_CONSUMER_OFFSET: consumer.QueryConsumerOffset,
    RequestCode.UPDATE_CONSUMER_OFFSET: consumer.UpdateConsumerOffset,
    RequestCode.UNREGISTER_CLIENT: consumer.UnregisterClient,
    RequestCode.CONSUMER_SEND_MSG_BACK: consumer.SendBack,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: consumer.ConsumerListByGroup,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: consumer.ConsumerIdsChanged,
    RequestCode.END_TRANSACTION: transaction.EndTransaction,
    RequestCode.CHECK_TRANSACTION_STATE: transaction.CheckTransactionState,
    RequestCode.UPDATE_AND_CREATE_TOPIC: topics.CreateTopic,
    RequestCode.DELETE_TOPIC_IN_BROKER: topics.TopicOnly,
    RequestCode.GET_TOPIC_CONFIG: topics.TopicOnly,
    RequestCode.GET_TOPIC_STATS_INFO: topics.TopicOnly,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: topics.TopicOnly,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: tools.ConsumerGroupOnly,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: tools.ProducerGroupOnly,
    RequestCode.GET_CONSUME_STATS: tools.GetConsumeStats,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: tools.ResetOffset,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: tools.ResetOffset,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: topics.DeleteGroup,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: topics.GroupOnly,
    RequestCode.GET_CONSUMER_RUNNING_INFO: tools.ClientOfGroup,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: tools.ResumeCheck,
    RequestCode.QUERY_CONSUME_QUEUE: tools.QueryConsumeQueue,
    RequestCode.REGISTER_BROKER: nameserver.RegisterBroker,
    RequestCode.UNREGISTER_BROKER: nameserver.UnregisterBroker,
    RequestCode.QUERY_DATA_VERSION: nameserver.QueryDataVersion,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: nameserver.GetRoute,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: nameserver.DeleteTopicInNameServer,
    RequestCode.PUT_KV_CONFIG: nameserver.PutKVConfig,
    RequestCode.GET_KV_CONFIG: nameserver.NamespacedKey,
    RequestCode.DELETE_KV_CONFIG: nameserver.NamespacedKey,
    RequestCode.GET_KVLIST_BY_NAMESPACE: nameserver.NamespaceOnly,
    RequestCode.GET_TOPICS_BY_CLUSTER: nameserver.ClusterOnly,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: nameserver.BrokerNameOnly,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: nameserver.BrokerNameOnly,
}

ANSWER_HEADERS: Final[dict[RequestCode, type[Header]]] = {
    RequestCode.SEND_MESSAGE: send.SendMessageAnswer,
    RequestCode.SEND_MESSAGE_V2: send.SendMessageAnswer,
    RequestCode.SEND_BATCH_MESSAGE: send.SendMessageAnswer,
    RequestCode.SEND_REPLY_MESSAGE: send.SendMessageAnswer,
    RequestCode.SEND_REPLY_MESSAGE_V2: send.SendMessageAnswer,
    RequestCode.PULL_MESSAGE: pull.PullMessageAnswer,
    RequestCode.LITE_PULL_MESSAGE: pull.PullMessageAnswer,
    RequestCode.QUERY_MESSAGE: pull.QueryMessageAnswer,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: pull.OffsetAnswer,
    RequestCode.GET_MAX_OFFSET: pull.OffsetAnswer,
    RequestCode.GET_MIN_OFFSET: pull.OffsetAnswer,
    RequestCode.GET_EARLIEST_MSG_STORETIME: pull.StoreTimeAnswer,
    RequestCode.QUERY_CONSUMER_OFFSET: pull.OffsetAnswer,
    RequestCode.HEART_BEAT: consumer.HeartBeatAnswer,
    RequestCode.REGISTER_BROKER: nameserver.RegisterBrokerAnswer,
    RequestCode.QUERY_DATA_VERSION: nameserver.QueryDataVersionAnswer,
    RequestCode.GET_KV_CONFIG: nameserver.GetKVConfigAnswer,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: nameserver.WipedAnswer,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: nameserver.AddedAnswer,
}
"""Headers of successful answers; codes that are not here are answered without one."""
