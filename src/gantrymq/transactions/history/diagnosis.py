"""The state of a transaction and the reason for it, by its records. Pure; for tools, which see a broker from outside.

The records of one transaction are its halves (an Apache broker puts a checked half back as a copy; an operator who
resumes a parked one starts it afresh), the op message that settles one of them, the final message, and the parked copy.
Sources as in ``half`` and ``rebuild``; nothing is decided here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gantrymq.transactions.history.evidence import FinalRecord, HalfRecord, Identity, OpRecord
from gantrymq.transactions.rules.check_policy import immunity_ms
from gantrymq.transactions.rules.decision_table import ANY, DecisionTable
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision

CHECKS_SPAN_MAX: Final = 10_000
"""Half queue offsets that one question about checks may cover: a look at each takes a microsecond of the broker's
loop."""


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """What our broker knows of an open half message besides its record."""

    times: int
    """Checks sent since the broker started."""
    unknown_answers: int
    next_look_ms: int | None
    """When it is looked at again, ms since 1970."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known about the broker besides the records."""

    now_ms: int
    """By the clock of this process; the broker's clock may differ."""
    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    check_max: int = 15
    producers: Mapping[str, int] | None = None
    """Producer group to members connected to this broker; None: unknown."""
    rewrites_halves: bool = False
    """An Apache broker: its halves say how often they were checked."""
    progress: Mapping[int, CheckProgress] = field(default_factory=dict)
    """By the half queue offset of open halves; our brokers say it."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the records say of one transaction."""

    transaction_id: str
    group: str
    topic: str
    queue_id: int
    state: State
    why: str
    """One sentence: why it is where it is."""
    advice: str
    """What can be done; empty when nothing needs to be."""
    age_ms: int
    """Since its producer made it."""
    half: HalfRecord
    """Its newest copy; of a parked one the parked copy."""
    copies: int
    checks: int | None
    """None: the broker does not say."""
    producers: int | None
    next_check_ms: int | None
    """Not before this time (ms since 1970) it is checked; None when no check is to be expected."""
    op: OpRecord | None = None
    final: FinalRecord | None = None
    halves: tuple[HalfRecord, ...] = ()
    """All halves in log order: copies, and those before it was parked and resumed."""
    parked: tuple[HalfRecord, ...] = ()
    ops: Mapping[int, OpRecord] = field(default_factory=dict)
    """The ops of all halves, by half queue offset."""
    immune_until_ms: int = 0


def diagnose(
    halves: Iterable[HalfRecord],
    ops: Mapping[int, OpRecord],
    parked: Iterable[HalfRecord],
    finals: Iterable[FinalRecord],
    around: Surroundings,
    *,
    all_finals: bool = False,
) -> list[Transaction]:
    """The transactions behind these records, oldest first.

    ``ops``: by the half queue offset they name. ``all_finals``: ``finals`` holds every final message there is, so
    that a settled transaction without one was rolled back.
    """
    chains: dict[Identity, _Records] = {}
    for half in halves:
        chains.setdefault(half.identity, _Records([], [])).halves.append(half)
    for half in parked:
        chains.setdefault(half.identity, _Records([], [])).parked.append(half)
    by_half = {final.half_log_offset: final for final in finals}
    found = [_transaction(records, ops, by_half, around, all_finals) for records in chains.values()]
    return sorted(found, key=lambda transaction: (transaction.half.born_ms, transaction.half.log_offset))


@dataclass(slots=True)
class _Records:
    halves: list[HalfRecord]
    parked: list[HalfRecord]


def _transaction(
    records: _Records,
    ops: Mapping[int, OpRecord],
    finals: Mapping[int, FinalRecord],
    around: Surroundings,
    all_finals: bool,
) -> Transaction:
    copies = _last_cycle(records.halves)
    newest_parked = max(records.parked, key=lambda half: half.log_offset, default=None)
    # A half behind the parked copy is one that an operator resumed.
    if newest_parked is not None and (not copies or newest_parked.log_offset > copies[-1].log_offset):
        half = newest_parked
    else:
        newest_parked, half = None, copies[-1]
    op = next((ops[copy.queue_offset] for copy in reversed(copies) if copy.queue_offset in ops), None)
    final = next((finals[copy.log_offset] for copy in copies if copy.log_offset in finals), None)
    state = _state(newest_parked is not None, op, final is not None, all_finals)
    producers = None if around.producers is None else around.producers.get(half.group, 0)
    progress = around.progress.get(copies[0].queue_offset) if copies else None
    checks = (
        half.checks if around.rewrites_halves or state is State.PARKED else None if progress is None else progress.times
    )
    stored_ms = half.born_ms if around.rewrites_halves else copies[0].stored_ms if copies else half.stored_ms
    immune_until = stored_ms + immunity_ms(half.immunity_text, around.timeout_ms)
    unknown = checks if progress is None else progress.unknown_answers
    next_look = max(immune_until, around.now_ms) if progress is None else progress.next_look_ms
    situation = SITUATIONS[
        state,
        around.now_ms < immune_until,
        unknown is not None and unknown >= around.check_max,
        Producers.UNKNOWN if producers is None else Producers.SOME if producers else Producers.NONE,
    ]
    words = {
        "group": half.group,
        "topic": half.real_topic,
        "checks": "number of checks unknown" if checks is None else f"checked {checks} times",
        "times": str(half.checks if checks is None else checks),
        "until": f"{max(immune_until - around.now_ms, 0) / 1000:.0f} s from now",
        "interval": f"{around.interval_ms / 1000:g}",
        "max": str(around.check_max),
        "online": str(producers),
        "final": "" if final is None else f"queue {final.queue_id}, offset {final.queue_offset}",
        "id": half.unique_key,
    }
    why, advice = SENTENCES[situation]
    return Transaction(
        transaction_id=half.unique_key,
        group=half.group,
        topic=half.real_topic,
        queue_id=half.real_queue_id,
        state=state,
        why=why.format(**words),
        advice=advice.format(**words),
        age_ms=max(around.now_ms - half.born_ms, 0),
        half=half,
        copies=len(copies),
        checks=checks,
        producers=producers,
        next_check_ms=next_look if state is State.OPEN else None,
        op=op,
        final=final,
        halves=tuple(sorted(records.halves, key=lambda half: half.log_offset)),
        parked=tuple(sorted(records.parked, key=lambda half: half.log_offset)),
        ops={half.queue_offset: ops[half.queue_offset] for half in records.halves if half.queue_offset in ops},
        immune_until_ms=immune_until,
    )


def _last_cycle(halves: list[HalfRecord]) -> list[HalfRecord]:
    """The newest half that is no copy, and the copies of it that follow, in log order."""
    ordered = sorted(halves, key=lambda half: half.log_offset)
    start = 0
    for number, half in enumerate(ordered):
        if not half.put_back:
            start = number
    return ordered[start:]


def _state(parked: bool, op: OpRecord | None, has_final: bool, all_finals: bool) -> State:
    decision = Decision.NONE if op is None else op.decision
    if decision is Decision.COMMITTED or has_final:
        return State.COMMITTED
    if decision is Decision.ROLLED_BACK:
        return State.ROLLED_BACK
    # An Apache broker may park what it has settled: a copy that it put back before its op message was there. Parking
    # itself leaves an op of ours only, and that says so.
    if decision is Decision.PARKED or (parked and op is None):
        return State.PARKED
    if op is None:
        return State.OPEN
    return State.ROLLED_BACK if all_finals else State.SETTLED


# Why it is where it is.


class Producers(enum.Enum):
    """Whether a producer is online that can be asked."""

    NONE = 0
    SOME = 1
    UNKNOWN = 2


class Situation(enum.Enum):
    """What makes a difference for the person who asks."""

    COMMITTED = enum.auto()
    ROLLED_BACK = enum.auto()
    SETTLED = enum.auto()
    PARKED = enum.auto()
    RUNNING = enum.auto()
    LAST_CHECK = enum.auto()
    NOBODY = enum.auto()
    ASKED = enum.auto()
    ASKED_PERHAPS = enum.auto()


FACTS: Final = {
    "state": (State.OPEN, State.PARKED, State.COMMITTED, State.ROLLED_BACK, State.SETTLED),
    "immune": (False, True),
    "exhausted": (False, True),
    "producers": tuple(Producers),
}
SITUATIONS: Final = DecisionTable(
    FACTS,
    [
        ((State.COMMITTED, ANY, ANY, ANY), Situation.COMMITTED),
        ((State.ROLLED_BACK, ANY, ANY, ANY), Situation.ROLLED_BACK),
        ((State.SETTLED, ANY, ANY, ANY), Situation.SETTLED),
        ((State.PARKED, ANY, ANY, ANY), Situation.PARKED),
        ((State.OPEN, True, ANY, ANY), Situation.RUNNING),
        ((State.OPEN, False, True, ANY), Situation.LAST_CHECK),
        ((State.OPEN, False, False, Producers.NONE), Situation.NOBODY),
        ((State.OPEN, False, False, Producers.SOME), Situation.ASKED),
        ((State.OPEN, False, False, Producers.UNKNOWN), Situation.ASKED_PERHAPS),
    ],
)

SENTENCES: Final = {
    Situation.COMMITTED: ("It was committed; consumers of {topic} get it ({final}).", ""),
    Situation.ROLLED_BACK: ("It was rolled back; consumers never see it.", ""),
    Situation.SETTLED: (
        "It has ended, and this broker does not record whether it was committed or rolled back.",
        "Look for its message in the topic: gantry message show {id} --topic {topic}",
    ),
    Situation.PARKED: (
        (
            "Nobody decided it in time ({times} checks), so it was parked: consumers do not see it, and no producer "
            "is asked."
        ),
        "Find out how the local transaction ended; then: gantry transactions resume {id}, and commit or rollback it.",
    ),
    Situation.RUNNING: (
        "Its local transaction may still be running, so producers are not asked before {until}.",
        "Wait.",
    ),
    Situation.LAST_CHECK: (
        "It was checked {times} times without a decision and will be parked in the next round (limit {max}).",
        "Decide it now (commit or rollback), or resume it once it is parked.",
    ),
    Situation.NOBODY: (
        (
            "No producer of group {group} is connected to this broker, so no producer can be asked how it ended "
            "({checks})."
        ),
        "Start an instance of {group}; it is asked soon. If no instance can be started, decide it: commit or rollback.",
    ),
    Situation.ASKED: (
        (
            "{online} producer(s) of group {group} are connected and asked every {interval} s; there is no decision "
            "yet ({checks})."
        ),
        "Read the log of the producers: their checker answers UNKNOWN, fails, or takes too long.",
    ),
    Situation.ASKED_PERHAPS: (
        "It is undecided; whether a producer of group {group} is connected could not be found out ({checks}).",
        "Find out whether {group} is running and what its checker answers.",
    ),
}
"""Why, and what can be done."""
