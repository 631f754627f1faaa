"""What clients asked for and were told, and when: counted in disk operations, so that each crash knows what counts."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TypeAlias

Place: TypeAlias = tuple[str, int, int]
"""(topic, queue id, queue offset)"""
HalfPlace: TypeAlias = tuple[int, int]
"""(half queue offset, log offset)"""

COMMIT, ROLLBACK, PARK = "committed", "rolled back", "parked"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a client did or learned when ``at`` disk operations had been begun."""

    at: int
    kind: str
    name: str
    place: tuple[object, ...] = ()
    value: str = ""


@dataclass(slots=True)
class Transaction:
    """What may and must be of one copy of a half message."""

    name: str
    asked: set[str] = field(default_factory=set)
    """Ends that somebody asked for, or that the broker may have come to."""
    stored: bool = False
    """Its half was acknowledged."""
    acknowledged: str = ""
    """The end that was acknowledged."""


@dataclass(slots=True)
class Expected:
    """What must be true behind a crash."""

    topics: set[str] = field(default_factory=set)
    sent: dict[str, str] = field(default_factory=dict)
    """Name of an ordinary message to its topic; it may be there."""
    stored: dict[str, tuple[Place, int]] = field(default_factory=dict)
    """Name of an acknowledged ordinary message to its place and log offset."""
    halves_asked: dict[str, int] = field(default_factory=dict)
    """Name of a transaction to how many halves of it may be there."""
    halves: dict[HalfPlace, Transaction] = field(default_factory=dict)
    """Acknowledged halves."""
    resumed: set[str] = field(default_factory=set)
    """Transactions of which a second half must be there."""
    offsets: dict[tuple[str, str, int], list[int]] = field(default_factory=dict)
    """(group, topic, queue) to what was committed, oldest first."""
    popped: dict[str, int] = field(default_factory=dict)
    """Name of a message that was popped, and not acknowledged, to its log offset."""
    stopped: bool = False
    """The broker was stopped in order, and nothing happened since."""

    def note(self, fact: Fact) -> None:
        getattr(self, f"_{fact.kind}")(fact)
        if fact.kind != "stopped":
            self.stopped = False

    def _topic(self, fact: Fact) -> None:
        self.topics.add(fact.name)

    def _send(self, fact: Fact) -> None:
        self.sent[fact.name] = fact.value

    def _stored(self, fact: Fact) -> None:
        topic, queue, offset, log_offset = fact.place
        self.stored[fact.name] = ((str(topic), _number(queue), _number(offset)), _number(log_offset))

    def _half(self, fact: Fact) -> None:
        self.halves_asked[fact.name] = self.halves_asked.get(fact.name, 0) or 1

    def _resume(self, fact: Fact) -> None:
        self.halves_asked[fact.name] = 2

    def _resumed(self, fact: Fact) -> None:
        self.resumed.add(fact.name)

    def _half_stored(self, fact: Fact) -> None:
        self.transaction(fact).stored = True

    def _end(self, fact: Fact) -> None:
        self.transaction(fact).asked.add(fact.value)

    def _ended(self, fact: Fact) -> None:
        self.transaction(fact).acknowledged = fact.value

    def _offset(self, fact: Fact) -> None:
        group, topic, queue = fact.place
        self.offsets.setdefault((str(group), str(topic), _number(queue)), []).append(int(fact.value))

    def _popped(self, fact: Fact) -> None:
        self.popped[fact.name] = _number(fact.place[0])

    def _stopped(self, _fact: Fact) -> None:
        self.stopped = True

    def transaction(self, fact: Fact) -> Transaction:
        """The half at the fact's place, which is known from here on."""
        offset, log_offset = fact.place
        return self.halves.setdefault((_number(offset), _number(log_offset)), Transaction(fact.name))

    def without_acknowledgements(self) -> Expected:
        """What remains when no answer promised anything: with ASYNC_FLUSH the last seconds may be gone."""
        halves = {place: Transaction(half.name, half.asked) for place, half in self.halves.items()}
        return Expected(
            self.topics, self.sent, {}, self.halves_asked, halves, set(), self.offsets, {}, self.stopped
        )  # fmt: skip


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def expected_at(facts: Iterable[Fact], cut: int, before: Expected | None = None) -> Expected:
    """What holds when the power is cut before operation ``cut``. ``before``: what held already; it is not changed."""
    expected = deepcopy(before) if before is not None else Expected()
    for fact in facts:
        if fact.at <= cut:
            expected.note(fact)
    return expected
