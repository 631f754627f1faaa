"""What happened to a transaction: a list of events, each with its time and its cause. Pure: records and journal in,
sentences out. An Apache broker keeps no journal; what its records show is in the list as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gantrymq.message.transaction import Resolution
from gantrymq.transactions.history.diagnosis import Surroundings, Transaction
from gantrymq.transactions.history.events import EndRefusal, EventKind, HistoryEvent, key_of
from gantrymq.transactions.history.evidence import HalfRecord, OpRecord
from gantrymq.transactions.rules.check_policy import immunity_ms
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause, Decision


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One event, for people and for programs."""

    at_ms: int
    """By the broker's clock, ms since 1970."""
    event: str
    """Its name for programs."""
    what: str
    cause: str
    who: str = ""
    """``ip:port`` of the client that did it or was asked; empty: the broker itself, or unknown."""


# What the journal says.

Words = tuple[str, str, str]
"""Name, what, cause."""

STARTED: Final[dict[int, Words]] = {
    0: ("broker_started", "the broker was started and began to record events", "it had no earlier journal"),
    1: (
        "broker_started",
        "the broker was started again",
        "it had been stopped in an orderly way; it counts checks from 0 again",
    ),
    2: (
        "broker_started",
        "the broker was started again; events of the second before its death may be missing",
        "it had been killed or had crashed; it counts checks from 0 again",
    ),
}
"""By detail of the event."""

FIRST, EARLY, AFTER_UNKNOWN, AFTER_SILENCE, AFTER_START, AFTER_NOBODY, AFTER_LEFT = range(7)
CHECKED: Final[dict[int, str]] = {
    FIRST: "undecided at the end of its immunity",
    EARLY: "the connection of its producer closed, and its checker may be asked at once",
    AFTER_UNKNOWN: "still undecided: the answer to the previous check was UNKNOWN",
    AFTER_SILENCE: "still undecided: the previous check was not answered",
    AFTER_START: "still undecided, and the broker was started again",
    AFTER_LEFT: "still undecided, and the producer that was asked before is gone",
    AFTER_NOBODY: "still undecided, and now a producer of {group} was online",
}
"""Why a check was sent."""

REFUSED: Final[dict[int, str]] = {
    EndRefusal.OTHER: "the broker's log says why",
    EndRefusal.WRONG_GROUP: "it named another producer group; this transaction belongs to {group}",
    EndRefusal.STRANGER: "a stranger: it had neither sent this half nor a heartbeat for {group}",
    EndRefusal.TOPIC_GONE: "the topic {topic} did not exist; the transaction stays open",
}
"""Why an end was refused, by number of the event."""

SENTENCES: Final[dict[EventKind, Words]] = {
    EventKind.STOPPED: ("broker_stopped", "the broker was stopped", "in order"),
    EventKind.CHECKED: ("check_sent", "check {number} was sent to {peer}", "{why}"),
    EventKind.ANSWERED_UNKNOWN: ("check_answered", "{peer} answered the check with UNKNOWN", "{why}"),
    EventKind.SAID_UNKNOWN: (
        "ended_unknown",
        "{peer} ended it with UNKNOWN",
        "its listener did not say how the local transaction ended; producers will be asked",
    ),
    EventKind.NOBODY_ONLINE: (
        "nobody_online",
        "a check was due, and no producer was online",
        "no producer of {group} was connected to this broker",
    ),
    EventKind.LEFT: (
        "asked_one_left",
        "{peer} disconnected before it answered",
        "its connection closed: it was stopped or killed, or the network failed",
    ),
    EventKind.REPEATED: (
        "end_repeated",
        "{peer} ended it with {wanted} again; nothing changed",
        "it was {decided} already; a client that got no answer sends the end again",
    ),
    EventKind.CONFLICT: (
        "conflicting_end",
        "{peer} ended it with {wanted}, and was refused",
        "too late: it was {decided} already, and the first decision stands",
    ),
    EventKind.REFUSED: ("end_refused", "{peer} ended it with {wanted}, and was refused", "{why}"),
    EventKind.FAILED: (
        "decision_not_stored",
        "the decision {wanted} could not be stored; it stays open",
        "the write failed; the broker's log says why",
    ),
    EventKind.JOINED: (
        "send_retried",
        "{peer} sent it again; it joined this half, and nothing was stored twice",
        "most likely the answer to the first send did not reach its producer",
    ),
}
"""The other kinds show in the records: RESUMED adds the reason to one of those."""

OF_CHECKS: Final = frozenset({EventKind.CHECKED, EventKind.ANSWERED_UNKNOWN, EventKind.NOBODY_ONLINE, EventKind.LEFT})
_WANTED: Final = {int(resolution): resolution.name for resolution in Resolution} | {
    int(Decision.COMMITTED): "COMMIT", int(Decision.ROLLED_BACK): "ROLLBACK", int(Decision.PARKED): "to park it",
}  # fmt: skip
DECIDED: Final = {
    Decision.NONE: "decided",
    Decision.SETTLED: "settled",
    Decision.QUARANTINED: "unreadable",
    Decision.PARKED: "parked",
    Decision.COMMITTED: "committed",
    Decision.ROLLED_BACK: "rolled back",
}

# What the records say.

ENDED: Final[dict[Cause | None, str]] = {
    Cause.PRODUCER: "{by}, a producer of {group}, ended it after its local transaction",
    Cause.CHECK_ANSWER: "{by}, a producer of {group}, gave this answer to a check",
    Cause.OPERATOR: "an operator decided: {note}",
    Cause.UNKNOWN_ANSWERS: "as many checks as transactionCheckMax allows were answered with UNKNOWN",
    Cause.TOO_OLD: "it was older than fileReservedTime, and nobody had decided it",
    Cause.RECOVERY: "decided before the broker died; the next start completed its op message",
    None: "it is not known who ended it: an Apache broker wrote its op message, or the op message was not found",
}
"""By the cause that stands in the op message."""

ENDINGS: Final[dict[Decision, tuple[str, str]]] = {
    Decision.COMMITTED: ("committed", "committed: consumers of {topic} get its message{final}"),
    Decision.ROLLED_BACK: ("rolled_back", "rolled back: no consumer ever gets its message"),
    Decision.PARKED: ("parked", "parked: set aside in TRANS_CHECK_MAX_TIME_TOPIC, and no producer is asked any more"),
    Decision.SETTLED: ("settled", "settled"),
}


def timeline(transaction: Transaction, events: Sequence[HistoryEvent], around: Surroundings) -> list[TimelineEntry]:
    """All that is known, in order of time. ``events``: of its halves and of the broker, in order."""
    first = transaction.halves[0].stored_ms if transaction.halves else transaction.half.stored_ms
    last = _last_ms(transaction, events, around)
    own = [event for event in events if first < event.time_ms <= last or not _is_of_broker(event)]
    entries = [*_from_records(transaction, own, around), *_from_journal(transaction, own)]
    # Records first: a check is not sent before the half is stored, though both may bear the same millisecond.
    return sorted(entries, key=lambda entry: entry.at_ms)


def checks_in_short(events: Iterable[HistoryEvent], now_ms: int, interval_ms: int) -> str:
    """How checks were answered, as a sentence; empty when none was sent."""
    sent = unknown = 0
    pending: HistoryEvent | None = None
    for event in events:
        if event.kind is EventKind.CHECKED:
            sent, pending = sent + 1, event
        elif event.kind is EventKind.ANSWERED_UNKNOWN and event.detail:
            unknown, pending = unknown + 1, None
        elif event.kind is EventKind.LEFT:
            pending = None
    waits = pending is not None and now_ms - pending.time_ms < interval_ms
    silent = sent - unknown - waits
    if not sent:
        return ""
    parts = [f"{unknown} answered with UNKNOWN"] if unknown else []
    parts += [f"{silent} not answered"] if silent else []
    parts += ["1 waits for its answer"] if waits else []
    return f"Checks: {sent} sent, {', '.join(parts)}."


def _is_of_broker(event: HistoryEvent) -> bool:
    return event.kind is EventKind.STARTED or event.kind is EventKind.STOPPED


def _last_ms(transaction: Transaction, events: Iterable[HistoryEvent], around: Surroundings) -> int:
    """Until when the broker's own events matter: now, or the last thing that happened to a transaction that is over."""
    if transaction.state in (State.OPEN, State.PARKED) or transaction.op is None:
        return around.now_ms
    return max([transaction.op.stored_ms, *(event.time_ms for event in events if not _is_of_broker(event))])


# Records.


def _from_records(
    transaction: Transaction, events: Sequence[HistoryEvent], around: Surroundings
) -> Iterator[TimelineEntry]:
    resumed = {event.key: event for event in events if event.kind is EventKind.RESUMED}
    for number, half in enumerate(transaction.halves):
        yield _stored(transaction, half, number, resumed.get(key_of(half.queue_offset, half.log_offset)))
        op = transaction.ops.get(half.queue_offset)
        if not around.rewrites_halves and not half.put_back:
            yield from _immunity(transaction, half, op, around)
    yield from _endings(transaction)


def _stored(transaction: Transaction, half: HalfRecord, number: int, resumed: HistoryEvent | None) -> TimelineEntry:
    place = f"half queue offset {half.queue_offset}, log offset {half.log_offset}"
    if half.put_back:
        return TimelineEntry(
            half.stored_ms, "put_back", f"its half was put back at the end of the half queue ({place})",
            f"an Apache broker does that to check it; counted so far: {half.checks}",
        )  # fmt: skip
    if number:
        cause = f"an operator resumed it: {resumed.text}" if resumed and resumed.text else "an operator resumed it"
        who = resumed.peer if resumed else ""
        return TimelineEntry(
            half.stored_ms, "resumed", f"opened again, to be checked as if it were new ({place})", cause, who
        )
    cause = f"{half.born_host}, a producer of {transaction.group}, sent it for topic {transaction.topic}"
    return TimelineEntry(half.stored_ms, "stored", f"its half was stored ({place})", cause, half.born_host)


def _immunity(
    transaction: Transaction, half: HalfRecord, op: OpRecord | None, around: Surroundings
) -> Iterator[TimelineEntry]:
    immunity = immunity_ms(half.immunity_text, around.timeout_ms)
    until = half.stored_ms + immunity
    if until <= (around.now_ms if op is None else min(op.stored_ms, around.now_ms)):
        source = "transactionTimeOut" if half.immunity_text is None else "CHECK_IMMUNITY_TIME_IN_SECONDS of the message"
        yield TimelineEntry(
            until, "immunity_ended", "its immunity ended: from now on producers are asked",
            f"{immunity / 1000:g} s after it was stored ({source}) nobody had decided it",
        )  # fmt: skip


def _endings(transaction: Transaction) -> Iterator[TimelineEntry]:
    ops: dict[int, OpRecord] = {op.queue_offset: op for op in transaction.ops.values()}
    for op in ops.values():
        name, what = ENDINGS.get(op.decision, ENDINGS[Decision.SETTLED])
        final = transaction.final if op.decision is Decision.COMMITTED else None
        at = "" if final is None else f" (queue {final.queue_id}, offset {final.queue_offset})"
        cause = ENDED[op.cause].format(by=op.by, group=transaction.group, note=op.note or "(no reason given)")
        who = op.by if op.cause in (Cause.PRODUCER, Cause.CHECK_ANSWER, Cause.OPERATOR) else ""
        yield TimelineEntry(op.stored_ms, name, what.format(topic=transaction.topic, final=at), cause, who)
    decided = {op.decision for op in ops.values()}
    if transaction.final is not None and Decision.COMMITTED not in decided:
        at = f" (queue {transaction.final.queue_id}, offset {transaction.final.queue_offset})"
        what = ENDINGS[Decision.COMMITTED][1].format(topic=transaction.topic, final=at)
        yield TimelineEntry(
            transaction.final.stored_ms, "committed", what, "its message is stored; who ended it is not recorded"
        )
    if Decision.PARKED not in decided:
        name, what = ENDINGS[Decision.PARKED]
        for half in transaction.parked:
            yield TimelineEntry(half.stored_ms, name, what, f"checked {half.checks} times without a decision")


# Journal.


def _from_journal(transaction: Transaction, events: Iterable[HistoryEvent]) -> Iterator[TimelineEntry]:
    decisions = {
        key_of(half.queue_offset, half.log_offset): transaction.ops[half.queue_offset].decision
        for half in transaction.halves
        if half.queue_offset in transaction.ops
    }
    restarted, of = False, -1
    before: EventKind | None = None  # what became of the check before
    for event in events:
        why = ""
        if event.kind in OF_CHECKS and event.key != of:
            before, of = None, event.key  # another half: an operator resumed it
        if event.kind is EventKind.STARTED:
            restarted = True
            name, what, cause = STARTED.get(event.detail, STARTED[2])
            yield TimelineEntry(event.time_ms, name, what, cause)
            continue
        if event.kind is EventKind.CHECKED:
            why = CHECKED[_why_checked(event, before, restarted)].format(group=transaction.group)
            before, restarted = EventKind.CHECKED, False
        elif event.kind in (EventKind.NOBODY_ONLINE, EventKind.LEFT):
            before = event.kind
        elif event.kind is EventKind.ANSWERED_UNKNOWN:
            before = event.kind
            why = "its checker cannot tell (yet), or it failed"
            why += "" if event.detail else "; not counted, as no check was waiting for an answer"
        elif event.kind is EventKind.REFUSED:
            why = REFUSED.get(event.number, REFUSED[EndRefusal.OTHER]).format(
                group=transaction.group, topic=transaction.topic
            )
        if event.kind in SENTENCES:
            yield _entry_of(event, transaction, DECIDED[decisions.get(event.key, Decision.NONE)], why)


def _why_checked(event: HistoryEvent, before: EventKind | None, restarted: bool) -> int:
    """``before``: what came of the check before, None when there was none."""
    if event.detail:
        return EARLY
    if restarted and before in (EventKind.CHECKED, EventKind.ANSWERED_UNKNOWN, EventKind.LEFT):
        return AFTER_START
    return {
        None: FIRST,
        EventKind.NOBODY_ONLINE: AFTER_NOBODY,
        EventKind.LEFT: AFTER_LEFT,
        EventKind.ANSWERED_UNKNOWN: AFTER_UNKNOWN,
    }.get(before, AFTER_SILENCE)


def _entry_of(event: HistoryEvent, transaction: Transaction, decided: str, why: str) -> TimelineEntry:
    name, what, cause = SENTENCES[event.kind]
    words = {
        "peer": event.peer or "somebody", "number": event.number, "group": transaction.group, "why": why,
        "wanted": _WANTED.get(event.detail, "a decision"), "decided": decided,
    }  # fmt: skip
    return TimelineEntry(event.time_ms, name, what.format(**words), cause.format(**words), event.peer)
