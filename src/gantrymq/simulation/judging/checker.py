"""The rules that every history must keep, whoever recorded it. The checker knows nothing of how the system works.

This module has the rules of transactions; those of consumer groups are in ``group_rules``.

Safety holds at every moment: nothing is delivered that was not committed, and nothing is delivered twice. Liveness
holds at the end, which a ``quiet`` event marks: what was committed has arrived.

Two faults excuse a violation, and each only in the transaction it affected. A checker that lied excuses a row without
its message, or a message without its row; and a delivery, when another copy of the half message was rolled back. A bit
that flipped on the disk within its records: if a checksum notices it, the record counts as lost, and what would have
needed it is excused (EXCUSED); if no checksum covers it, whatever happens to the transaction is excused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gantrymq.simulation.judging.group_rules import check_groups
from gantrymq.simulation.judging.history import Event
from gantrymq.simulation.judging.order_rules import check_order
from gantrymq.simulation.judging.violation import Violation as Violation
from gantrymq.simulation.judging.wait_rules import check_waits

COMMIT, ROLLBACK, UNKNOWN = "COMMIT", "ROLLBACK", "UNKNOWN"
COMMITTED, ROLLED_BACK = "committed", "rolled back"
UNDER_WAY_MS = 5_000
"""So long a question may be under way: it was asked before the end was acknowledged."""


@dataclass(slots=True)
class TransactionFacts:
    """All that is known of one transaction, or of one ordinary message."""

    name: str
    events: list[Event] = field(default_factory=list)
    plain: bool = False
    half_confirmed: bool = False
    confirmed: set[str] = field(default_factory=set)
    """Decisions, or for an ordinary message the send, that were acknowledged."""
    asked_for: set[str] = field(default_factory=set)
    """Decisions that anybody sent, acknowledged or not."""
    rows: set[str] = field(default_factory=set)
    lied: bool = False
    lied_about: set[str] = field(default_factory=set)
    """The half messages about which a checker said COMMIT in a lie, as far as the history names them."""
    rolled_back: set[str] = field(default_factory=set)
    """The half messages whose ROLLBACK was acknowledged; empty text: one that the history does not name."""
    began_at: int | None = None
    immunity_ms: int = 0
    asked_early: bool = False
    """Its service was asked within the immunity, without an excuse."""
    decisive: bool = False
    """Its checkers are: it may be asked about early when its sender is gone."""
    sender: str = ""
    left: bool = False
    """Its sender is gone, or may have been cut off."""
    settled: dict[str, int] = field(default_factory=dict)
    """The half messages whose end was acknowledged, and when that was."""
    asked_again: bool = False
    """Its service was asked about a half message long after the end of it was acknowledged."""
    early: bool = False
    """Delivered before anybody had asked for COMMIT."""
    flipped: set[str] = field(default_factory=set)
    """Which of its records a checksum no longer fits."""
    garbled: bool = False
    """A bit turned over where no checksum is."""
    local: bool = False
    """It is sent by a local transaction of gantrymq.sql: its row is what the database says, and its halves end after
    that."""
    answers: set[str] = field(default_factory=set)
    """Of checks."""
    cleaned: bool = False
    """The outcome row of its local transaction may have been deleted."""
    asks_itself: bool = False
    """The process of its local transaction did not know the outcome, and asks its own database from then on."""
    stuck: bool = False
    """Its half message was still open at the end."""
    places: set[tuple[str, str, int, int]] = field(default_factory=set)
    """Where it was delivered from: each place is one record in the log."""

    def learn(self, event: Event) -> None:
        self.events.append(event)
        LESSONS[event["event"]](self, event)

    def excused(self, rule: str) -> bool:
        if self.cleaned and self.stuck and rule in CLEANED:
            return True
        return self.garbled or any(rule in EXCUSED.get(record, ()) for record in self.flipped)

    def was_another_copy(self) -> bool:
        """Whether the half message that was rolled back is not the one that a lie committed.

        When the answer to a half message is lost, its sender sends it again. If the first copy was decided meanwhile,
        the second one is a transaction of its own with the same id, and each copy keeps its decision. Their decisions
        differ only if a checker lied.
        """
        return bool(self.lied_about and self.rolled_back) and self.rolled_back.isdisjoint({*self.lied_about, ""})

    def _begin(self, event: Event) -> None:
        self.began_at = event.get("at")
        self.immunity_ms = event.get("immunity_ms", 0)
        self.decisive = bool(event.get("decisive"))
        self.sender = event.get("sender", "")
        self.local = bool(event.get("local"))

    def _half(self, event: Event) -> None:
        self.half_confirmed |= bool(event["confirmed"])

    def _plain(self, event: Event) -> None:
        self.plain = True
        if event["confirmed"]:
            self.confirmed.add("send")

    def _row(self, event: Event) -> None:
        self.rows.add(event["state"])

    def _end(self, event: Event) -> None:
        self.asks_itself |= self.local and event["decision"] == UNKNOWN
        self.asked_for.add(event["decision"])
        if event["confirmed"]:
            self.confirmed.add(event["decision"])
            if event["decision"] != UNKNOWN and "half" in event and "at" in event:
                self.settled.setdefault(event["half"], event["at"])
            if event["decision"] == ROLLBACK:
                self.rolled_back.add(event.get("half", ""))

    def _check(self, event: Event) -> None:
        if self.began_at is not None and not (self.decisive and self.left) and not self.asks_itself:
            self.asked_early |= event.get("at", self.began_at) < self.began_at + self.immunity_ms
        settled_at = self.settled.get(event.get("half", ""))
        if settled_at is not None:
            self.asked_again |= event.get("at", settled_at) > settled_at + UNDER_WAY_MS
        self.asked_for.add(event["answer"])
        self.answers.add(event["answer"])
        self.lied |= bool(event.get("lie"))
        if event.get("lie") and event["answer"] == COMMIT and "half" in event:
            self.lied_about.add(event["half"])

    def _flip(self, event: Event) -> None:
        if event["covered"]:
            self.flipped.add(event["record"])
        else:
            self.garbled = True

    def _cleaned(self, event: Event) -> None:
        self.cleaned = True

    def _stuck(self, event: Event) -> None:
        self.stuck = True

    def _delivered(self, event: Event) -> None:
        self.early |= COMMIT not in self.asked_for or (self.local and COMMITTED not in self.rows)
        self.places.add((event["broker"], event["topic"], event["queue"], event["offset"]))


LESSONS: dict[str, Callable[[TransactionFacts, Event], None]] = {
    "begin": TransactionFacts._begin,
    "flip": TransactionFacts._flip,
    "half": TransactionFacts._half,
    "plain": TransactionFacts._plain,
    "row": TransactionFacts._row,
    "end": TransactionFacts._end,
    "check": TransactionFacts._check,
    "delivered": TransactionFacts._delivered,
    "cleaned": TransactionFacts._cleaned,
    "stuck": TransactionFacts._stuck,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A promise: ``broken`` says of the facts of a transaction whether it was not kept."""

    name: str
    text: str
    broken: Callable[[TransactionFacts], bool]
    at_the_end: bool = False
    """Judged only when the history has become quiet."""
    by_the_clock: bool = False
    """Judged only when no clock of a broker was put wrong."""


RULES = (
    Rule("one decision", "COMMIT and ROLLBACK were both acknowledged", lambda s: {COMMIT, ROLLBACK} <= s.confirmed),
    Rule("one final message", "delivered from several places", lambda s: not s.plain and len(s.places) > 1),
    Rule("no phantom", "delivered, and nobody had committed it before", lambda s: s.early and not s.plain),
    Rule("rolled back stays", "delivered after an acknowledged ROLLBACK",
         lambda s: bool(s.places) and ROLLBACK in s.confirmed and not s.was_another_copy()),
    Rule("no delivery without row", "delivered, and its row was rolled back",
         lambda s: bool(s.places) and ROLLED_BACK in s.rows and not s.lied),
    Rule("one row", "its row was committed and rolled back", lambda s: {COMMITTED, ROLLED_BACK} <= s.rows),
    Rule("immunity", "its service was asked about it while it was immune", lambda s: s.asked_early, by_the_clock=True),
    Rule("settled once", "its end was acknowledged, and its service was asked about it again", lambda s: s.asked_again),
    Rule("nothing lost", "COMMIT was acknowledged and it never arrived",
         lambda s: COMMIT in s.confirmed and not s.places, at_the_end=True),
    Rule("nothing lost", "an ordinary message was acknowledged and never arrived",
         lambda s: s.plain and "send" in s.confirmed and not s.places, at_the_end=True),
    Rule("row means message", "its row was committed and it never arrived",
         lambda s: COMMITTED in s.rows and not s.places and not s.lied, at_the_end=True),
    Rule("a check keeps a commit", "its row was committed, and a check of it was answered ROLLBACK",
         lambda s: s.local and COMMITTED in s.rows and ROLLBACK in s.answers),
    Rule("nothing stuck", "its half message is open for ever", lambda s: s.stuck, at_the_end=True),
)  # fmt: skip


LOST = ("nothing lost", "row means message")
CLEANED = ("row means message", "nothing stuck")
"""What may happen when rows are deleted while a half message is open: each check of it is answered UNKNOWN."""
EXCUSED = {
    "half": LOST,
    "final": LOST,
    "plain": LOST,
    "op": ("one decision", "rolled back stays", "one final message", "no delivery without row", "settled once"),
}
"""Which promises a record that was there and is no more excuses. Without its op message a half that was rolled back is
open again, and is asked about."""
CLOCK_FAULTS = frozenset({"clock jump"})
NETWORK_FAULTS = frozenset({"parted", "rough network"})
"""Nobody can tell a sender that was cut off by them from one that died."""


def by_transaction(events: Iterable[Event]) -> dict[str, TransactionFacts]:
    """The history sorted by transaction."""
    found: dict[str, TransactionFacts] = {}
    cut_off = False
    for event in events:
        cut_off |= event["event"] == "fault" and event.get("what") in NETWORK_FAULTS
        if cut_off or event["event"] == "gone":
            for facts in found.values():
                facts.left |= cut_off or facts.sender == event["process"]
        if "tx" in event and event["event"] in LESSONS:
            name = str(event["tx"])
            if name not in found:
                found[name] = TransactionFacts(name, left=cut_off)
            found[name].learn(event)
    return found


def check(events: Iterable[Event]) -> list[Violation]:
    """Every promise that the history breaks."""
    events = list(events)
    quiet = any(event["event"] == "quiet" for event in events)
    steady = not any(event["event"] == "fault" and event.get("what") in CLOCK_FAULTS for event in events)
    return [*check_groups(events), *check_waits(events), *check_order(events)] + [
        Violation(rule.name, facts.name, rule.text, tuple(facts.events))
        for facts in by_transaction(events).values()
        for rule in RULES
        if (quiet or not rule.at_the_end)
        and (steady or not rule.by_the_clock)
        and rule.broken(facts)
        and not facts.excused(rule.name)
    ]
