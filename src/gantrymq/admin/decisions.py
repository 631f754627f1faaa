"""What a person decides about an undecided transaction, and how it is recorded: for command line and console.

The intention is on the disk before the broker is asked, and the outcome follows. So a decision is traced to a person,
a time and a reason even when this process dies in between.
"""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.admin.audit import AuditFailed, AuditFile, Phase, who
from gantrymq.admin.transactions import Place, Transactions
from gantrymq.errors import ConfigError, GantryError, TimedOut, Unreachable
from gantrymq.message.transaction import Resolution
from gantrymq.runtime.calendar import iso
from gantrymq.transactions.rules.states import State


class Action(enum.StrEnum):
    """What can be decided."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    RESUME = "resume"


NEEDED: Final = {Action.COMMIT: State.OPEN, Action.ROLLBACK: State.OPEN, Action.RESUME: State.PARKED}
"""The state that a transaction must be in."""
OUTCOMES: Final = {Action.COMMIT: "committed", Action.ROLLBACK: "rolled back", Action.RESUME: "open again"}


def the_one(places: list[Place], action: Action) -> Place:
    """The only transaction in the state that the action needs. Raises ConfigError saying why there is none."""
    needed = NEEDED[action]
    fitting = [place for place in places if place.transaction.state is needed]
    if not fitting:
        found = places[-1].transaction
        hint = f" {found.advice}" if found.advice else ""
        raise ConfigError(
            f"{found.transaction_id} is {found.state.text}, this needs one that is {needed.text}. {found.why}{hint}"
        )
    if len(fitting) > 1:
        ids = ", ".join(f"{place.transaction.half.message_id} on {place.broker}" for place in fitting)
        raise ConfigError(f"several transactions have this id; name one by the id of its half: {ids}")
    return fitting[0]


class Decisions:
    """Carries decisions out and records them."""

    def __init__(self, transactions: Transactions, audit: AuditFile, name_servers: str) -> None:
        """``name_servers``: which cluster it is, for the audit file."""
        self._transactions = transactions
        self._audit = audit
        self._name_servers = name_servers

    async def carry_out(
        self, place: Place, action: Action, why: str, *, person: str | None = None, dry_run: bool = False
    ) -> str:
        """Decide, and return the outcome in words. ``person``: who decides; default: the user of this process.

        Raises AuditFailed (nothing was done, or, as its text says, the outcome could not be recorded), ConfigError,
        RequestRejected, or TimedOut and Unreachable: then it may have been done, so look before trying again.
        """
        found = place.transaction
        person = person or who()
        decision = self._audit.decision(
            person, action=str(action), why=why, dry_run=dry_run, transaction_id=found.transaction_id,
            group=found.group, topic=found.topic, broker=place.broker, address=place.address,
            name_servers=self._name_servers, half_queue_offset=found.half.queue_offset,
            half_offset_message_id=found.half.message_id, born_at=iso(found.half.born_ms),
            state_before=found.state.text,
        )  # fmt: skip
        the_one([place], action)
        if dry_run:
            decision.note(Phase.DRY_RUN)
            return "dry run"
        if not why.strip():
            raise ConfigError("give the reason, for the audit file")
        decision.note(Phase.INTENDED)
        try:
            await self._act(place, action, f"{person}: {why}")
        except (TimedOut, Unreachable) as error:
            decision.note(Phase.UNKNOWN, str(error))
            raise
        except GantryError as error:
            decision.note(Phase.REFUSED, str(error))
            raise
        outcome = OUTCOMES[action]
        try:
            decision.note(Phase.DONE, outcome)
        except AuditFailed as error:
            raise AuditFailed(
                f"{found.transaction_id} is {outcome}, but this could not be written to the audit file: {error}"
            ) from error
        return outcome

    async def _act(self, place: Place, action: Action, why: str) -> None:
        if action is Action.RESUME:
            await self._transactions.resume(place, why)
        else:
            resolution = Resolution.COMMIT if action is Action.COMMIT else Resolution.ROLLBACK
            await self._transactions.end(place, resolution, why)
