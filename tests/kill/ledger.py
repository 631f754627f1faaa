"""The record of a kill test: every message of a run, its expected outcome, and what was delivered."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gantrymq.message.transaction import LocalTransactionState


class Plan(enum.Enum):
    """The planned outcome of a message."""

    PLAIN = "plain"
    COMMIT = "commit"
    ROLLBACK = "roll back"
    CHECK_COMMIT = "unknown, commit when asked"
    CHECK_ROLLBACK = "unknown, roll back when asked"
    UNDECIDED = "unknown for ever"


WEIGHTS = {
    Plan.PLAIN: 4, Plan.COMMIT: 8, Plan.ROLLBACK: 3, Plan.CHECK_COMMIT: 2, Plan.CHECK_ROLLBACK: 1, Plan.UNDECIDED: 1,
}  # fmt: skip
WANTED = frozenset({Plan.COMMIT, Plan.CHECK_COMMIT})
ANSWERS = {
    Plan.COMMIT: LocalTransactionState.COMMIT,
    Plan.ROLLBACK: LocalTransactionState.ROLLBACK,
    Plan.CHECK_COMMIT: LocalTransactionState.COMMIT,
    Plan.CHECK_ROLLBACK: LocalTransactionState.ROLLBACK,
    Plan.UNDECIDED: LocalTransactionState.UNKNOWN,
}


@dataclass(slots=True)
class Entry:
    """One message."""

    number: int
    plan: Plan
    executed: bool = False
    """Whether its local transaction ran (and, if planned, committed)."""
    finished: bool = False
    """Whether the call of its sender returned or failed."""
    confirmed: bool = False
    """Whether the broker acknowledged the plain message, or the commit."""
    delivered: int = 0

    def first_answer(self) -> LocalTransactionState:
        """What the local transaction returns."""
        direct = self.plan in (Plan.COMMIT, Plan.ROLLBACK)
        return ANSWERS[self.plan] if direct else LocalTransactionState.UNKNOWN

    def check_answer(self) -> LocalTransactionState:
        """The answer to a check, as a decisive checker would give it."""
        if self.executed:
            return ANSWERS[self.plan]
        return LocalTransactionState.ROLLBACK if self.finished else LocalTransactionState.UNKNOWN

    @property
    def must_arrive(self) -> bool:
        """Whether the message must have been delivered at the end of the run."""
        return self.confirmed if self.plan is Plan.PLAIN else self.executed and self.plan in WANTED


class Ledger:
    """All messages of a run."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def new(self, plan: Plan) -> Entry:
        self.entries.append(Entry(len(self.entries), plan))
        return self.entries[-1]

    def confirmed(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.confirmed]

    def missing(self) -> list[Entry]:
        """The messages that must be delivered and are not yet."""
        return [entry for entry in self.entries if entry.must_arrive and not entry.delivered]

    def violations(self) -> list[str]:
        """The violations of invariants that must hold at any moment."""
        found = []
        for entry in self.entries:
            wanted = entry.plan is Plan.PLAIN or (entry.plan in WANTED and entry.executed)
            if entry.delivered and not wanted:
                why = f"plan: {entry.plan.value}, local transaction {'ran' if entry.executed else 'never ran'}"
                found.append(f"message {entry.number} was delivered and should not be ({why})")
            if entry.delivered > 1 and entry.plan is not Plan.PLAIN:
                found.append(f"message {entry.number} was delivered {entry.delivered} times ({entry.plan.value})")
        return found
