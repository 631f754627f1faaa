"""What is shown about a hole, by which scenario, on whom."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.holes.stage import Stage

APACHE_VERSIONS = ("4.9.7", "5.5.0")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scenario saw: in ``wrong`` of ``of`` tries the promise was broken."""

    wrong: int
    of: int
    note: str = ""


class Apache(enum.Enum):
    """What an Apache broker shows of a hole."""

    ALWAYS = "occurs"
    """In every try."""
    SOMETIMES = "occurs in some tries"
    """In at least one try."""
    NEVER = "does not occur"

    def fits(self, seen: Seen) -> bool:
        if self is Apache.NEVER:
            return seen.wrong == 0
        return seen.wrong == seen.of if self is Apache.ALWAYS else seen.wrong > 0


@dataclass(frozen=True, slots=True)
class Mutant:
    """Our broker with a fix taken out."""

    name: str
    patch: Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class NotRepeated:
    """The scenario cannot be played on Apache's brokers here; ``why`` says what is known from where."""

    why: str


class On(enum.Enum):
    """With which settings an Apache broker plays a scenario."""

    QUICK = "transactionTimeOut 1 s, ops written at once"
    DEFAULT = "transactionTimeOut 6 s, op settings as delivered"
    DAMAGED = "as QUICK; a record of its log is destroyed"
    THROWN_AWAY = "as QUICK; the broker is of no use to others afterwards"


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario.

    ``play`` plays it and says what it saw; it raises NotShown when it did not come to its point. Our broker must keep
    the promise in all tries; with any of the mutants it must break it in at least one; Apache's brokers do as
    ``apache`` says, by version.
    """

    name: str
    play: Callable[[Any], Awaitable[Seen]]
    mutants: tuple[Mutant, ...]
    apache: dict[str, Apache] | NotRepeated
    on: On = On.QUICK
    restarts: str = ""
    """``kill`` or ``stop``: the scenario restarts the broker once, with all others that do so."""
    alone: bool = False
    """Nobody else uses the Apache broker meanwhile."""
    first: bool = False
    """And nobody has used it before."""
    ours: dict[str, Any] = field(default_factory=dict)
    """Settings of our broker that differ."""


Scenario = Callable[[Stage], Awaitable[Seen]]


def both(outcome: Apache) -> dict[str, Apache]:
    """The same on both versions."""
    return dict.fromkeys(APACHE_VERSIONS, outcome)
