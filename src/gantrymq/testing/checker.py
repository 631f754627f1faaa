"""What must hold of every history, whoever wrote it. Knows nothing of how the system works.

Safety holds at every moment: nothing is delivered that was not decided so, nothing twice. Liveness holds at the end of
time, which a ``quiet`` event marks: what was committed has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gantrymq.testing.history import Event

COMMIT, ROLLBACK = "COMMIT", "ROLLBACK"
COMMITTED, ROLLED_BACK = "committed", "rolled back"


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    rule: str
    transaction: str
    text: str
    evidence: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return f"{self.transaction}: {self.text} [{self.rule}]"


@dataclass(slots=True)
class Story:
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
    places: set[tuple[str, str, int, int]] = field(default_factory=set)
    """Where it was delivered from: each place is one record in the log."""

    def learn(self, event: Event) -> None:
        self.events.append(event)
        LESSONS[event["event"]](self, event)

    def _half(self, event: Event) -> None:
        self.half_confirmed |= bool(event["confirmed"])

    def _plain(self, event: Event) -> None:
        self.plain = True
        if event["confirmed"]:
            self.confirmed.add("send")

    def _row(self, event: Event) -> None:
        self.rows.add(event["state"])

    def _end(self, event: Event) -> None:
        self.asked_for.add(event["decision"])
        if event["confirmed"]:
            self.confirmed.add(event["decision"])

    def _check(self, event: Event) -> None:
        self.asked_for.add(event["answer"])
        self.lied |= bool(event.get("lie"))

    def _delivered(self, event: Event) -> None:
        self.places.add((event["broker"], event["topic"], event["queue"], event["offset"]))


LESSONS: dict[str, Callable[[Story, Event], None]] = {
    "half": Story._half,
    "plain": Story._plain,
    "row": Story._row,
    "end": Story._end,
    "check": Story._check,
    "delivered": Story._delivered,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A promise: ``broken`` says of a story whether it was not kept."""

    name: str
    text: str
    broken: Callable[[Story], bool]
    at_the_end: bool = False
    """Judged only when the history has become quiet."""


RULES = (
    Rule("one decision", "COMMIT and ROLLBACK were both acknowledged", lambda s: {COMMIT, ROLLBACK} <= s.confirmed),
    Rule("one final message", "delivered from several places", lambda s: not s.plain and len(s.places) > 1),
    Rule("no phantom", "delivered, and nobody ever committed it",
         lambda s: bool(s.places) and not s.plain and COMMIT not in s.asked_for),
    Rule("rolled back stays", "delivered after an acknowledged ROLLBACK",
         lambda s: bool(s.places) and ROLLBACK in s.confirmed),
    Rule("no delivery without row", "delivered, and its row was rolled back",
         lambda s: bool(s.places) and ROLLED_BACK in s.rows and not s.lied),
    Rule("one row", "its row was committed and rolled back", lambda s: {COMMITTED, ROLLED_BACK} <= s.rows),
    Rule("nothing lost", "COMMIT was acknowledged and it never arrived",
         lambda s: COMMIT in s.confirmed and not s.places, at_the_end=True),
    Rule("nothing lost", "an ordinary message was acknowledged and never arrived",
         lambda s: s.plain and "send" in s.confirmed and not s.places, at_the_end=True),
    Rule("row means message", "its row was committed and it never arrived",
         lambda s: COMMITTED in s.rows and not s.places and not s.lied, at_the_end=True),
)  # fmt: skip


def stories(events: Iterable[Event]) -> dict[str, Story]:
    """The history sorted by transaction."""
    told: dict[str, Story] = {}
    for event in events:
        if "tx" in event and event["event"] in LESSONS:
            name = str(event["tx"])
            if name not in told:
                told[name] = Story(name)
            told[name].learn(event)
    return told


def check(events: Iterable[Event]) -> list[Violation]:
    """Every promise that the history breaks."""
    events = list(events)
    quiet = any(event["event"] == "quiet" for event in events)
    return [
        Violation(rule.name, story.name, rule.text, tuple(story.events))
        for story in stories(events).values()
        for rule in RULES
        if (quiet or not rule.at_the_end) and rule.broken(story)
    ]
