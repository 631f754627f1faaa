"""The steps of a trial in their order, and the table of what became of each. Knows nothing of what a step does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WIDEST_NOTE: Final = 60
"""Characters of a note in the table; all of it was printed when the step ended."""


class Failed(Exception):
    """A step did not succeed; the text says why, and what to do."""


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "FAILED"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    run: Callable[[], str]
    """Gives a note for the table. Raises Failed."""
    needs: tuple[str, ...] = ()
    """Names of earlier steps: unless all of them passed, this one is not tried."""


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    outcome: Outcome
    note: str
    seconds: float


def carry_out(steps: Sequence[Step], say: Callable[[str], None]) -> list[Result]:
    """Run the steps in order; a failure stops only the steps that need that one."""
    results: dict[str, Result] = {}
    for number, step in enumerate(steps, start=1):
        missing = [name for name in step.needs if results[name].outcome is not Outcome.PASSED]
        if missing:
            results[step.name] = Result(step.name, Outcome.NOT_TRIED, f"needs: {missing[0]}", 0.0)
            continue
        say(f"{number}/{len(steps)} {step.name} ...")
        results[step.name] = _result_of(step)
        say(f"    {results[step.name].outcome}: {results[step.name].note}")
    return list(results.values())


def _result_of(step: Step) -> Result:
    begin = time.monotonic()
    try:
        outcome, note = Outcome.PASSED, step.run()
    except Failed as error:
        outcome, note = Outcome.FAILED, str(error)
    return Result(step.name, outcome, note, time.monotonic() - begin)


def table(results: Sequence[Result]) -> str:
    """One line for each step, with the first line of its note."""
    width = max(len(result.name) for result in results)
    lines = [_line(result, width) for result in results]
    return "\n".join([f"{'step':{width}}  {'outcome':9}  seconds", *lines])


def _line(result: Result, width: int) -> str:
    first = (result.note.splitlines() or [""])[0]
    note = first if len(first) <= WIDEST_NOTE else first[: WIDEST_NOTE - 3] + "..."
    return f"{result.name:{width}}  {result.outcome:9}  {result.seconds:7.1f}  {note}".rstrip()


def succeeded(results: Sequence[Result]) -> bool:
    return all(result.outcome is Outcome.PASSED for result in results)
