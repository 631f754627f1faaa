"""``gantry crash-points``: cut the power before every disk operation of a fixed workload, and try all disk states."""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from gantrymq.cli.crash_pair import pair_in_words, try_pair
from gantrymq.cli.interrupts import ctrl_c_deferred, end_with_parent
from gantrymq.cli.progress import shown
from gantrymq.cli.simulate import CALLED_AS, FIXED, HASH_SEED
from gantrymq.runtime.clock import SystemClock
from gantrymq.simulation.crash.outcomes import Effort
from gantrymq.simulation.crash.points import Failure, Figures, Plan, Point, enumeration, pieces, silence, try_cuts
from gantrymq.simulation.crash.scenario import SHORT, WHOLE

FLUSHES = {"sync": ("SYNC_FLUSH",), "async": ("ASYNC_FLUSH",), "both": ("SYNC_FLUSH", "ASYNC_FLUSH")}
SHOWN = 10
INTERRUPTED = 130
"""Exit status of a program ended by Ctrl-C."""


def crash_points(
    flush: Annotated[str, typer.Option(help="Flush modes of the broker to try: sync, async or both.")] = "both",
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    short: Annotated[bool, typer.Option("--short", help="Play a smaller workload.")] = False,
    sector: Annotated[
        int, typer.Option(min=64, help="Bytes in a sector, which a disk writes completely or not at all.")
    ] = 512,
    all_up_to: Annotated[
        int, typer.Option(min=1, help="Try all disk states after a cut if there are at most this many.")
    ] = 64,
    sampled: Annotated[
        int, typer.Option(min=0, help="If there are more, try this many random states besides the regular ones.")
    ] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the random states.")] = 0,
    again_every: Annotated[
        int, typer.Option(min=0, help="In one of this many states, cut the power again during the restart; 0: never.")
    ] = 1000,
    kill_every: Annotated[
        int, typer.Option(min=0, help="After one of this many log writes, kill only the process first; 0: never.")
    ] = 5,
    point: Annotated[
        str | None, typer.Option(help="Try only this crash: OPERATION:OUTCOME, or OPERATION:OUTCOME:OPERATION:OUTCOME.")
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="A primary and its replica, each with a disk; --point is WHAT:OPERATION.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Play a fixed workload on one broker and cut the power before each of its disk operations. Try the states in which
    the disk may be then: start the broker on each, and compare it with what clients were told.

    The exit status is 1 when a promise is broken; the command that tries exactly this crash again is printed.
    """
    if os.environ.get(HASH_SEED) != FIXED:
        os.environ[HASH_SEED] = FIXED
        os.execv(sys.executable, [sys.executable, "-m", "gantrymq.cli.main", *sys.argv[1:]])
    if flush not in FLUSHES:
        raise typer.BadParameter(f"--flush is {flush!r}; write sync, async or both")
    if pair:
        figures = try_pair(Console(stderr=True), seed, short=short, point=point)
        typer.echo(json.dumps(figures) if as_json else pair_in_words(figures))
        raise typer.Exit(1 if figures["failed"] else 0)
    silence()
    effort = Effort(all_up_to=all_up_to, sampled=sampled, seed=seed)
    plan = Plan(
        chapters=SHORT if short else WHOLE, sector_bytes=sector, effort=effort, again_every=again_every,
        kill_every=kill_every,
    )  # fmt: skip
    console = Console(stderr=True)
    if point is not None:
        raise typer.Exit(_try_one(console, replace(plan, flush=FLUSHES[flush][0]), point))
    all_figures: dict[str, dict[str, Any]] = {}
    for kind in FLUSHES[flush]:
        figures = all_figures[kind] = _try_all(console, replace(plan, flush=kind), jobs)
        if not as_json:
            typer.echo(_in_words(kind, figures))
        if figures["interrupted"]:
            break
    if as_json:
        typer.echo(json.dumps(all_figures))
    if any(figures["failed"] for figures in all_figures.values()):
        raise typer.Exit(1)
    raise typer.Exit(INTERRUPTED if any(figures["interrupted"] for figures in all_figures.values()) else 0)


def _try_all(console: Console, plan: Plan, jobs: int) -> dict[str, Any]:
    """The figures of everything that was tried, also when Ctrl-C ended it."""
    clock = SystemClock()
    started = clock.monotonic()
    found, interrupted = Figures(), False
    try:
        work = list(pieces(len(enumeration(plan).played.cuts)))
        for figures in shown(_in_processes(plan, work, jobs), plan.flush, len(work), console, clock):
            for failure in figures.failures[: max(0, SHOWN - len(found.failures))]:
                _tell(console, plan, failure)
            found.add(figures)
    except KeyboardInterrupt:
        interrupted = True
    return {
        "operations": found.operations, "complete": found.complete, "points": found.points,
        "outcomes": dict(sorted(found.kinds.items())), "opened": found.opened, "starts_cut": found.starts_cut,
        "operations_of_starts": found.again_operations, "points_in_starts": found.again,
        "failed": len(found.failures), "violations": sum(len(failure.breaches) for failure in found.failures),
        "seconds": round(clock.monotonic() - started, 1), "interrupted": interrupted,
    }  # fmt: skip


def _in_words(flush: str, figures: dict[str, Any]) -> str:
    return (
        "{flush}: {operations} disk operations, {points} crash points ({points_in_starts} of them in {starts_cut} "
        "starts behind a crash), {complete} operations with every outcome, {opened} different disks started, "
        "{failed} failed; {seconds:.0f} s{end}"
    ).format(flush=flush, end="; interrupted" if figures["interrupted"] else "", **figures)


def _in_processes(plan: Plan, work: list[range], jobs: int) -> Iterator[Figures]:
    if jobs == 1:
        yield from map(partial(try_cuts, plan), work)
        return
    with ctrl_c_deferred():
        pool = multiprocessing.get_context("spawn").Pool(jobs, _begin)
    with pool:
        yield from pool.imap_unordered(partial(try_cuts, plan), work)


def _begin() -> None:
    """In a process of --jobs."""
    silence()
    end_with_parent()


def _try_one(console: Console, plan: Plan, text: str) -> int:
    try:
        point = Point.parse(text)
    except ValueError:
        raise typer.BadParameter(
            f"--point is {text!r}; write OPERATION:OUTCOME or OPERATION:OUTCOME:OPERATION:OUTCOME"
        ) from None
    try:
        failure = enumeration(plan).point(point)
    except LookupError:
        raise typer.BadParameter(f"there is no crash {text} in this plan") from None
    if failure is None:
        typer.echo(f"{plan.flush} {point}: everything holds")
        return 0
    _tell(console, plan, failure)
    return 1


def _tell(console: Console, plan: Plan, failure: Failure) -> None:
    console.print(f"{plan.flush}, crash {failure.point}, after {failure.when}:", style="bold red")
    for breach in failure.breaches:
        console.print(f"  {breach}", markup=False)
    flush = next(name for name, kinds in FLUSHES.items() if kinds == (plan.flush,))
    command = [*os.environ.get(CALLED_AS, "gantry").split(), "crash-points", "--flush", flush]
    command += ["--sector", str(plan.sector_bytes), "--all-up-to", str(plan.effort.all_up_to)]
    command += ["--sampled", str(plan.effort.sampled), "--seed", str(plan.effort.seed)]
    command += ["--short"] * (plan.chapters == SHORT) + ["--point", str(failure.point)]
    console.print(f"  again: {shlex.join(command)}", markup=False, soft_wrap=True)
