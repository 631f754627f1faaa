"""Commit, roll back and resume: first what would happen to each transaction, then, with a reason, the decision."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gantrymq.admin.decisions import Action, AlreadyDecided, the_one
from gantrymq.admin.transactions import Place
from gantrymq.console.parts import Console, console_of, page, person_of
from gantrymq.errors import ConfigError, GantryError

AT_ONCE_MAX: Final = 200
"""Transactions of one decision."""
PARALLEL: Final = 4
"""Decisions that are carried out at the same time."""
WHY_MAX: Final = 1_000
"""Characters of a reason."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One transaction of a form: the broker, and the offset message id of its half, which no other one has."""

    broker: str
    half: str

    @property
    def text(self) -> str:
        return f"{self.broker}/{self.half}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one, or would happen."""

    chosen: Chosen
    place: Place | None
    text: str
    failed: bool = False
    meanwhile: bool = False
    """It failed because somebody else decided it, e.g. its producer."""


async def plan(request: Request) -> Response:
    """The dry run: every transaction is looked at again, and nothing is done."""
    return await _each(request, dry_run=True)


async def carry_out(request: Request) -> Response:
    """Do it, one after the other; one that fails does not stop the others."""
    return await _each(request, dry_run=False)


async def _each(request: Request, *, dry_run: bool) -> Response:
    console, form = console_of(request), request.state.form
    action, chosen = action_of(form.get("action", [""])[0]), chosen_of(form.get("chosen", []))
    why = form.get("why", [""])[0].strip()[:WHY_MAX]
    if not dry_run and not why:
        raise ConfigError("give a reason; it is written to the audit file, and the broker keeps it with the decision")
    person = person_of(request)
    name = person.in_records if person is not None else ""
    turns = asyncio.Semaphore(PARALLEL)

    async def one(choice: Chosen) -> Outcome:
        async with turns:
            return await _decide(console, choice, action, why, name, dry_run=dry_run)

    outcomes = await asyncio.gather(*(one(choice) for choice in chosen))
    return page(
        request, "decision.html", action=action, outcomes=outcomes, why=why, dry_run=dry_run,
        fitting=[outcome for outcome in outcomes if not outcome.failed],
        failed=[outcome for outcome in outcomes if outcome.failed],
    )  # fmt: skip


async def _decide(
    console: Console, choice: Chosen, action: Action, why: str, person: str, *, dry_run: bool
) -> Outcome:  # fmt: skip
    place = None
    try:
        places = await console.admin.transactions.find(choice.half, choice.broker)
        if not places:
            return Outcome(choice, None, "it is no longer there", failed=True)
        place = the_one(places, action)
        return Outcome(
            choice, place, await console.decisions.carry_out(place, action, why, person=person, dry_run=dry_run)
        )  # fmt: skip
    except AlreadyDecided as error:
        return Outcome(choice, place or places[-1], str(error), failed=True, meanwhile=True)
    except GantryError as error:
        return Outcome(choice, place, str(error), failed=True)


def action_of(text: str) -> Action:
    try:
        return Action(text)
    except ValueError:
        raise ConfigError(f"there is no action {text!r}; there are: {', '.join(Action)}") from None


def chosen_of(texts: list[str]) -> list[Chosen]:
    """Raises ConfigError when nothing was chosen, or too much."""
    parts = [text.rpartition("/") for text in dict.fromkeys(texts)]
    if not parts:
        raise ConfigError("choose at least one transaction")
    if len(parts) > AT_ONCE_MAX:
        raise ConfigError(f"choose at most {AT_ONCE_MAX} transactions at once")
    return [Chosen(broker, half) for broker, _, half in parts]
