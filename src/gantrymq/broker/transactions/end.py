"""The operation that ends a transaction: the facts of a request lead to an action, which is carried out here.

Source: EndTransactionProcessor; holes 2, 21, 23, X4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import Struct

from gantrymq.broker.client import Client, Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.transactions.endings import TransactionEndings, end_after
from gantrymq.broker.transactions.history import TransactionHistory
from gantrymq.broker.transactions.ports import TopicLookup
from gantrymq.errors import GantryError, StoreError, StoreUnavailable
from gantrymq.message.system_topics import HALF, OP
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import born_host_of
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.transactions.history.events import EndRefusal, EventKind
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import parse_op, read_half
from gantrymq.transactions.rules.resolve import RULES, EndAction, is_sender, may_mean
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable


class EndRequest(Struct, frozen=True, gc=False):
    """Which half message is to be ended, and how. One is made for every transaction: a struct costs a tenth of a
    dataclass."""

    group: str
    """The producer group that the client speaks for."""
    queue_offset: int
    """Of the half, in the half queue."""
    log_offset: int
    """Of the half, in the log."""
    message_id: str
    """What the client calls the message. Official clients put the UNIQ_KEY of the half here ..."""
    transaction_id: str | None
    """... or here."""
    resolution: Resolution
    answers_check: bool = False
    """Whether the client was asked about the half."""
    operator: Operator | None = None
    """The person who decided; None: the producer did."""


log = logging.getLogger("gantrymq.transactions")

Done = Callable[[Refused | None], None]
"""Called once: with None when the decision is as safe as the broker promises, or with the reason why it is not."""

# Looking up a member of an enum costs ten times a global before Python 3.12; these are looked up for each message.
_COMMIT: Final = EndAction.COMMIT
_ROLL_BACK: Final = EndAction.ROLL_BACK
_BY_PRODUCER: Final = Cause.PRODUCER

_ACTIONS: Final = RULES.results
_WHEN_SEARCH_MAX: Final = 2_000
"""Op messages that are read to find when something was decided; only the remark of a refusal needs it."""

_REFUSALS: Final = {
    EndAction.NO_SUCH_HALF: Refusal.FAILED,
    EndAction.WRONG_GROUP: Refusal.FAILED,
    EndAction.STRANGER: Refusal.FAILED,
    EndAction.TOPIC_GONE: Refusal.TOPIC_UNKNOWN,
}
_REASONS: Final = {
    EndAction.WRONG_GROUP: EndRefusal.WRONG_GROUP,
    EndAction.STRANGER: EndRefusal.STRANGER,
    EndAction.TOPIC_GONE: EndRefusal.TOPIC_GONE,
}
_REMARKS: Final = {
    EndAction.NO_SUCH_HALF: "Find prepared transaction message failed: no half message of this broker lies at {place}",
    EndAction.WRONG_GROUP: "The producer group wrong: the half message at {place} is not of group {group}",
    EndAction.STRANGER: "this connection is not of producer group {group}, and did not send the half message at "
    "{place}; send a heartbeat with the group first",
    EndAction.TOPIC_GONE: "the topic of the half message at {place} was deleted and the half stays open; "
    "create the topic again and commit once more, or roll back",
}


class EndOperation:
    """Ends transactions for clients.

    ``is_member``: whether a client is of a producer group by its heartbeat. ``checks``: is told of every half whose
    check was answered.
    """

    def __init__(
        self,
        store: HalfStore,
        table: TransactionTable,
        endings: TransactionEndings,
        topics: TopicLookup,
        is_member: Callable[[str, Client], bool],
        checks: TransactionChecks,
        counts: TransactionCounts,
        history: TransactionHistory,
    ) -> None:
        self._history = history
        self._store = store
        self._table = table
        self._endings = endings
        self._topics = topics
        self._is_member = is_member
        self._checks = checks
        self._answered = checks.answered
        self._counts = counts

    def end(self, client: Client, request: EndRequest, done: Done | None) -> None:
        """End the transaction that ``request`` names. ``done`` is called once, perhaps before this returns; None:
        nobody waits for the result.

        Raises Refused (or another GantryError, when the half cannot be read) instead of a call of ``done``.
        """
        group = request.group
        half = self._table.at(request.queue_offset, request.log_offset)
        topic = None
        if half is None:
            state, right_group = self._state_of_ended(request)
        elif half.unique_key != request.message_id and not may_mean(
            half.unique_key, (request.message_id, request.transaction_id)
        ):
            half, state, right_group = None, None, False
        else:
            state, right_group = half.state, half.group == group
            topic = self._topics.get(half.real_topic)
        may_end = self._is_member(group, client) or (
            right_group and (self._was_asked(client, request, half) or self._sent_it(client, request, half))
        )
        action = _ACTIONS[state, right_group, may_end, request.resolution, topic is not None]
        if half is not None and action <= _ROLL_BACK:
            self._decide(client, request, half, action, 0 if topic is None else topic.read_queue_nums, done)
        elif half is not None and action is EndAction.AFTER_ENDING:
            late = self._endings.unconfirmed.get(half.queue_offset)
            if late is not None:
                raise Refused(Refusal.UNAVAILABLE, str(late))
            end_after(half, partial(self._again, client, request, done))
        else:
            self._change_nothing(client, request, half, action)
            if done is not None:
                done(None)

    def _decide(
        self, client: Client, request: EndRequest, half: OpenHalf, action: EndAction, queues: int, done: Done | None
    ) -> None:  # fmt: skip
        then = None if done is None else partial(_tell, done)
        cause, note = _BY_PRODUCER, ""
        if request.answers_check:
            cause, note = _who_answered(request)
        try:
            if action is _COMMIT:
                self._endings.commit(half, queues, then, client.host, cause, note)
            else:
                self._endings.roll_back(half, then, client.host, cause, note)
        except StoreUnavailable as error:
            self._counts.failed += 1
            decision = Decision.COMMITTED if action is EndAction.COMMIT else Decision.ROLLED_BACK
            self._history.note(EventKind.FAILED, half.place, decision)
            log.warning("half message %d stays open: %s", half.queue_offset, error)
            raise Refused(Refusal.UNAVAILABLE, str(error)) from error
        if half.has_turn:
            self._answered(half)
        if request.answers_check:
            self._counts.decided_by_check += 1
            if request.operator is not None:
                log.warning(
                    "%s of half message %d (%s of group %s) by operator: %s", action.name, half.queue_offset,
                    half.unique_key, half.group, request.operator.note,
                )  # fmt: skip

    def _again(
        self, client: Client, request: EndRequest, done: Done | None, _half: OpenHalf, _error: StoreError | None
    ) -> None:
        """The current write has ended: look at the request again."""
        try:
            self.end(client, request, done)
        except GantryError as error:
            if done is not None:
                done(error if isinstance(error, Refused) else Refused(Refusal.FAILED, str(error)))

    def _change_nothing(self, client: Client, request: EndRequest, half: OpenHalf | None, action: EndAction) -> None:
        """Note a request that decides nothing. Raises Refused when it may not be made."""
        if action is EndAction.NOTE_UNKNOWN:
            self._note_unknown(client, request, half)
            return
        place = request.queue_offset, request.log_offset
        resolution = request.resolution
        if action is EndAction.ALREADY:
            self._counts.repeated += 1
            self._history.note(EventKind.REPEATED, place, resolution, peer=client.address)
            return
        if action is EndAction.CONFLICT:
            self._history.note(EventKind.CONFLICT, place, resolution, peer=client.address)
            raise self._conflict(request)
        self._counts.refused += 1
        if action is not EndAction.NO_SUCH_HALF:
            self._history.note(EventKind.REFUSED, place, resolution, _REASONS[action], client.address)
        log.info("%s of %s refused: %s", resolution.name, client.address, action.name)
        named = f"half queue offset {request.queue_offset}, log offset {request.log_offset}"
        raise Refused(_REFUSALS[action], _REMARKS[action].format(place=named, group=request.group))

    def _note_unknown(self, client: Client, request: EndRequest, half: OpenHalf | None) -> None:
        self._counts.unknowns += 1
        # Only an answer to a check that was really asked counts, and each check counts once. One that came early counts
        # for nothing: the database may have been away, and is back long before the immunity ends.
        outstanding = half is not None and bool(request.answers_check and half.answer_deadline)
        counts = outstanding and half is not None and not self._checks.is_early(half)
        if not request.answers_check:
            place = request.queue_offset, request.log_offset
            self._history.note(EventKind.SAID_UNKNOWN, place, peer=client.address)
        elif half is not None:
            self._history.answered_unknown(half, client.address, counts)
        if half is not None and outstanding:
            half.unknown_answers += counts
            self._answered(half)

    def _state_of_ended(self, request: EndRequest) -> tuple[State | None, bool]:
        """The state of the half that a request names when it is not open, and whether the request's group is right."""
        state = self._table.decisions[request.queue_offset].state
        if state is None:
            return None, False
        log_offset = request.log_offset
        entry = self._store.entry(HALF, 0, request.queue_offset)
        record = self._store.read(log_offset) if entry is not None and entry.log_offset == log_offset else None
        if record is None:
            return None, False
        return state, read_half(record).group == request.group

    def _was_asked(self, client: Client, request: EndRequest, half: OpenHalf | None) -> bool:
        """Whether it answers the check that is outstanding. It may have left its group since it was asked."""
        return half is not None and bool(request.answers_check) and self._checks.was_asked(half, client)

    def _sent_it(self, client: Client, request: EndRequest, half: OpenHalf | None) -> bool:
        """Whether the process of the client sent the half that a request names (and that lies there)."""
        if half is not None and half.record is not None:
            born_host, unique_key = born_host_of(half.record), half.unique_key
        else:
            record = self._store.read(request.log_offset)
            if record is None:
                return False
            born_host, unique_key = pack_host(record.born_host), read_half(record).unique_key
        named = (request.message_id, request.transaction_id)
        return is_sender(client.host, born_host, unique_key, named, request.answers_check)

    def _conflict(self, request: EndRequest) -> Refused:
        self._counts.conflicts += 1
        decision = self._table.decisions[request.queue_offset]
        remark = (
            f"the transaction {request.message_id} is {decision.name} since {self._decided_at(request)}; "
            f"{request.resolution.name} comes too late"
        )
        log.warning("conflicting end of half message %d of group %s: %s", request.queue_offset, request.group, remark)
        return Refused(Refusal.CONFLICT, remark)

    def _decided_at(self, request: EndRequest) -> str:
        """When the op message of the half was stored, as text for people."""
        op_min, op_max = self._store.queue_range(OP, 0)
        first = max(op_min, op_max - _WHEN_SEARCH_MAX)
        for op_offset in range(op_max - 1, first - 1, -1):
            entry = self._store.entry(OP, 0, op_offset)
            record = None if entry is None else self._store.read(entry.log_offset)
            if record is not None and request.queue_offset in parse_op(record.body):
                when = datetime.fromtimestamp(record.store_timestamp / 1000, UTC)
                return when.isoformat(timespec="milliseconds")
            if record is not None and record.log_offset < request.log_offset:
                break
        return "an earlier time"


def _tell(done: Done, _half: OpenHalf, error: StoreError | None) -> None:
    done(refusal_of(error))


def refusal_of(error: StoreError | None) -> Refused | None:
    """What the sender of an end hears when the write of its decision has ended; None: it is done."""
    if error is None:
        return None
    if isinstance(error, Unconfirmed):
        return Refused(Refusal.UNAVAILABLE, str(error))
    reason = Refusal.UNAVAILABLE if isinstance(error, StoreUnavailable) else Refusal.FAILED
    return Refused(reason, f"the decision was not stored, the transaction is still open: {error}")


def _who_answered(request: EndRequest) -> tuple[Cause, str]:
    """The sender of an end that answers a check: a producer, or an operator with a note."""
    if request.operator is None:
        return Cause.CHECK_ANSWER, ""
    return Cause.OPERATOR, request.operator.note
