"""Check-back: what to do with a half message that is due. Facts in, action out."""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.message import properties
from gantrymq.transactions.rules.decision_table import ANY, DecisionTable
from gantrymq.transactions.rules.states import ENDING, TERMINAL, State


class CheckAction(enum.IntEnum):
    """What the broker does with the half message now."""

    FORGET = 0
    """It is decided; nothing is due any more."""
    COME_BACK = 1
    """Something waits for the disk; look again after the next interval."""
    WAIT_IMMUNITY = 2
    """Its local transaction may still run; look again when the immunity ends."""
    WAIT_ANSWER = 3
    """A check is on its way; look again when its deadline has passed."""
    CHECK = 4
    """Ask a live producer of its group."""
    WAIT_TURN = 5
    """The producers of its group have enough to answer; look again when they have answered some of it."""
    NOBODY_ONLINE = 6
    """No producer is online, and no attempt is counted. Look again later, or when a producer of the group connects."""
    PARK_UNKNOWN = 7
    """Asked often enough: park it."""
    PARK_OLD = 8
    """Too old: park it."""


class Immunity(enum.IntEnum):
    """Whether the local transaction of a half may still be running."""

    OVER = 0
    LASTS = 1
    WAIVED = 2
    """It lasts, but the half says that its checkers are decisive, and its sender is gone."""


FACTS: Final = {
    "state": tuple(State),
    "immunity": tuple(Immunity),
    "check outstanding": (False, True),
    "answers exhausted": (False, True),
    "too old": (False, True),
    "was asked": (False, True),
    "producer online": (False, True),
    "crowded": (False, True),
}
"""*immunity*: see there. *check outstanding*: handed to a producer, its answer may still come. *answers
exhausted*: transactionCheckMax checks were answered UNKNOWN. *too old*: over the age limit. *was asked*: at least one
check was handed to a producer since the broker started. *crowded*: as many checks as the group's producers can keep in
mind are outstanding."""

_WAITING: Final = ENDING | {State.STORING, State.UNCONFIRMED}
_OVER, _LASTS, _WAIVED = Immunity

POLICY: Final = DecisionTable(
    FACTS,
    [
        # state      immunity outstanding exhausted old    asked  online crowded
        ((TERMINAL, ANY, ANY, ANY, ANY, ANY, ANY, ANY), CheckAction.FORGET),
        ((_WAITING, ANY, ANY, ANY, ANY, ANY, ANY, ANY), CheckAction.COME_BACK),
        ((State.OPEN, _LASTS, ANY, ANY, ANY, ANY, ANY, ANY), CheckAction.WAIT_IMMUNITY),
        ((State.OPEN, _OVER, True, ANY, ANY, ANY, ANY, ANY), CheckAction.WAIT_ANSWER),
        ((State.OPEN, _OVER, False, True, ANY, ANY, ANY, ANY), CheckAction.PARK_UNKNOWN),
        ((State.OPEN, _OVER, False, False, False, ANY, True, False), CheckAction.CHECK),
        ((State.OPEN, _OVER, False, False, False, ANY, True, True), CheckAction.WAIT_TURN),
        ((State.OPEN, _OVER, False, False, False, ANY, False, ANY), CheckAction.NOBODY_ONLINE),
        # A waived immunity lets a half be asked about, and never be given up: neither for its answers nor for its age.
        ((State.OPEN, _WAIVED, True, ANY, ANY, ANY, ANY, ANY), CheckAction.WAIT_ANSWER),
        ((State.OPEN, _WAIVED, False, True, ANY, ANY, ANY, ANY), CheckAction.WAIT_IMMUNITY),
        ((State.OPEN, _WAIVED, False, False, ANY, ANY, True, False), CheckAction.CHECK),
        ((State.OPEN, _WAIVED, False, False, ANY, ANY, True, True), CheckAction.WAIT_TURN),
        ((State.OPEN, _WAIVED, False, False, ANY, ANY, False, ANY), CheckAction.NOBODY_ONLINE),
        # The age limit never takes a half that could be asked and was not: an immunity longer than the limit, or a
        # broker that was down for days, must not roll back silently what a producer is there to decide.
        ((State.OPEN, _OVER, False, False, True, False, True, False), CheckAction.CHECK),
        ((State.OPEN, _OVER, False, False, True, False, True, True), CheckAction.WAIT_TURN),
        ((State.OPEN, _OVER, False, False, True, True, ANY, ANY), CheckAction.PARK_OLD),
        ((State.OPEN, _OVER, False, False, True, False, False, ANY), CheckAction.PARK_OLD),
    ],
)
_ACTIONS: Final = POLICY.results


def decide(
    state: State, immunity: Immunity, outstanding: bool, exhausted: bool, too_old: bool, asked: bool, online: bool,
    crowded: bool,
) -> CheckAction:  # fmt: skip
    """The action for these facts; see FACTS for their meaning."""
    return _ACTIONS[state, immunity, outstanding, exhausted, too_old, asked, online, crowded]


def immunity_ms(text: str | None, timeout_ms: int) -> int:
    """How long after its storing a half is left alone, in milliseconds.

    ``text``: CHECK_IMMUNITY_TIME_IN_SECONDS. Only a positive whole number counts; anything else means ``timeout_ms``.
    Source: TransactionalMessageUtil.getImmunityTime; docs/store.md#checks, without the lower bound.
    """
    if not text or not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        return timeout_ms
    return int(text) * 1000 or timeout_ms


def has_decisive_checkers(text: str, group: str) -> bool:
    """Whether the properties of a half message say that every checker of its group is decisive: one that finds no
    local transaction makes sure that none can commit any more, before it answers ROLLBACK."""
    return properties.find(text, properties.IMMUNE_WHILE_CONNECTED) == group


_MAX_DIGITS: Final = 9
"""About 31 years. A longer time cannot be meant, and would never end."""
