"""``gantry crash-points --pair``: the power of a primary, of its replica or of both goes off at each disk operation."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import Any

import typer
from rich.console import Console

from gantrymq.cli.simulate import CALLED_AS
from gantrymq.runtime.clock import SystemClock
from gantrymq.simulation.pair.crash import Point, points, run


def try_pair(console: Console, seed: int, *, short: bool, point: str | None) -> dict[str, Any]:
    """The figures of all crashes, or of one. Raises typer.BadParameter."""
    clock = SystemClock()
    started = clock.monotonic()
    chosen = points(seed, short=short) if point is None else [_parsed(point)]
    tried: Counter[str] = Counter()
    failed = 0
    for one in chosen:
        result = run(seed, one)
        tried[one.crash.value] += 1
        if not result.good:
            failed += 1
            _tell(console, seed, one, [*map(str, result.violations), *result.errors])
    return {
        "points": dict(tried), "failed": failed, "seconds": round(clock.monotonic() - started, 1),
    }  # fmt: skip


def pair_in_words(figures: dict[str, Any]) -> str:
    kinds = ", ".join(f"{count} of {name}" for name, count in figures["points"].items())
    return (
        f"{sum(figures['points'].values())} crashes ({kinds}), {figures['failed']} failed; {figures['seconds']:.0f} s"
    )


def _parsed(text: str) -> Point:
    try:
        return Point.parse(text)
    except ValueError:
        raise typer.BadParameter(f"--point is {text!r}; write WHAT:OPERATION, for example primary:17") from None


def _tell(console: Console, seed: int, point: Point, problems: list[str]) -> None:
    console.print(f"crash {point}:", style="bold red")
    for problem in problems:
        console.print(f"  {problem}", markup=False)
    command = [*os.environ.get(CALLED_AS, "gantry").split(), "crash-points", "--pair", "--seed", str(seed)]
    command += ["--point", str(point)]
    console.print(f"  again: {shlex.join(command)}", markup=False, soft_wrap=True)
