"""END_TRANSACTION (37): request -> facts -> verdict -> answer. Source: EndTransactionProcessor; holes 2, 21, 23, X4."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.transactions.endings import TransactionEndings, end_after
from gantrymq.broker.transactions.history import TransactionHistory
from gantrymq.errors import GantryError, StoreError, StoreUnavailable
from gantrymq.message.system_topics import HALF, OP
from gantrymq.message.transaction import OPERATOR_REMARK, Resolution
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import ONE_WAY_FLAG, Command, encode_response, success_of
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.stored_message import born_host_of
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.transactions.history.events import EndRefusal, Kind
from gantrymq.transactions.ports import HalfStore, ProducerSession, TopicLookup
from gantrymq.transactions.records.half import parse_op, read_half
from gantrymq.transactions.rules.resolve import RULES, STANDING_OF, Standing, Verdict, is_sender
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.open_halves import STANDING_OF_DECISION, OpenHalf, TransactionTable

log = logging.getLogger("gantrymq.transactions")

# Looking up a member of an enum costs ten times a global before Python 3.12; these are looked up for each message.
_COMMIT: Final = Verdict.COMMIT
_ROLL_BACK: Final = Verdict.ROLL_BACK

_VERDICTS: Final = RULES.verdicts
_RESOLUTIONS: Final = {int(resolution): resolution for resolution in Resolution}
_WHEN_SEARCH_MAX: Final = 2_000
"""Op messages looked through to tell when something was decided; only the remark of a refusal needs it."""

_REFUSALS: Final = {
    Verdict.NO_SUCH_HALF: Refusal.FAILED,
    Verdict.WRONG_GROUP: Refusal.FAILED,
    Verdict.STRANGER: Refusal.FAILED,
    Verdict.TOPIC_GONE: Refusal.TOPIC_UNKNOWN,
}
_BY_PRODUCER: Final = Cause.PRODUCER
"""Looking up a member of an Enum costs a tenth of a microsecond."""
_REASONS: Final = {
    Verdict.WRONG_GROUP: EndRefusal.WRONG_GROUP,
    Verdict.STRANGER: EndRefusal.STRANGER,
    Verdict.TOPIC_GONE: EndRefusal.TOPIC_GONE,
}
_REMARKS: Final = {
    Verdict.NO_SUCH_HALF: "Find prepared transaction message failed: no half message of this broker lies at {place}",
    Verdict.WRONG_GROUP: "The producer group wrong: the half message at {place} is not of group {group}",
    Verdict.STRANGER: "this connection is not of producer group {group}, and did not send the half message at {place}; "
    "send a heartbeat with the group first",
    Verdict.TOPIC_GONE: "the topic of the half message at {place} was deleted and the half stays open; "
    "create the topic again and commit once more, or roll back",
}


class EndTransactionProcessor:
    """Executes requests 37.

    ``is_member``: whether a session is of a producer group by its heartbeat. ``answered``: told about every half whose
    check was answered.
    """

    def __init__(
        self,
        store: HalfStore,
        table: TransactionTable,
        endings: TransactionEndings,
        topics: TopicLookup,
        is_member: Callable[[str, ProducerSession], bool],
        answered: Callable[[OpenHalf], None],
        counts: TransactionCounts,
        history: TransactionHistory,
    ) -> None:
        self._history = history
        self._store = store
        self._table = table
        self._endings = endings
        self._topics = topics
        self._is_member = is_member
        self._answered = answered
        self._counts = counts

    def handle(self, session: ProducerSession, command: Command) -> bytes | None:
        """Answer a request, now or when its records are durable. A one-way request is never answered."""
        ext = command.ext
        header = ext if isinstance(ext, EndTransaction) else command.header(EndTransaction)
        resolution = _RESOLUTIONS.get(header.commit_or_rollback)
        if resolution is None:
            raise Refused(Refusal.FAILED, "commitOrRollback field wrong; it is 0, 8 or 12")
        return self._decide(session, command, header, resolution)

    def _decide(
        self, session: ProducerSession, command: Command, header: EndTransaction, resolution: Resolution
    ) -> bytes | None:
        group = header.producer_group
        half = self._table.at(header.tran_state_table_offset, header.commit_log_offset)
        if half is not None and half.unique_key != header.msg_id and not _may_mean(header, half):
            half, standing, right_group, topic = None, Standing.NO_HALF, False, None
        elif half is not None:
            standing, right_group = STANDING_OF[half.state], half.group == group
            topic = self._topics.get(half.real_topic)
        else:
            standing, right_group = self._standing_of_ended(header)
            topic = None
        may_speak = self._is_member(group, session) or (right_group and self._sent_it(session, header, half))
        verdict = _VERDICTS[standing, right_group, may_speak, resolution, topic is not None]
        if half is not None and verdict <= _ROLL_BACK:
            self._end(session, command, header, half, verdict, 0 if topic is None else topic.read_queue_nums)
            return None
        if half is not None and verdict is Verdict.AFTER_ENDING:
            late = self._endings.unconfirmed.get(half.queue_offset)
            if late is not None:
                raise Refused(Refusal.UNAVAILABLE, str(late))
            end_after(half, lambda _half, _error: self._again(session, command, header, resolution))
            return None
        if verdict is Verdict.NOTE_UNKNOWN:
            return self._note_unknown(session, command, header, half)
        if verdict is Verdict.ALREADY:
            self._counts.repeated += 1
            self._history.note(Kind.REPEATED, _place(header), resolution, peer=session.peer)
            return success_of(command)
        if verdict is Verdict.CONFLICT:
            self._history.note(Kind.CONFLICT, _place(header), resolution, peer=session.peer)
            raise self._conflict(header, resolution)
        self._counts.refused += 1
        if standing is not Standing.NO_HALF:
            self._history.note(Kind.REFUSED, _place(header), resolution, _REASONS[verdict], session.peer)
        place = f"half queue offset {header.tran_state_table_offset}, log offset {header.commit_log_offset}"
        log.info("%s of %s refused: %s", resolution.name, session.peer, verdict.name)
        raise Refused(_REFUSALS[verdict], _REMARKS[verdict].format(place=place, group=group))

    def _end(
        self, session: ProducerSession, command: Command, header: EndTransaction, half: OpenHalf, verdict: Verdict,
        queues: int,
    ) -> None:  # fmt: skip
        then = None
        if not command.flag & ONE_WAY_FLAG:

            def then(_half: OpenHalf, error: StoreError | None) -> None:
                session.send(_answer(command, error))

        cause, note = _BY_PRODUCER, ""
        if header.from_transaction_check:
            cause, note = _who_answered(command)
        try:
            if verdict is _COMMIT:
                self._endings.commit(half, queues, then, pack_host(session.peer), cause, note)
            else:
                self._endings.roll_back(half, then, pack_host(session.peer), cause, note)
        except StoreUnavailable as error:
            self._counts.failed += 1
            self._history.note(
                Kind.FAILED, half.place, Decision.COMMITTED if verdict is Verdict.COMMIT else Decision.ROLLED_BACK
            )
            log.warning("half message %d stays open: %s", half.queue_offset, error)
            raise Refused(Refusal.UNAVAILABLE, str(error)) from error
        if half.has_turn:
            self._answered(half)
        if header.from_transaction_check:
            self._counts.decided_by_check += 1
            if cause is Cause.OPERATOR:
                log.warning(
                    "%s of half message %d (%s of group %s) by %s", verdict.name, half.queue_offset, half.unique_key,
                    half.group, command.remark,
                )  # fmt: skip

    def _again(
        self, session: ProducerSession, command: Command, header: EndTransaction, resolution: Resolution
    ) -> None:
        """The decision that was under way has ended: now this request has its turn."""
        try:
            answer = self._decide(session, command, header, resolution)
        except Refused as refusal:
            answer = rejected(command, refusal)
        except GantryError as error:
            answer = encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error))
        if answer is not None and not command.is_one_way:
            session.send(answer)

    def _note_unknown(
        self, session: ProducerSession, command: Command, header: EndTransaction, half: OpenHalf | None
    ) -> bytes:
        self._counts.unknowns += 1
        # Only an answer to a check that was really asked counts, and each check counts once.
        counts = half is not None and bool(header.from_transaction_check and half.answer_deadline)
        if not header.from_transaction_check:
            self._history.note(Kind.SAID_UNKNOWN, _place(header), peer=session.peer)
        elif half is not None:
            self._history.answered_unknown(half, session.peer, counts)
        if half is not None and counts:
            half.unknown_answers += 1
            self._answered(half)
        return success_of(command)

    def _standing_of_ended(self, header: EndTransaction) -> tuple[Standing, bool]:
        """What a request names that no open half matches, and whether its group is right."""
        queue_offset, log_offset = header.tran_state_table_offset, header.commit_log_offset
        standing = STANDING_OF_DECISION[self._table.decisions[queue_offset]]
        if standing is Standing.NO_HALF:
            return standing, False
        entry = self._store.entry(HALF, 0, queue_offset)
        record = self._store.read(log_offset) if entry is not None and entry.log_offset == log_offset else None
        if record is None:
            return Standing.NO_HALF, False
        return standing, read_half(record).group == header.producer_group

    def _sent_it(self, session: ProducerSession, header: EndTransaction, half: OpenHalf | None) -> bool:
        """Whether the process at the other end sent the half that a request names (and that lies there)."""
        if half is not None and half.record is not None:
            born_host, unique_key = born_host_of(half.record), half.unique_key
        else:
            record = self._store.read(header.commit_log_offset)
            if record is None:
                return False
            born_host, unique_key = pack_host(record.born_host), read_half(record).unique_key
        named = (header.msg_id, header.transaction_id)
        return is_sender(pack_host(session.peer), born_host, unique_key, named, bool(header.from_transaction_check))

    def _conflict(self, header: EndTransaction, resolution: Resolution) -> Refused:
        self._counts.conflicts += 1
        queue_offset = header.tran_state_table_offset
        decision = self._table.decisions[queue_offset]
        remark = (
            f"the transaction {header.msg_id} is {decision.name} since {self._decided_at(queue_offset, header)}; "
            f"{resolution.name} comes too late"
        )
        log.warning("conflicting end of half message %d of group %s: %s", queue_offset, header.producer_group, remark)
        return Refused(Refusal.CONFLICT, remark)

    def _decided_at(self, queue_offset: int, header: EndTransaction) -> str:
        """When the op message of a half was stored, as text for people."""
        op_min, op_max = self._store.queue_range(OP, 0)
        first = max(op_min, op_max - _WHEN_SEARCH_MAX)
        for op_offset in range(op_max - 1, first - 1, -1):
            entry = self._store.entry(OP, 0, op_offset)
            record = None if entry is None else self._store.read(entry.log_offset)
            if record is not None and queue_offset in parse_op(record.body):
                when = datetime.fromtimestamp(record.store_timestamp / 1000, UTC)
                return when.isoformat(timespec="milliseconds")
            if record is not None and record.log_offset < header.commit_log_offset:
                break
        return "an earlier time"


def _who_answered(command: Command) -> tuple[Cause, str]:
    """Who sent an end that says it answers a check: a producer, or an operator with a note."""
    if command.remark and command.remark.startswith(OPERATOR_REMARK):
        return Cause.OPERATOR, command.remark.removeprefix(OPERATOR_REMARK)
    return Cause.CHECK_ANSWER, ""


def _place(header: EndTransaction) -> tuple[int, int]:
    """The half that a request names; for requests that were found to name one."""
    return header.tran_state_table_offset, header.commit_log_offset


def _may_mean(header: EndTransaction, half: OpenHalf) -> bool:
    """Whether a request means the half that lies where it says, and not one that lay there before.

    When the end of the log is lost (a power cut with ASYNC_FLUSH, a bad last record), the next half takes the place of
    one that was answered, and whose sender may be alive. All official clients put the UNIQ_KEY into one of two fields.
    """
    named = (header.msg_id, header.transaction_id)
    return half.unique_key in named or not any(named) or not half.unique_key


def _answer(command: Command, error: StoreError | None) -> bytes:
    if error is None:
        return success_of(command)
    if isinstance(error, Unconfirmed):
        return encode_response(command, ResponseCode.SERVICE_NOT_AVAILABLE, remark=str(error))
    code = ResponseCode.SERVICE_NOT_AVAILABLE if isinstance(error, StoreUnavailable) else ResponseCode.SYSTEM_ERROR
    return encode_response(command, code, remark=f"the decision was not stored, the transaction is still open: {error}")
