"""The handlers of the remoting door, made from the operations of a broker."""

from __future__ import annotations

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.giving_up import GivingUp
from gantrymq.broker.operations.operations import Administration, Operations
from gantrymq.broker.outside import Place
from gantrymq.broker.pop.assembly import Popping
from gantrymq.broker.remoting.cleaning import CleaningHandler
from gantrymq.broker.remoting.connections import ConnectionHandler
from gantrymq.broker.remoting.end_transaction import EndTransactionHandler
from gantrymq.broker.remoting.explain import ExplainHandler
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
from gantrymq.broker.remoting.request_table import (
    ClientHandlers,
    Handlers,
    MessageHandlers,
    PopHandlers,
    ToolHandlers,
    TransactionHandlers,
)
from gantrymq.broker.remoting.reset import ResetHandler
from gantrymq.broker.remoting.resume import ResumeHandler
from gantrymq.broker.remoting.runtime_info import RuntimeInfoHandler
from gantrymq.broker.remoting.send import SendHandler
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.broker.remoting.send_back import SendBackHandler
from gantrymq.broker.remoting.send_batch import SendBatchHandler
from gantrymq.broker.remoting.send_halves import HalvesHandler
from gantrymq.broker.remoting.send_reply import SendReplyHandler
from gantrymq.broker.remoting.settings import SettingsHandler
from gantrymq.broker.remoting.summaries import SummaryHandler
from gantrymq.broker.remoting.table_copies import CopiesHandler
from gantrymq.broker.remoting.timer import TimerHandler
from gantrymq.broker.remoting.topic_admin import TopicHandler
from gantrymq.broker.users import Users
from gantrymq.runtime.clock import Clock


def handlers_of(
    config: LiveConfig, place: Place, clock: Clock, operations: Operations, explain: ExplainHandler
) -> Handlers:
    """All of them."""
    halves = HalvesHandler(operations.sending.halves, operations.transactions.ends_many.end)
    return Handlers(
        _messages(config, place, operations),
        TransactionHandlers(
            EndTransactionHandler(operations.transactions.ends.end).handle,
            ResumeHandler(operations.administration.resumes).resume,
            explain.explain,
            explain.list_checks,
            explain.page,
            explain.summary,
            halves.send,
            halves.end,
        ),
        _pops(config, clock, operations.consuming.popping),
        _clients(operations),
        _tools(clock, operations.administration, operations.users),
    )


def _messages(config: LiveConfig, place: Place, operations: Operations) -> MessageHandlers:
    sending, popping = operations.sending, operations.consuming.popping
    answers = SendAnswers(config, place.host)
    return MessageHandlers(
        SendHandler(sending.one, answers),
        SendBatchHandler(sending.batches, answers),
        SendReplyHandler(sending.replies, answers),
        SendBackHandler(sending.back, GivingUp(sending.back, popping.dead_letters, popping.acks)),
        TimerHandler(sending.timers, config.identity.region_id),
        PullHandler(operations.consuming.pulls),
        QueryHandler(operations.consuming.queries),
    )


def _pops(config: LiveConfig, clock: Clock, popping: Popping) -> PopHandlers:
    return PopHandlers(
        PopHandler(config, popping.requests),
        PopAckHandler(popping.acks, popping.consumption),
        AssignmentHandler(popping.assignments),
        LiteHandler(popping.lite, clock),
    )


def _clients(operations: Operations) -> ClientHandlers:
    return ClientHandlers(
        MembershipHandler(operations.members),
        PositionHandler(operations.consuming.positions),
    )


def _tools(clock: Clock, operations: Administration, users: Users | None) -> ToolHandlers:
    """The handlers of what tools ask."""
    changes = operations.changes
    return ToolHandlers(
        TopicHandler(operations.topics, changes),
        GroupHandler(operations.groups, changes),
        ProgressHandler(operations.progress, clock),
        ConnectionHandler(operations.connections),
        RelayHandler(operations.questions),
        ResetHandler(operations.resets),
        SettingsHandler(operations.settings),
        CleaningHandler(operations.cleaning),
        RuntimeInfoHandler(operations.figures),
        GroupQuestionsHandler(operations.figures),
        SummaryHandler(operations.overviews, clock),
        CopiesHandler(operations.copies, users),
        HandoverHandler(operations.handovers),
    )
