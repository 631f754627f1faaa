"""Where a transaction stands and why, told from its records. Pure; for tools, which see a broker only from outside.

The records of one transaction are its halves (an Apache broker puts a checked half back as a copy; an operator who
resumes a parked one starts it afresh), the op message that settles one of them, the final message, and the parked copy.
Sources as in ``half`` and ``rebuild``; here nothing is decided, it is only said.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.stored_message import pack_host
from gantrymq.transactions.check_policy import immunity_ms
from gantrymq.transactions.decision_table import ANY, DecisionTable
from gantrymq.transactions.decisions import Decision

Identity = tuple[str, str, int, int]
"""(group, UNIQ_KEY, born timestamp, body CRC): equal for all copies of one transaction; see ``rebuild``."""


class Stage(enum.StrEnum):
    """Where a transaction stands."""

    OPEN = "open"
    PARKED = "parked"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    SETTLED = "settled"
    """It ended, and no record says how."""


@dataclass(frozen=True, slots=True)
class HalfSeen:
    """A half message, or its parked copy."""

    identity: Identity
    queue_offset: int
    log_offset: int
    message_id: str
    """Its offset message id."""
    stored_ms: int
    born_ms: int
    born_host: str
    real_topic: str
    real_queue_id: int
    checks: int
    """TRANSACTION_CHECK_TIMES. Our broker writes it only when it parks."""
    put_back: bool
    """An Apache broker wrote it as a copy of an older one."""
    immunity_text: str | None
    keys: str
    tags: str

    @property
    def group(self) -> str:
        return self.identity[0]

    @property
    def unique_key(self) -> str:
        return self.identity[1]


@dataclass(frozen=True, slots=True)
class OpSeen:
    """The record that settles a half."""

    queue_offset: int
    stored_ms: int
    decision: Decision
    """SETTLED when it was written by an Apache broker, which does not say how."""


@dataclass(frozen=True, slots=True)
class FinalSeen:
    """The message consumers get."""

    half_log_offset: int
    """Which half was committed."""
    topic: str
    queue_id: int
    queue_offset: int
    stored_ms: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known about the broker beside the records."""

    now_ms: int
    """By the clock of whoever looks; a broker's clock may differ."""
    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    check_max: int = 15
    producers: Mapping[str, int] | None = None
    """Producer group to members connected to this broker; None: unknown."""
    rewrites_halves: bool = False
    """An Apache broker: its halves say how often they were checked."""


@dataclass(frozen=True, slots=True)
class Story:
    """One transaction."""

    transaction_id: str
    group: str
    topic: str
    queue_id: int
    stage: Stage
    why: str
    """One sentence: why it is where it is."""
    advice: str
    """What can be done; empty when nothing needs to be."""
    age_ms: int
    """Since its producer made it."""
    half: HalfSeen
    """Its newest copy; of a parked one the parked copy."""
    copies: int
    checks: int | None
    """None: the broker does not tell."""
    producers: int | None
    next_check_ms: int | None
    """Not before this time (ms since 1970) it is checked; None when no check is to be expected."""
    op: OpSeen | None = None
    final: FinalSeen | None = None


# From records to what is seen in them.


def seen(stored: StoredMessage) -> HalfSeen | None:
    """A record of the half topic or of the parked topic; None when it is no half (a damaged or foreign record)."""
    decoded = properties.decode(stored.properties_text)
    group = decoded.get(properties.PRODUCER_GROUP, "")
    topic = decoded.get(properties.REAL_TOPIC, "")
    queue_id = decoded.get(properties.REAL_QUEUE_ID, "")
    if not group or not topic or not queue_id.isdecimal():
        return None
    checks = decoded.get(properties.CHECK_TIMES, "0")
    return HalfSeen(
        identity=(group, decoded.get(properties.UNIQ_KEY, ""), stored.born_timestamp, stored.body_crc),
        queue_offset=stored.queue_offset,
        log_offset=stored.log_offset,
        message_id=offset_message_id(pack_host(stored.store_host), stored.log_offset),
        stored_ms=stored.store_timestamp,
        born_ms=stored.born_timestamp,
        born_host=stored.born_host,
        real_topic=topic,
        real_queue_id=int(queue_id),
        checks=int(checks) if checks.isdecimal() else 0,
        put_back=properties.PREPARED_QUEUE_OFFSET in decoded or checks != "0",
        immunity_text=decoded.get(properties.CHECK_IMMUNITY_SECONDS),
        keys=decoded.get(properties.KEYS, ""),
        tags=decoded.get(properties.TAGS, ""),
    )


# From what is seen to stories.


def tell(
    halves: Iterable[HalfSeen],
    ops: Mapping[int, OpSeen],
    parked: Iterable[HalfSeen],
    finals: Iterable[FinalSeen],
    around: Surroundings,
    *,
    all_finals: bool = False,
) -> list[Story]:
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
    told = [_story(records, ops, by_half, around, all_finals) for records in chains.values()]
    return sorted(told, key=lambda story: (story.half.born_ms, story.half.log_offset))


@dataclass(slots=True)
class _Records:
    halves: list[HalfSeen]
    parked: list[HalfSeen]


def _story(
    records: _Records,
    ops: Mapping[int, OpSeen],
    finals: Mapping[int, FinalSeen],
    around: Surroundings,
    all_finals: bool,
) -> Story:
    copies = _last_cycle(records.halves)
    newest_parked = max(records.parked, key=lambda half: half.log_offset, default=None)
    # A half behind the parked copy is one that an operator resumed.
    if newest_parked is not None and (not copies or newest_parked.log_offset > copies[-1].log_offset):
        half = newest_parked
    else:
        newest_parked, half = None, copies[-1]
    op = next((ops[copy.queue_offset] for copy in reversed(copies) if copy.queue_offset in ops), None)
    final = next((finals[copy.log_offset] for copy in copies if copy.log_offset in finals), None)
    stage = _stage(newest_parked is not None, op, final is not None, all_finals)
    producers = None if around.producers is None else around.producers.get(half.group, 0)
    checks = half.checks if around.rewrites_halves or stage is Stage.PARKED else None
    immune_until = half.born_ms + immunity_ms(half.immunity_text, around.timeout_ms)
    situation = SITUATIONS[
        stage,
        around.now_ms < immune_until,
        checks is not None and checks >= around.check_max,
        Producers.UNKNOWN if producers is None else Producers.SOME if producers else Producers.NONE,
    ]
    words = {
        "group": half.group,
        "topic": half.real_topic,
        "checks": "number of checks unknown" if checks is None else f"checked {checks} times",
        "times": str(half.checks),
        "until": f"{max(immune_until - around.now_ms, 0) / 1000:.0f} s from now",
        "interval": f"{around.interval_ms / 1000:g}",
        "max": str(around.check_max),
        "online": str(producers),
        "final": "" if final is None else f"queue {final.queue_id}, offset {final.queue_offset}",
        "id": half.unique_key,
    }
    why, advice = SENTENCES[situation]
    return Story(
        transaction_id=half.unique_key,
        group=half.group,
        topic=half.real_topic,
        queue_id=half.real_queue_id,
        stage=stage,
        why=why.format(**words),
        advice=advice.format(**words),
        age_ms=max(around.now_ms - half.born_ms, 0),
        half=half,
        copies=len(copies),
        checks=checks,
        producers=producers,
        next_check_ms=max(immune_until, around.now_ms) if stage is Stage.OPEN else None,
        op=op,
        final=final,
    )


def _last_cycle(halves: list[HalfSeen]) -> list[HalfSeen]:
    """The newest half that is no copy, and the copies of it that follow, in log order."""
    ordered = sorted(halves, key=lambda half: half.log_offset)
    start = 0
    for number, half in enumerate(ordered):
        if not half.put_back:
            start = number
    return ordered[start:]


def _stage(parked: bool, op: OpSeen | None, has_final: bool, all_finals: bool) -> Stage:
    decision = Decision.NONE if op is None else op.decision
    if decision is Decision.COMMITTED or has_final:
        return Stage.COMMITTED
    if decision is Decision.ROLLED_BACK:
        return Stage.ROLLED_BACK
    # An Apache broker may park what it has settled: a copy that it put back before its op message was there. Parking
    # itself leaves an op of ours only, and that says so.
    if decision is Decision.PARKED or (parked and op is None):
        return Stage.PARKED
    if op is None:
        return Stage.OPEN
    return Stage.ROLLED_BACK if all_finals else Stage.SETTLED


# Why it is where it is.


class Producers(enum.Enum):
    """Whether there is somebody to ask."""

    NONE = 0
    SOME = 1
    UNKNOWN = 2


class Situation(enum.Enum):
    """What a person has to be told apart."""

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
    "stage": tuple(Stage),
    "immune": (False, True),
    "exhausted": (False, True),
    "producers": tuple(Producers),
}
SITUATIONS: Final = DecisionTable(
    FACTS,
    [
        ((Stage.COMMITTED, ANY, ANY, ANY), Situation.COMMITTED),
        ((Stage.ROLLED_BACK, ANY, ANY, ANY), Situation.ROLLED_BACK),
        ((Stage.SETTLED, ANY, ANY, ANY), Situation.SETTLED),
        ((Stage.PARKED, ANY, ANY, ANY), Situation.PARKED),
        ((Stage.OPEN, True, ANY, ANY), Situation.RUNNING),
        ((Stage.OPEN, False, True, ANY), Situation.LAST_CHECK),
        ((Stage.OPEN, False, False, Producers.NONE), Situation.NOBODY),
        ((Stage.OPEN, False, False, Producers.SOME), Situation.ASKED),
        ((Stage.OPEN, False, False, Producers.UNKNOWN), Situation.ASKED_PERHAPS),
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
        "Nobody decided it in time ({times} checks), so it was set aside: consumers do not see it, nobody is asked.",
        "Find out what the local transaction did; then: gantry transactions resume {id}, and commit or rollback it.",
    ),
    Situation.RUNNING: (
        "It is young: its local transaction may still be running, so producers are not asked before {until}.",
        "Wait.",
    ),
    Situation.LAST_CHECK: (
        "It was checked {times} times without a decision and will be parked in the next round (limit {max}).",
        "Decide it now (commit or rollback), or resume it once it is parked.",
    ),
    Situation.NOBODY: (
        "No producer of group {group} is connected to this broker, so there is nobody to ask how it ended ({checks}).",
        "Start an instance of {group}; it is asked soon. If there will be none, decide it: commit or rollback.",
    ),
    Situation.ASKED: (
        "{online} producer(s) of group {group} are connected and asked every {interval} s; no decision yet ({checks}).",
        "Look into the log of the producers: their checker answers UNKNOWN, fails, or takes too long.",
    ),
    Situation.ASKED_PERHAPS: (
        "It is undecided; whether a producer of group {group} is connected could not be found out ({checks}).",
        "See whether {group} is running and what its checker answers.",
    ),
}
"""Why, and what can be done."""
