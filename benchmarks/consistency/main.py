"""The command ``bench consistency``: what is measured, in which order, and where the figures go."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import machine
from benchmarks.apache import NotPossible
from benchmarks.consistency import costs, hang, kills, plot, report, speed
from benchmarks.consistency.setting import LOCAL, OUTBOX_WAY, TITLES, WAYS
from benchmarks.consistency.world import World, world
from gantrymq.build_info import build_info

PARTS: Final = ("speed", "calm", "hangs", "kills", "costs")
CLIENTS: Final = (1, 8, 32)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything takes."""

    turns: int
    seconds: float
    calm_rate: float
    calm_seconds: float
    calm_turns: int
    hang: tuple[float, float, float]
    """Seconds before, during and after a hang."""
    kills: int
    """For each victim of each way."""
    load_seconds: float
    promised_s: float
    limit_s: float


WHOLE: Final = Plan(5, 2.5, 40, 5.0, 3, (3.0, 10.0, 2.0), 5, 2.0, 30.0, 100.0)
SHORT: Final = Plan(1, 0.8, 40, 1.5, 1, (0.8, 2.0, 0.4), 1, 0.8, 10.0, 20.0)


class Progress:
    """Says what is being measured, and since when."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done, self._begun = steps, 0, time.monotonic()

    def step(self, what: str) -> None:
        self._done += 1
        print(f"[{self._done}/{self._steps}, {time.monotonic() - self._begun:4.0f} s] {what}", flush=True)

    def tell(self, line: str) -> None:
        print(f"    {line}", flush=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the command."""

    plan: Plan
    parts: tuple[str, ...]
    ways: tuple[str, ...]
    clients: tuple[int, ...]
    seed: int
    short: bool
    victims: tuple[str, ...] = kills.VICTIMS
    hangs: tuple[str, ...] = hang.HANGS
    directory: Path | None = None

    def steps(self) -> list[tuple[str, str, Callable[[World, Progress], Any]]]:
        """What to do: the part of the report, what is told, and the work. Its list is added to the part."""
        plan, found = self.plan, []
        all_ways = (LOCAL, *self.ways)
        for clients in self.clients if "speed" in self.parts else ():
            found.append(("speed", f"speed, {clients} clients", self._speed(all_ways, clients)))
        if "calm" in self.parts:
            found.append(("calm", f"calm load, {plan.calm_rate:g} orders/s", self._calm))
        if "costs" in self.parts:
            found.append(("costs", "many messages in a transaction; claims", self._costs))
        for way in self.ways if "hangs" in self.parts else ():
            for what in (each for each in hang.what_hangs(way) if each in self.hangs):
                found.append(("hangs", f"{TITLES[way]}: {what} hangs for {plan.hang[1]:g} s", self._hang(way, what)))
        for way in self.ways if "kills" in self.parts else ():
            for victim in (each for each in kills.victims(way) if each in self.victims):
                found.append(("kills", f"{TITLES[way]}: {plan.kills} kills of {victim}", self._kills(way, victim)))
        return found

    def _speed(self, ways: tuple[str, ...], clients: int) -> Callable[[World, Progress], Any]:
        return lambda it, progress: speed.measure(
            it, ways, clients, self.plan.turns, self.plan.seconds, 0, progress.tell
        )

    def _calm(self, it: World, progress: Progress) -> Any:
        plan = self.plan
        return speed.measure(
            it, self.ways, speed.CALM_CLIENTS, plan.calm_turns, plan.calm_seconds, plan.calm_rate, progress.tell
        )

    def _costs(self, it: World, progress: Progress) -> Any:
        found = costs.measure(it, self.short)
        progress.tell(json.dumps(found))
        return found

    def _hang(self, way: str, what: str) -> Callable[[World, Progress], Any]:
        def work(it: World, progress: Progress) -> Any:
            found = hang.measure(it, way, what, *self.plan.hang)
            progress.tell(
                f"{found['per_second_during']:g} orders/s meanwhile, an order's row locked for up to "
                f"{found['order_locked_max_s']:g} s, {found['failed_calls']} failed calls"
            )
            return [found]

        return work

    def _kills(self, way: str, victim: str) -> Callable[[World, Progress], Any]:
        plan = kills.Kills(self.plan.kills, self.plan.load_seconds, self.plan.promised_s, self.plan.limit_s, self.seed)

        def work(it: World, progress: Progress) -> Any:
            found = kills.measure(it, way, victim, plan)
            counted = ", ".join(f"{name} {found[name]}" for name in ("paid", "lost", "doubled", "phantom", "stuck"))
            progress.tell(f"{counted}; settled after {found['settled_s']:g} s")
            return [found]

        return work


def measure(run: Run, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Do everything; ``save`` gets the report whenever something was added."""
    steps = run.steps()
    progress = Progress(len(steps) + 1)
    found: dict[str, Any] = {
        "machine": machine.description(), "load": [round(os.getloadavg()[0], 1)], "seed": run.seed,
        "short": run.short, "turns": run.plan.turns, "seconds": run.plan.seconds, "promised_s": run.plan.promised_s,
        "build": "compiled core" if build_info().compiled else "pure Python",
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="gantry-bench-", dir=run.directory) as directory:
        progress.step("PostgreSQL with four databases, the broker and three consumers are started")
        with world(Path(directory)) as it:
            found["postgres"] = it.postgres.version()
            measured = (LOCAL, *run.ways) if "speed" in run.parts else run.ways
            speed.warm_up(it, measured)
            for part, what, work in steps:
                progress.step(what)
                result = work(it, progress)
                found[part] = [*found.get(part, []), *result] if isinstance(result, list) else result
                found["load"] = [found["load"][0], round(os.getloadavg()[0], 1)]
                save(found)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench consistency", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="a minute or two; the figures are rough")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of: {','.join(PARTS)}")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of: {','.join(WAYS)}")
    parser.add_argument("--clients", default=",".join(map(str, CLIENTS)), help="numbers of client threads")
    parser.add_argument("--turns", type=int, help="turns of each way for each figure of speed")
    parser.add_argument("--kills", type=int, help="kills for each victim of each way")
    parser.add_argument("--victims", default=",".join(kills.VICTIMS), help=f"of: {','.join(kills.VICTIMS)}")
    parser.add_argument("--hangs", default=",".join(hang.HANGS), help=f"of: {','.join(hang.HANGS)}")
    parser.add_argument("--dir", type=Path, help="where stores and databases are made (and removed)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    for name, what in (("json", "everything measured"), ("markdown", "the tables"), ("svg", "the picture")):
        parser.add_argument(f"--{name}", type=Path, help=f"write {what} to this file, after every step")
    return parser


def _chosen(text: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    wanted = tuple(word for word in text.split(",") if word)
    if unknown := [word for word in wanted if word not in known]:
        raise NotPossible(f"--{what}: {', '.join(unknown)} is not one of {', '.join(known)}")
    return wanted


def _plan(arguments: argparse.Namespace) -> Plan:
    from dataclasses import replace

    plan = SHORT if arguments.short else WHOLE
    given = {name: getattr(arguments, name) for name in ("turns", "kills") if getattr(arguments, name)}
    return replace(plan, **given)


def main(given: list[str]) -> int:
    arguments = _parser().parse_args(given)

    def save(found: dict[str, Any]) -> None:
        texts: tuple[tuple[Path | None, Callable[[], str]], ...] = (
            (arguments.json, lambda: json.dumps(found, indent=1)),
            (arguments.markdown, lambda: report.markdown(found)),
            (arguments.svg, lambda: plot.draw(found)),
        )
        for path, text in texts:
            if path is not None:
                path.write_text(text())

    try:
        ways = _chosen(arguments.ways, WAYS, "ways")
        if OUTBOX_WAY in ways and importlib.util.find_spec("faststream_outbox") is None:
            print("the outbox is left out: faststream-outbox[asyncpg] is not installed", file=sys.stderr)
            ways = tuple(way for way in ways if way != OUTBOX_WAY)
        clients = tuple(int(number) for number in arguments.clients.split(","))
        parts = _chosen(arguments.parts, PARTS, "parts")
        victims = _chosen(arguments.victims, kills.VICTIMS, "victims")
        hangs = _chosen(arguments.hangs, hang.HANGS, "hangs")
        run = Run(
            _plan(arguments), parts, ways, clients, arguments.seed, arguments.short, victims, hangs, arguments.dir
        )
        print(report.markdown(measure(run, save)))
    except NotPossible as error:
        print(f"bench consistency: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing is left behind", file=sys.stderr)
        return 130
    return 0
