"""The mechanism broken on purpose, to show that the harness finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from gantrymq.sql.rules import steps
from gantrymq.sql.transaction.enlistment import Enlistment, Stage

Mutation = Callable[[pytest.MonkeyPatch], None]


def without_the_outcome(patch: pytest.MonkeyPatch) -> None:
    """The outcome row is not inserted."""
    carry_out = Enlistment._carry_out

    async def skip(one: Enlistment, step: steps.Step, *more: Any) -> Any:
        if isinstance(step, steps.InsertOutcome):
            one.stage = Stage.PREPARED
            return None
        return await carry_out(one, step, *more)

    patch.setattr(Enlistment, "_carry_out", skip)


def deaf_to_savepoints(patch: pytest.MonkeyPatch) -> None:
    """What was sent in a savepoint is never dropped."""
    patch.setattr(Enlistment, "drop", lambda one, belongs: None)


def failure_is_success(patch: pytest.MonkeyPatch) -> None:
    """A rolled back transaction commits its messages."""
    patch.setattr(Enlistment, "failed", lambda one: one.committed())
    patch.setattr(Enlistment, "rolled_back", lambda one: one.committed())


def success_is_failure(patch: pytest.MonkeyPatch) -> None:
    """A committed transaction rolls its messages back."""
    patch.setattr(Enlistment, "committed", lambda one: one.rolled_back())


def twice(patch: pytest.MonkeyPatch) -> None:
    """Each message is sent twice."""
    send = Enlistment.send

    def double(one: Enlistment, *arguments: Any) -> None:
        send(one, *arguments)
        send(one, *arguments)

    patch.setattr(Enlistment, "send", double)


MUTATIONS: Final[dict[str, tuple[Mutation, str]]] = {
    "without_the_outcome": (without_the_outcome, "LOST_IF_KILLED"),
    "deaf_to_savepoints": (deaf_to_savepoints, "PHANTOM"),
    "failure_is_success": (failure_is_success, "PHANTOM"),
    "success_is_failure": (success_is_failure, "LOST"),
    "twice": (twice, "DOUBLED"),
}
"""And what the harness must say."""
