"""The requests that this broker answers, by request code. All others are answered with code 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gantrymq.broker.remoting.cleaning import CleaningHandler
from gantrymq.broker.remoting.connections import ConnectionHandler
from gantrymq.broker.remoting.group_admin import GroupHandler
from gantrymq.broker.remoting.group_questions import GroupQuestionsHandler
from gantrymq.broker.remoting.handover import HandoverHandler
from gantrymq.broker.remoting.lite import LiteHandler
from gantrymq.broker.remoting.membership import MembershipHandler
from gantrymq.broker.remoting.pop import PopAckHandler, PopHandler
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
from gantrymq.broker.remoting.send_reply import SendReplyHandler
from gantrymq.broker.remoting.settings import SettingsHandler
from gantrymq.broker.remoting.summaries import SummaryHandler
from gantrymq.broker.remoting.table_copies import CopiesHandler
from gantrymq.broker.remoting.timer import TimerHandler
from gantrymq.broker.remoting.topic_admin import TopicHandler
from gantrymq.protocol.codes import RequestCode
from gantrymq.remoting.server import Handler

Table: TypeAlias = Mapping[int, Handler]
"""Request code to handler."""


@dataclass(frozen=True, slots=True)
class MessageHandlers:
    """Messages in, messages out."""

    send: SendHandler
    send_batch: SendBatchHandler
    send_reply: SendReplyHandler
    send_back: SendBackHandler
    timer: TimerHandler
    pull: PullHandler
    query: QueryHandler

    def table(self) -> Table:
        return {
            RequestCode.SEND_MESSAGE: self.send.send,
            RequestCode.SEND_MESSAGE_V2: self.send.send,
            RequestCode.SEND_BATCH_MESSAGE: self.send_batch.send_batch,
            RequestCode.SEND_REPLY_MESSAGE: self.send_reply.send_reply,
            RequestCode.SEND_REPLY_MESSAGE_V2: self.send_reply.send_reply,
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back.send_back,
            RequestCode.RECALL_MESSAGE: self.timer.recall,
            RequestCode.GET_TIMER_CHECK_POINT: self.timer.check_point,
            RequestCode.GET_TIMER_METRICS: self.timer.metrics,
            RequestCode.PULL_MESSAGE: self.pull.pull,
            RequestCode.LITE_PULL_MESSAGE: self.pull.pull,
            RequestCode.QUERY_MESSAGE: self.query.query,
            RequestCode.VIEW_MESSAGE_BY_ID: self.query.view,
        }


@dataclass(frozen=True, slots=True)
class TransactionHandlers:
    """Half messages: their end, and what tools ask and order."""

    end: Handler
    resume: Handler
    explain: Handler
    list_checks: Handler
    list_transactions: Handler
    summarize: Handler
    send_halves: Handler
    end_halves: Handler

    def table(self) -> Table:
        return {
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
            RequestCode.EXPLAIN_TRANSACTION: self.explain,
            RequestCode.LIST_CHECKS: self.list_checks,
            RequestCode.LIST_TRANSACTIONS: self.list_transactions,
            RequestCode.SUMMARIZE_TRANSACTIONS: self.summarize,
            RequestCode.SEND_HALVES: self.send_halves,
            RequestCode.END_HALVES: self.end_halves,
        }


@dataclass(frozen=True, slots=True)
class PopHandlers:
    """Messages handed out for a time."""

    pops: PopHandler
    acks: PopAckHandler
    assignments: AssignmentHandler
    lite: LiteHandler

    def table(self) -> Table:
        return {
            RequestCode.POP_MESSAGE: self.pops.pop,
            RequestCode.POP_LITE_MESSAGE: self.lite.pop,
            RequestCode.LITE_SUBSCRIPTION_CTL: self.lite.subscribe,
            RequestCode.PEEK_MESSAGE: self.pops.peek,
            RequestCode.NOTIFICATION: self.pops.notification,
            RequestCode.POLLING_INFO: self.pops.polling_info,
            RequestCode.ACK_MESSAGE: self.acks.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.acks.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.acks.change,
            RequestCode.LIST_HELD: self.acks.list_held,
            RequestCode.POP_ROLLBACK: self.acks.rollback,
            RequestCode.QUERY_ASSIGNMENT: self.assignments.query,
            RequestCode.SET_MESSAGE_REQUEST_MODE: self.assignments.set_mode,
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self.assignments.all_modes,
        }


@dataclass(frozen=True, slots=True)
class ClientHandlers:
    """Who is there, and how far groups have read."""

    membership: MembershipHandler
    positions: PositionHandler

    def table(self) -> Table:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.positions.query_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.positions.update_offset,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.positions.all_offsets,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.positions.search_offset,
            RequestCode.GET_MAX_OFFSET: self.positions.max_offset,
            RequestCode.GET_MIN_OFFSET: self.positions.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.positions.earliest_store_time,
            RequestCode.HEART_BEAT: self.membership.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.membership.unregister,
            RequestCode.CHECK_CLIENT_CONFIG: self.membership.check_client,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.membership.consumer_list,
            RequestCode.LOCK_BATCH_MQ: self.membership.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.membership.unlock,
        }


@dataclass(frozen=True, slots=True)
class ToolHandlers:
    """What operators and their tools ask and order."""

    topics: TopicHandler
    groups: GroupHandler
    progress: ProgressHandler
    connections: ConnectionHandler
    relay: RelayHandler
    reset: ResetHandler
    settings: SettingsHandler
    cleaning: CleaningHandler
    runtime: RuntimeInfoHandler
    group: GroupQuestionsHandler
    summaries: SummaryHandler
    copies: CopiesHandler
    handovers: HandoverHandler

    def table(self) -> Table:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.topics.update_topic,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.topics.delete_topic,
            RequestCode.GET_TOPIC_CONFIG: self.topics.topic,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.topics.all_topics,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.groups.update_group,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.groups.delete_group,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.groups.group,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.groups.all_groups,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.topics.update_topics,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.groups.update_groups,
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: self.groups.forbid,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.topics.system_topics,
            RequestCode.GET_TOPIC_STATS_INFO: self.progress.topic_stats,
            RequestCode.GET_CONSUME_STATS: self.progress.consume_stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self.progress.broker_consume_stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.progress.who_consumes,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.progress.topics_of_group,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.progress.time_span,
            RequestCode.QUERY_CORRECTION_OFFSET: self.progress.correction,
            RequestCode.CLONE_GROUP_OFFSET: self.progress.clone_offsets,
            RequestCode.QUERY_CONSUME_QUEUE: self.progress.consume_queue,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.connections.producers,
            RequestCode.GET_ALL_PRODUCER_INFO: self.connections.all_producers,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.connections.subscription,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.relay.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.relay.consume_directly,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.relay.positions,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset.reset,
            RequestCode.VIEW_BROKER_STATS_DATA: self.runtime.statistic,
            RequestCode.GET_ALL_DELAY_OFFSET: self.runtime.delay_offsets,
            RequestCode.GET_BROKER_HA_STATUS: self.runtime.ha_status,
            RequestCode.CONTROLLER_GET_METADATA_INFO: self.group.metadata,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self.group.sync_state,
            RequestCode.GET_BROKER_EPOCH_CACHE: self.group.epochs,
            RequestCode.UPDATE_BROKER_CONFIG: self.settings.update,
            RequestCode.CONTROLLER_ELECT_MASTER: self.handovers.elect,
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self.handovers.role_changed,
            RequestCode.GET_BROKER_CONFIG: self.settings.show,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.cleaning.expired_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.cleaning.unused_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.cleaning.expired_log,
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime.runtime_info,
            RequestCode.SUMMARIZE: self.summaries.summarize,
            RequestCode.COPY_TABLES: self.copies.changed,
        }


@dataclass(frozen=True, slots=True)
class Handlers:
    """All handlers of the remoting door."""

    messages: MessageHandlers
    transactions: TransactionHandlers
    pops: PopHandlers
    clients: ClientHandlers
    tools: ToolHandlers

    def table(self) -> Table:
        return {
            **self.messages.table(),
            **self.transactions.table(),
            **self.pops.table(),
            **self.clients.table(),
            **self.tools.table(),
        }
