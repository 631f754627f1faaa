"""What a person decides about an undecided transaction, and how it is recorded: for command line and console.

The intention is on the disk before the broker is asked, and the outcome follows. So a decision is traced to a person,
a time and a reason even when this process dies in between.
"""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.admin.audit import AuditFailed, AuditFile, Phase, who
from gantrymq.admin.transactions import Place, Transactions
from gantrymq.errors import ConfigError, GantryError, RequestRejected, TimedOut, Unreachable
from gantrymq.message.transaction import Resolution
from gantrymq.runtime.calendar import iso
from gantrymq.transactions.rules.states import State


class Action(enum.StrEnum):
    """What can be decided."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    RESUME = "resume"
    RESUME_AND_COMMIT = "resume and commit"
    RESUME_AND_ROLLBACK = "resume and roll back"


NEEDED: Final = {
    Action.COMMIT: State.OPEN, Action.ROLLBACK: State.OPEN, Action.RESUME: State.PARKED,
    Action.RESUME_AND_COMMIT: State.PARKED, Action.RESUME_AND_ROLLBACK: State.PARKED,
}  # fmt: skip
"""The state that a transaction must be in."""
ENDS: Final = {
    Action.COMMIT: Resolution.COMMIT, Action.RESUME_AND_COMMIT: Resolution.COMMIT,
    Action.ROLLBACK: Resolution.ROLLBACK, Action.RESUME_AND_ROLLBACK: Resolution.ROLLBACK,
}  # fmt: skip
"""How an action ends a transaction; RESUME does not."""
_WORDS: Final = {Resolution.COMMIT: "committed", Resolution.ROLLBACK: "rolled back"}
_DECIDED: Final = (State.COMMITTED, State.ROLLED_BACK)


def outcome_of(action: Action) -> str:
    """What an action makes of a transaction, in words."""
    return _WORDS[ENDS[action]] if action in ENDS else "open again"


class AlreadyDecided(ConfigError):
    """The transaction was decided before the decision arrived, e.g. by its producer."""

    what_to_do = "Nothing: it has an outcome. `gantry transactions explain ID` says who decided it."


class ResumedOnly(GantryError):
    """A parked transaction was opened again, and then could not be decided. It is open now."""

    what_to_do = "Decide it again; it is open. Its producers are asked meanwhile, and may decide it themselves."


def the_one(places: list[Place], action: Action) -> Place:
    """The only transaction in the state that the action needs. Raises ConfigError saying why there is none."""
    needed = NEEDED[action]
    fitting = [place for place in places if place.transaction.state is needed]
    if not fitting:
        found = places[-1].transaction
        hint = f" {found.advice}" if found.advice else ""
        kind = AlreadyDecided if found.state in _DECIDED else ConfigError
        raise kind(
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
            outcome = await self.act(place, action, f"{person}: {why}")
        except (TimedOut, Unreachable) as error:
            decision.note(Phase.UNKNOWN, str(error))
            raise
        except GantryError as error:
            decision.note(Phase.REFUSED, str(error))
            raise
        try:
            decision.note(Phase.DONE, outcome)
        except AuditFailed as error:
            raise AuditFailed(
                f"{found.transaction_id} is {outcome}, but this could not be written to the audit file: {error}"
            ) from error
        return outcome

    async def act(self, place: Place, action: Action, why: str) -> str:
        """Do it without a record, for who keeps one; returns the outcome in words. Raises what ``carry_out`` does."""
        if action in (Action.COMMIT, Action.ROLLBACK):
            await self._end(place, ENDS[action], why)
            return outcome_of(action)
        await self._transactions.resume(place, why)
        if action is Action.RESUME:
            return outcome_of(action)
        parked = place.transaction.half.message_id
        try:
            reopened = await self._open_again(place)
            await self._end(reopened, ENDS[action], why)
        except GantryError as error:
            kind = AlreadyDecided if isinstance(error, AlreadyDecided) else ResumedOnly
            raise kind(
                f"its parked half message {parked} was opened again, and then not decided here: {error}"
            ) from error
        half = reopened.transaction.half.message_id
        return f"{outcome_of(action)}; its parked half message {parked} was opened again as {half}"

    async def _open_again(self, parked: Place) -> Place:
        """The half message that a resumption wrote. Raises AlreadyDecided when somebody was faster, or ConfigError."""
        old = parked.transaction.half
        later = [
            place
            for place in await self._transactions.find(old.unique_key or old.message_id, parked.broker)
            if place.transaction.half.log_offset > old.log_offset and place.transaction.half.identity == old.identity
        ]
        if not later:
            raise ConfigError(f"its new half message is not found yet; look for {old.unique_key} among the open ones")
        return the_one(later, Action.COMMIT)

    async def _end(self, place: Place, resolution: Resolution, why: str) -> None:
        """Raises AlreadyDecided when the other outcome was decided meanwhile."""
        try:
            await self._transactions.end(place, resolution, why)
        except RequestRejected:
            action = Action.COMMIT if resolution is Resolution.COMMIT else Action.ROLLBACK
            the_one(await self._transactions.find(place.transaction.half.message_id, place.broker) or [place], action)
            raise
