"""What this broker answers, by request code: the table of contents. Everything else is answered with code 3."""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.broker.remoting.cleaning import CleaningHandler
from gantrymq.broker.remoting.client_config import ClientConfigHandler
from gantrymq.broker.remoting.connections import ConnectionHandler
from gantrymq.broker.remoting.group_admin import GroupHandler
from gantrymq.broker.remoting.membership import MembershipHandler
from gantrymq.broker.remoting.pop import PopHandler
from gantrymq.broker.remoting.pop_acks import PopAckHandler
from gantrymq.broker.remoting.pop_assignment import AssignmentHandler
from gantrymq.broker.remoting.positions import PositionHandler
from gantrymq.broker.remoting.progress import ProgressHandler
from gantrymq.broker.remoting.pull import PullHandler
from gantrymq.broker.remoting.query import QueryHandler
from gantrymq.broker.remoting.relay import RelayHandler
from gantrymq.broker.remoting.reset import ResetHandler
from gantrymq.broker.remoting.runtime_info import RuntimeInfoHandler
from gantrymq.broker.remoting.send import SendHandler
from gantrymq.broker.remoting.send_back import SendBackHandler
from gantrymq.broker.remoting.send_batch import SendBatchHandler
from gantrymq.broker.remoting.send_reply import SendReplyProcessor
from gantrymq.broker.remoting.settings import SettingsHandler
from gantrymq.broker.remoting.timer import TimerHandler
from gantrymq.broker.remoting.topic_admin import TopicHandler
from gantrymq.protocol.codes import RequestCode
from gantrymq.remoting.server import Handler


def request_table(
    *,
    send: SendHandler,
    send_batch: SendBatchHandler,
    send_reply: SendReplyProcessor,
    pull: PullHandler,
    positions: PositionHandler,
    query: QueryHandler,
    membership: MembershipHandler,
    client_config: ClientConfigHandler,
    send_back: SendBackHandler,
    topics: TopicHandler,
    groups: GroupHandler,
    progress: ProgressHandler,
    connections: ConnectionHandler,
    relay: RelayHandler,
    reset: ResetHandler,
    runtime: RuntimeInfoHandler,
    cleaning: CleaningHandler,
    settings: SettingsHandler,
    end_transaction: Handler,
    resume_half: Handler,
    explain: Handler,
    list_checks: Handler,
    pop: PopHandler,
    pop_acks: PopAckHandler,
    assignments: AssignmentHandler,
    timer: TimerHandler,
) -> Mapping[int, Handler]:
    """Request code to handler."""
    return {
        # Messages in, messages out.
        RequestCode.SEND_MESSAGE: send.send,
        RequestCode.SEND_MESSAGE_V2: send.send,
        RequestCode.SEND_BATCH_MESSAGE: send_batch.send_batch,
        RequestCode.SEND_REPLY_MESSAGE: send_reply.send_reply,
        RequestCode.SEND_REPLY_MESSAGE_V2: send_reply.send_reply,
        RequestCode.END_TRANSACTION: end_transaction,
        RequestCode.RESUME_CHECK_HALF_MESSAGE: resume_half,
        RequestCode.EXPLAIN_TRANSACTION: explain,
        RequestCode.LIST_CHECKS: list_checks,
        RequestCode.CONSUMER_SEND_MSG_BACK: send_back.send_back,
        RequestCode.RECALL_MESSAGE: timer.recall,
        RequestCode.GET_TIMER_CHECK_POINT: timer.check_point,
        RequestCode.GET_TIMER_METRICS: timer.metrics,
        RequestCode.PULL_MESSAGE: pull.pull,
        RequestCode.LITE_PULL_MESSAGE: pull.pull,
        RequestCode.QUERY_MESSAGE: query.query,
        RequestCode.VIEW_MESSAGE_BY_ID: query.view,
        # Messages handed out for a time.
        RequestCode.POP_MESSAGE: pop.pop,
        RequestCode.PEEK_MESSAGE: pop.peek,
        RequestCode.NOTIFICATION: pop.notification,
        RequestCode.POLLING_INFO: pop.polling_info,
        RequestCode.ACK_MESSAGE: pop_acks.ack,
        RequestCode.BATCH_ACK_MESSAGE: pop_acks.batch_ack,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: pop_acks.change,
        RequestCode.POP_ROLLBACK: pop_acks.rollback,
        RequestCode.QUERY_ASSIGNMENT: assignments.query,
        RequestCode.SET_MESSAGE_REQUEST_MODE: assignments.set_mode,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: assignments.all_modes,
        # Positions.
        RequestCode.QUERY_CONSUMER_OFFSET: positions.query_offset,
        RequestCode.UPDATE_CONSUMER_OFFSET: positions.update_offset,
        RequestCode.GET_ALL_CONSUMER_OFFSET: positions.all_offsets,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: positions.search_offset,
        RequestCode.GET_MAX_OFFSET: positions.max_offset,
        RequestCode.GET_MIN_OFFSET: positions.min_offset,
        RequestCode.GET_EARLIEST_MSG_STORETIME: positions.earliest_store_time,
        # Clients.
        RequestCode.HEART_BEAT: membership.heartbeat,
        RequestCode.UNREGISTER_CLIENT: membership.unregister,
        RequestCode.CHECK_CLIENT_CONFIG: client_config.check,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: membership.consumer_list,
        RequestCode.LOCK_BATCH_MQ: membership.lock,
        RequestCode.UNLOCK_BATCH_MQ: membership.unlock,
        # Topics and groups.
        RequestCode.UPDATE_AND_CREATE_TOPIC: topics.update_topic,
        RequestCode.DELETE_TOPIC_IN_BROKER: topics.delete_topic,
        RequestCode.GET_TOPIC_CONFIG: topics.topic,
        RequestCode.GET_ALL_TOPIC_CONFIG: topics.all_topics,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update_group,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: groups.delete_group,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.group,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.all_groups,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: topics.update_topics,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: groups.update_groups,
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: groups.forbid,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topics.system_topics,
        # What tools ask about topics, groups and clients.
        RequestCode.GET_TOPIC_STATS_INFO: progress.topic_stats,
        RequestCode.GET_CONSUME_STATS: progress.consume_stats,
        RequestCode.GET_BROKER_CONSUME_STATS: progress.broker_consume_stats,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: progress.who_consumes,
        RequestCode.QUERY_TOPICS_BY_CONSUMER: progress.topics_of_group,
        RequestCode.QUERY_CONSUME_TIME_SPAN: progress.time_span,
        RequestCode.QUERY_CORRECTION_OFFSET: progress.correction,
        RequestCode.CLONE_GROUP_OFFSET: progress.clone_offsets,
        RequestCode.QUERY_CONSUME_QUEUE: progress.consume_queue,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: connections.consumers,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: connections.producers,
        RequestCode.GET_ALL_PRODUCER_INFO: connections.all_producers,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: connections.subscription,
        RequestCode.GET_CONSUMER_RUNNING_INFO: relay.running_info,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: relay.consume_directly,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: relay.positions,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset.reset,
        # The broker itself.
        RequestCode.VIEW_BROKER_STATS_DATA: runtime.statistic,
        RequestCode.GET_ALL_DELAY_OFFSET: runtime.delay_offsets,
        RequestCode.UPDATE_BROKER_CONFIG: settings.update,
        RequestCode.GET_BROKER_CONFIG: settings.show,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: cleaning.expired_queues,
        RequestCode.CLEAN_UNUSED_TOPIC: cleaning.unused_topics,
        RequestCode.DELETE_EXPIRED_COMMITLOG: cleaning.expired_log,
        RequestCode.GET_BROKER_RUNTIME_INFO: runtime.runtime_info,
    }
