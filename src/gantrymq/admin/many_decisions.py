"""Many undecided transactions, chosen by a filter and decided in steps.

A plan is the list of those that fit, made once: only what it lists is ever decided, however many fit later. Each step
looks again which of its transactions are still undecided, writes what it intends to the audit file, acts, and writes
what became of it.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from gantrymq.admin.audit import AuditFile, Phase
from gantrymq.admin.decisions import ENDS, NEEDED, Action, AlreadyDecided, Decisions, outcome_of, the_one
from gantrymq.admin.transaction_pages import Filter, Undecided, write_cursor
from gantrymq.admin.transactions import Transactions
from gantrymq.errors import ConfigError, GantryError, TimedOut, Unreachable
from gantrymq.runtime.clock import Clock

LISTED_MAX: Final = 50_000
"""Transactions of one plan."""
LISTED_AT_ONCE: Final = 500
PLANNING_S: Final = 20.0
"""How long the list is made; a plan that is cut there is used like any other, and made again for the rest."""
STEP: Final = 100
"""Transactions of one step: what is under way when somebody stops."""
EXPLAINED: Final = 20
"""Of the transactions of a step that were decided meanwhile, so many are looked up to say how."""


class Fate(enum.Enum):
    """What became of one transaction of a plan."""

    DONE = "done"
    MEANWHILE = "decided meanwhile"
    """Somebody else decided it, e.g. its producer."""
    REFUSED = "not done"
    UNKNOWN = "unknown"
    """The broker did not answer: it may be done."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One transaction of a step."""

    row: Undecided
    fate: Fate
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a filter found. Nothing is done yet."""

    action: Action
    wanted: Filter
    rows: tuple[Undecided, ...]
    """The oldest first."""
    cut: bool = False
    """More of them fit; they need another plan."""
    notes: tuple[str, ...] = ()
    """What could not be found out, and about which broker."""

    def by_group(self) -> list[tuple[str, int]]:
        """Producer group to count, the largest first."""
        return Counter(row.group for row in self.rows).most_common()

    def steps(self) -> Iterator[tuple[Undecided, ...]]:
        """The rows in parts of one broker each."""
        for broker in dict.fromkeys(row.broker for row in self.rows):
            rows = iter([row for row in self.rows if row.broker == broker])
            while part := tuple(islice(rows, STEP)):
                yield part


class ManyDecisions:
    """Plans and takes steps. ``name_servers``: which cluster it is, for the audit file."""

    def __init__(
        self, transactions: Transactions, decisions: Decisions, audit: AuditFile, name_servers: str, clock: Clock
    ) -> None:
        self._transactions = transactions
        self._decisions = decisions
        self._audit = audit
        self._name_servers = name_servers
        self._clock = clock

    async def plan(self, action: Action, wanted: Filter) -> Plan:
        """List what fits. Raises ConfigError, Unreachable, TimedOut or RequestRejected."""
        wanted = replace(wanted, state=NEEDED[action])
        deadline = self._clock.monotonic() + PLANNING_S
        rows: list[Undecided] = []
        notes: dict[str, None] = {}
        cursor, first = None, True
        while (first or cursor is not None) and len(rows) < LISTED_MAX and self._clock.monotonic() < deadline:
            page = await self._transactions.pages.page(wanted, LISTED_AT_ONCE, cursor)
            rows += page.rows
            notes |= dict.fromkeys(page.notes)
            cursor, first = page.cursor if not page.gone else None, False
        return Plan(action, wanted, tuple(rows[:LISTED_MAX]), cursor is not None, tuple(notes))

    async def step(self, plan: Plan, rows: Sequence[Undecided], person: str, why: str, run: str) -> list[Outcome]:
        """Decide the rows of one broker. ``run``: names all steps of a plan in the audit file.

        Raises AuditFailed (nothing of this step was done, or, as its text says, its outcome could not be recorded),
        ConfigError without a reason, and Unreachable or TimedOut when nothing of it was begun.
        """
        if not why.strip():
            raise ConfigError("give the reason, for the audit file")
        left = await self._still(plan, rows)
        gone = [row for row in rows if row.half_offset_message_id not in left]
        found = [await self._gone(row, explained=number < EXPLAINED) for number, row in enumerate(gone)]
        staying = [row for row in rows if row.half_offset_message_id in left]
        if not staying:
            return found
        line = self._audit.decision(
            person, action=str(plan.action), why=why, run=run, name_servers=self._name_servers,
            broker=rows[0].broker, address=rows[0].address,
            transactions=[[row.id, row.half_offset_message_id] for row in staying],
        )  # fmt: skip
        line.note(Phase.INTENDED)
        try:
            outcomes = await self._act(plan.action, staying, f"{person}: {why}")
        except GantryError as error:
            line.note(Phase.REFUSED, f"nothing of this step was done: {error}")
            raise
        except asyncio.CancelledError:
            line.note(Phase.UNKNOWN, "this program was stopped during the step")
            raise
        done = sum(outcome.fate is Fate.DONE for outcome in outcomes)
        others = "".join(
            f"; {one.row.id or one.row.half_offset_message_id}: {one.fate.value}, {one.text}"
            for one in outcomes
            if one.fate is not Fate.DONE
        )
        unsure = any(outcome.fate is Fate.UNKNOWN for outcome in outcomes)
        line.note(
            Phase.UNKNOWN if unsure else Phase.DONE, f"{done} of {len(staying)} {outcome_of(plan.action)}{others}"
        )
        return found + outcomes

    async def _still(self, plan: Plan, rows: Sequence[Undecided]) -> set[str]:
        """The halves among the rows that are still undecided."""
        if not self._transactions.lists_them(rows[0].address):  # each is looked at by itself, see ``_one``
            return {row.half_offset_message_id for row in rows}
        last, found = rows[-1].half_queue_offset, set[str]()
        wanted = replace(plan.wanted, broker=rows[0].broker, min_age_ms=0)
        cursor: str | None = write_cursor({rows[0].broker: str(rows[0].half_queue_offset - 1)})
        while cursor is not None:
            page = await self._transactions.pages.page(wanted, STEP, cursor)
            if page.gone:
                raise Unreachable(rows[0].address, "; ".join(page.notes))
            found |= {row.half_offset_message_id for row in page.rows}
            cursor = None if page.rows and page.rows[-1].half_queue_offset >= last else page.cursor
        return found

    async def _gone(self, row: Undecided, *, explained: bool) -> Outcome:
        """One that is not undecided any more."""
        text = f"it is no longer {row.state}"
        if explained:
            try:
                places = await self._transactions.find(row.half_offset_message_id, row.broker)
                text = f"it is {places[-1].transaction.state.text}. {places[-1].transaction.why}" if places else text
            except GantryError as error:
                text = f"{text}; how it ended is unknown: {error}"
        return Outcome(row, Fate.MEANWHILE, text)

    async def _act(self, action: Action, rows: Sequence[Undecided], why: str) -> list[Outcome]:
        if action in (Action.COMMIT, Action.ROLLBACK) and self._transactions.lists_them(rows[0].address):
            errors = await self._transactions.end_listed(rows, ENDS[action], why)
            pairs = zip(rows, errors, strict=True)
            return [await self._ended(row, action, error) for row, error in pairs]
        return [await self._one(row, action, why) for row in rows]

    async def _one(self, row: Undecided, action: Action, why: str) -> Outcome:
        """One by itself: it needs several requests."""
        try:
            places = await self._transactions.find(row.half_offset_message_id, row.broker)
            if not places:
                return Outcome(row, Fate.MEANWHILE, "it is no longer there")
            return Outcome(row, Fate.DONE, await self._decisions.act(the_one(places, action), action, why))
        except GantryError as error:
            return Outcome(row, fate_of(error), str(error))

    async def _ended(self, row: Undecided, action: Action, error: GantryError | None) -> Outcome:
        if error is None:
            return Outcome(row, Fate.DONE, outcome_of(action))
        if fate_of(error) is Fate.UNKNOWN:
            return Outcome(row, Fate.UNKNOWN, str(error))
        try:
            the_one(await self._transactions.find(row.half_offset_message_id, row.broker), action)
        except AlreadyDecided as decided:
            return Outcome(row, Fate.MEANWHILE, str(decided))
        except (GantryError, LookupError):
            return Outcome(row, Fate.REFUSED, str(error))
        return Outcome(row, Fate.REFUSED, str(error))


def fate_of(error: GantryError) -> Fate:
    """What an error says about the transaction."""
    if isinstance(error, AlreadyDecided):
        return Fate.MEANWHILE
    return Fate.UNKNOWN if isinstance(error, (TimedOut, Unreachable)) else Fate.REFUSED
