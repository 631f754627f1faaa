"""A run of ``bench apache``: starts the brokers, and measures each row on each of them in turns."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from benchmarks import apache, machine, own_broker, own_load, processes
from benchmarks.apache import SECONDS_PER_LINE, NotPossible
from benchmarks.machine import Setup
from benchmarks.processes import Running
from benchmarks.ratios import APACHE, COMPILED, PURE
from benchmarks.rows import Row
from benchmarks.samples import Figures
from benchmarks.turns import SHORT_S, SHORT_WARM_UP_S, SHORT_WARM_UP_TURN_S, Bench, turn
from gantrymq.aio import Admin

NARROWEST = 230
"""The number of columns that the table needs."""
console = Console()
if console.width < NARROWEST:
    console.width = NARROWEST
TOPIC_QUEUES = 8
WARM_UP_THREADS = 32
WARM_UP_TOPIC = "warm_up"
Report = dict[str, Any]


class Progress:
    """Prints the result of each row, and how long the remaining rows will take."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._done = 0
        self._begun = time.monotonic()

    def row(self, setup: str, row: Row, measured: dict[str, list[Figures]]) -> None:
        self._done += 1
        left = (time.monotonic() - self._begun) / self._done * (self._rows - self._done) / 60
        rates = ", ".join(
            f"{name} {statistics.median(each.per_second for each in figures):,.0f}/s"
            for name, figures in measured.items()
        )
        console.print(f"  {self._done}/{self._rows} {setup}: {row}: {rates}; about {left:.0f} min left")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured, and how."""

    rows: list[Row]
    setups: tuple[Setup, ...]
    seconds: int
    turns: int
    short: bool
    compiled: dict[str, str | None] | None
    """The environment in which our broker runs the compiled core; None: the compiled core is not measured."""

    @property
    def names(self) -> tuple[str, ...]:
        return (APACHE, PURE) if self.compiled is None else (APACHE, PURE, COMPILED)

    def groups(self) -> list[tuple[Setup, str, list[Row]]]:
        """Groups of rows that are measured on the same brokers. A short run has fewer groups."""
        found: dict[tuple[Setup, str, int], list[Row]] = {}
        for setup in self.setups:
            for row in self.rows:
                found.setdefault((setup, row.flush, 0 if self.short else row.size), []).append(row)
        return [(setup, flush, members) for (setup, flush, _), members in found.items()]

    def minutes(self) -> float:
        """The approximate time of the run."""
        each = {"java": self.seconds + 2.0, "ours": self.seconds * own_load.SHARE}
        if self.short:
            each = {"java": SHORT_WARM_UP_S + SHORT_S + 1.5, "ours": SHORT_S}
        each["ours"] += own_load.START_S + own_load.WARM_UP_S
        each["json"] = each["java"]
        each["consume"] = SECONDS_PER_LINE * 2 + 2.0 if self.short else self.seconds + SECONDS_PER_LINE + 2.0
        turns = sum(each["consume" if row.kind == "consume" else row.client] for row in self.rows) * len(self.setups)
        around = 30 if self.short else 20 + 2 * self.seconds * len(self.names)
        return (turns * self.turns * len(self.names) + around * len(self.groups())) / 60


async def _make_topics(name_server: str, topics: list[str]) -> None:
    async with Admin(name_servers=name_server) as admin:
        for topic in topics:
            await admin.create_topic(topic, TOPIC_QUEUES)


def measured_turn(row: Row, running: Running, bench: Bench) -> Figures:
    """Measure one row on one broker. If that gives no result, report it and measure once more."""
    found = turn(row, running, bench)
    if found.per_second == 0:
        console.print(f"  {row}: nothing arrived in this turn, it is repeated.", markup=False)
        if row.client != "ours":
            complaints = apache.complaints(bench.directory)
            console.print(f"  The Java clients' last complaints so far:\n{complaints}", markup=False)
        found = turn(row, running, bench)
    return found


def compare(plan: Plan, lib: apache.Jars, scratch: Path, save: Callable[[], None], report: Report) -> None:
    """Measure all rows into ``report``, and call ``save`` after each addition."""
    progress = Progress(len(plan.rows) * len(plan.setups))
    for number, (setup, flush, members) in enumerate(plan.groups()):
        placement = machine.placement(setup, os.sched_getaffinity(0))
        if placement is None:
            raise NotPossible(f"--setup {setup}: this needs {machine.CORES} cores, and this process may use one")
        directory = scratch / str(number)
        bench = Bench(lib, placement, directory, plan.seconds, SHORT_S if plan.short else None)
        sizes = sorted({row.size for row in members})
        with contextlib.ExitStack() as stack:
            started = {name: stack.enter_context(_broker(name, plan, bench, flush)) for name in plan.names}
            time.sleep(2)  # for work that brokers do in the background after their start
            before = {name: _size_at_start(running) for name, running in started.items()}
            shown = " and ".join(f"{size} B" for size in sizes)
            console.print(f"[bold]{setup}, {flush.upper()}_FLUSH, {shown}[/]: the brokers are up")
            topics = sorted({row.topic for row in members} | {WARM_UP_TOPIC})
            for running in started.values():
                uvloop.run(_make_topics(running.name_server, topics))
            warm: set[str] = set()
            # Transactions come last, because afterwards Apache's broker stays busy, which would slow down other rows.
            for row in sorted(members, key=lambda row: row.kind == "transaction"):
                if row.kind not in warm and row.kind != "consume":
                    warm_up(row, started, bench)
                    warm.add(row.kind)
                found = _measured_row(row, started, bench, plan)
                report["rows"].append(
                    {"setup": setup, **asdict(row), **{n: [asdict(each) for each in all_] for n, all_ in found.items()}}
                )
                save()
                progress.row(setup, row, found)
            after = {name: _size_after(running) for name, running in started.items()}
            merged = {name: before[name] | after[name] for name in started}
            report["processes"].append({"setup": setup, "flush": flush, "bytes": sizes, **merged})
            save()
        shutil.rmtree(directory, ignore_errors=True)


def _measured_row(row: Row, started: dict[str, Running], bench: Bench, plan: Plan) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {name: [] for name in plan.names}
    for number in range(plan.turns):
        # Every second turn has the reverse order, so that changes of the machine's speed affect all brokers.
        for name in plan.names if number % 2 == 0 else plan.names[::-1]:
            with _alone(name, started) as running:
                found[name].append(measured_turn(row, running, bench))
    return found


@contextlib.contextmanager
def _broker(name: str, plan: Plan, bench: Bench, flush: str) -> Iterator[Running]:
    """One of the brokers, on the cores of its placement."""
    place = bench.directory / name.replace(" ", "-")
    if name == APACHE:
        broker = apache.broker(bench.lib, place, flush)
    else:
        broker = own_broker.gantry(place, flush, plan.compiled if name == COMPILED else own_broker.PURE_ENVIRONMENT)
    with contextlib.ExitStack() as stack:
        with machine.started_on(bench.placement.broker):
            running = stack.enter_context(broker)
        if name != APACHE:
            own_broker.check_build(running, compiled=name == COMPILED)
        yield running


@contextlib.contextmanager
def _alone(name: str, started: dict[str, Running]) -> Iterator[Running]:
    """Stop the other brokers for the time of the block."""
    with contextlib.ExitStack() as stack:
        for other, running in started.items():
            if other != name:
                stack.enter_context(processes.paused(running))
        yield started[name]


def warm_up(row: Row, started: dict[str, Running], bench: Bench) -> None:
    """Run a turn that is not counted on all brokers. In a short run only on Apache's, because its JVM compiles code."""
    like = replace(row, threads=WARM_UP_THREADS, client="ours" if row.client == "ours" else "java")
    short = bench.counted_s is not None
    length = replace(
        bench,
        seconds=max(SECONDS_PER_LINE, bench.seconds - SECONDS_PER_LINE),
        counted_s=SHORT_WARM_UP_TURN_S if short else None,
    )
    for name in (APACHE,) if short else started:
        with _alone(name, started) as running:
            turn(like, running, length, WARM_UP_TOPIC)
    console.print(f"  warmed up: {row.kind}")


def _size_at_start(running: Running) -> dict[str, float]:
    return {"start_s": running.start_s, "rss_mb": running.rss_mb(), "anonymous_mb": running.anonymous_mb()}


def _size_after(running: Running) -> dict[str, float]:
    return {"rss_mb_after": running.rss_mb(), "anonymous_mb_after": running.anonymous_mb()}
