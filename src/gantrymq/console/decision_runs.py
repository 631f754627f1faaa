"""Plans that somebody made in the console, and their runs: many transactions, decided in the background step by step.

They live in memory. A run that the end of this process interrupts can be followed in the audit file: the transactions
of its last step are named there, and later ones were not touched.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final

from gantrymq.admin.many_decisions import Fate, ManyDecisions, Outcome, Plan
from gantrymq.console.identity import Person
from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.tasks import TaskGroupOwner

PLANS_MAX: Final = 8
"""Plans that wait for their reason; then the oldest one is forgotten."""
PLAN_KEPT_S: Final = 900.0
RUNS_MAX: Final = 50
"""Runs that can be looked at; then the oldest one that has ended is forgotten."""
UNDER_WAY_MAX: Final = 4
TOLD_MAX: Final = 200
"""Transactions of a run that were not done, of which the page says why."""

Deciding = Callable[[], AbstractAsyncContextManager[ManyDecisions]]
"""What decides in the name of the person; it stays usable inside the block."""


class Phase(enum.Enum):
    """How far a run is."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    """Somebody stopped it."""
    FAILED = "failed"
    """A step could not be taken, so the later ones were not tried."""


@dataclass(slots=True)
class Run:
    """One plan that is carried out."""

    id: str
    plan: Plan
    person: Person
    why: str
    begun_ms: int
    phase: Phase = Phase.RUNNING
    problem: str = ""
    """Why a step could not be taken."""
    fates: Counter[Fate] = field(default_factory=Counter)
    told: list[Outcome] = field(default_factory=list)
    """The first ones that were not done."""
    is_stopping: bool = False

    @property
    def tried(self) -> int:
        return self.fates.total()

    @property
    def left(self) -> int:
        return len(self.plan.rows) - self.tried

    @property
    def more(self) -> int:
        """Transactions that were not done, and that ``told`` has no room for."""
        return self.tried - self.fates[Fate.DONE] - len(self.told)

    def note(self, outcomes: list[Outcome]) -> None:
        self.fates.update(outcome.fate for outcome in outcomes)
        others = [outcome for outcome in outcomes if outcome.fate is not Fate.DONE]
        self.told += others[: TOLD_MAX - len(self.told)]


@dataclass(frozen=True, slots=True)
class _Waiting:
    plan: Plan
    person: Person
    until: float


class DecisionRuns:
    """Of one console process."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._plans: OrderedDict[str, _Waiting] = OrderedDict()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._tasks = TaskGroupOwner("decisions")

    def keep(self, plan: Plan, person: Person) -> str:
        """Keep a plan until its person starts it; returns its id."""
        name = self._rng.token(9).hex()
        self._plans[name] = _Waiting(plan, person, self._clock.monotonic() + PLAN_KEPT_S)
        while len(self._plans) > PLANS_MAX:
            self._plans.popitem(last=False)
        return name

    def start(self, name: str, person: Person, why: str, deciding: Deciding) -> Run:
        """Carry a plan out; the same run when it was started before. Raises ConfigError."""
        if (known := self._runs.get(name)) is not None and may_see(known, person):
            return known
        waiting = self._plans.get(name)
        if waiting is None or waiting.person != person or self._clock.monotonic() > waiting.until:
            raise ConfigError("this list is too old, or not yours; make a new one, so that you decide what is true now")
        if not why:
            raise ConfigError("give a reason; it is written to the audit file, and the broker keeps it")
        if sum(run.phase is Phase.RUNNING for run in self._runs.values()) >= UNDER_WAY_MAX:
            raise ConfigError(f"{UNDER_WAY_MAX} such decisions are under way; wait until one of them has ended")
        del self._plans[name]
        run = self._runs[name] = Run(name, waiting.plan, person, why, self._clock.wall_ms())
        self._forget_old()
        self._tasks.start(name, self._carry_out(run, deciding))
        return run

    def of(self, name: str, person: Person | None) -> Run | None:
        """The run with this id, when the person may see it."""
        run = self._runs.get(name)
        return run if run is not None and person is not None and may_see(run, person) else None

    def recent(self, person: Person | None) -> list[Run]:
        """Those that the person may see, the newest first."""
        return [run for run in reversed(self._runs.values()) if person is not None and may_see(run, person)]

    async def stop(self) -> None:
        """End what is under way, when the console ends."""
        await self._tasks.stop()

    def _forget_old(self) -> None:
        ended = [name for name, run in self._runs.items() if run.phase is not Phase.RUNNING]
        for name in ended[: max(len(self._runs) - RUNS_MAX, 0)]:
            del self._runs[name]

    async def _carry_out(self, run: Run, deciding: Deciding) -> None:
        try:
            async with deciding() as many:
                for rows in run.plan.steps():
                    if run.is_stopping:
                        run.phase = Phase.STOPPED
                        return
                    outcomes = await many.step(run.plan, rows, run.person.in_records, run.why, run.id)
                    run.note(outcomes)
                    unsure = [outcome for outcome in outcomes if outcome.fate is Fate.UNKNOWN]
                    if unsure:
                        raise ConfigError(f"the broker ceased to answer: {unsure[0].text}")
            run.phase = Phase.DONE
        except GantryError as error:
            run.phase, run.problem = Phase.FAILED, str(error)
        finally:
            if run.phase is Phase.RUNNING:  # a defect, or the end of this process
                run.phase, run.problem = Phase.FAILED, "the console hit a defect, or was stopped; its log says more"


def may_see(run: Run, person: Person) -> bool:
    """Users of the brokers see their own runs, because the rights of others may be wider."""
    return run.person == person or (person.account is None and run.person.account is None)
