"""The description of a test of a hole: its scenario, and the expected results on each broker."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.holes.stage import Stage

APACHE_VERSIONS = ("4.9.7", "5.5.0")


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of a scenario: in ``wrong`` of ``of`` tries the guarantee was broken."""

    wrong: int
    of: int
    note: str = ""


class Apache(enum.Enum):
    """How often a hole occurs on an Apache broker."""

    ALWAYS = "occurs"
    """It occurs in every try."""
    SOMETIMES = "occurs in some tries"
    """It occurs in at least one try."""
    NEVER = "does not occur"

    def fits(self, observed: Observed) -> bool:
        if self is Apache.NEVER:
            return observed.wrong == 0
        return observed.wrong == observed.of if self is Apache.ALWAYS else observed.wrong > 0


@dataclass(frozen=True, slots=True)
class Mutant:
    """Our broker with a fix taken out."""

    name: str
    patch: Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class NotRepeated:
    """The scenario cannot run on Apache's brokers here. ``why``: what is known of the hole, and from which source."""

    why: str


class On(enum.Enum):
    """The settings of the Apache broker for a scenario."""

    FAST = "transactionTimeOut 1 s, ops written at once"
    DEFAULT = "transactionTimeOut 6 s, op settings as delivered"
    DAMAGED = "as FAST; a record of its log is destroyed"
    THROWN_AWAY = "as FAST; the broker is of no use to others afterwards"


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario.

    ``play`` runs it and returns the result; it raises NotShown when a precondition did not come true. Our broker must
    keep the guarantee in all tries, and each mutant of it must break the guarantee in at least one try. ``apache``: the
    expected results on Apache's brokers, by version.
    """

    name: str
    play: Callable[[Any], Awaitable[Observed]]
    mutants: tuple[Mutant, ...]
    apache: dict[str, Apache] | NotRepeated
    on: On = On.FAST
    restarts: str = ""
    """``kill`` or ``stop``: the scenario restarts the broker once, together with all other scenarios that do this."""
    alone: bool = False
    """Whether no other scenario may use the Apache broker at the same time."""
    first: bool = False
    """Whether no other scenario may have used the Apache broker before."""
    ours: dict[str, Any] = field(default_factory=dict)
    """Settings of our broker that differ."""


Scenario = Callable[[Stage], Awaitable[Observed]]


def both(outcome: Apache) -> dict[str, Apache]:
    """The same on both versions."""
    return dict.fromkeys(APACHE_VERSIONS, outcome)
