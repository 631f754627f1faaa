"""``gantry simulate``: run a simulated cluster with faults from a seed, and judge the result."""

from __future__ import annotations

import json
import multiprocessing
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gantrymq.cli.interrupts import ctrl_c_deferred, end_with_parent
from gantrymq.cli.progress import shown
from gantrymq.runtime.clock import SystemClock
from gantrymq.simulation import run as simulation
from gantrymq.simulation.election import run as election
from gantrymq.simulation.faults import FAULTS
from gantrymq.simulation.groups import run as groups
from gantrymq.simulation.judging.history import encode
from gantrymq.simulation.pair import run as pair
from gantrymq.simulation.replica import run as replica
from gantrymq.simulation.run import Plan, Result
from gantrymq.simulation.shrink import shrink
from gantrymq.simulation.sql import run as sql_simulation
from gantrymq.simulation.waits import run as waits
from gantrymq.sql.rules.steps import Away

HASH_SEED = "PYTHONHASHSEED"
"""The order of sets of strings is part of a run: with the same value a seed gives the same run everywhere."""
FIXED = "0"
SHOWN = 3
CALLED_AS = "GANTRY_CALLED_AS"


@dataclass(frozen=True, slots=True)
class RunKind:
    """The kinds of runs."""

    run: Callable[[int, Plan], Result]
    default: Plan
    kinds: tuple[str, ...]
    option: tuple[str, ...] = ()
    """How the command line asks for it."""

    def plan(self, orders: int | None, kinds: tuple[str, ...], fault_count: int | None) -> Plan:
        default = self.default
        return replace(
            default,
            orders=default.orders if orders is None else orders,
            faults=kinds,
            fault_count=default.fault_count if fault_count is None else fault_count,
        )


TRANSACTIONS = RunKind(simulation.run, simulation.DEFAULT, tuple(FAULTS))
GROUPS = RunKind(groups.run, groups.DEFAULT, groups.GROUP_FAULTS, ("--groups",))
SQL = RunKind(sql_simulation.run, sql_simulation.DEFAULT, sql_simulation.SQL_FAULTS, ("--sql",))
SQL_AWAY = {
    away: RunKind(
        partial(sql_simulation.run, away=away), sql_simulation.AWAY, sql_simulation.AWAY_FAULTS,
        ("--sql", "--away", away),
    )
    for away in ("row", "always")
}  # fmt: skip
SQL_ORDERED = {
    away: RunKind(
        partial(sql_simulation.run, away=away, ordered=True), sql_simulation.AWAY, sql_simulation.AWAY_FAULTS,
        ("--sql", "--away", away, "--order"),
    )
    for away in ("refuse", "row", "always")
}  # fmt: skip
WAITS = RunKind(waits.run, waits.DEFAULT, waits.FAULTS, ("--waits",))
REPLICA = RunKind(replica.run, replica.DEFAULT, tuple(replica.STEPS), ("--replica",))
PAIR = RunKind(pair.run, pair.DEFAULT, tuple(pair.PAIR_FAULTS), ("--pair",))
ELECTION = RunKind(election.run, election.DEFAULT, tuple(election.ELECTION_FAULTS), ("--election",))
_AMOUNTS = [
    "default {}, of --groups {}, of --sql {}, of --waits {}, of --replica {}, of --pair {}, of --election {}".format(
        *(getattr(kind.default, name) for kind in (TRANSACTIONS, GROUPS, SQL, WAITS, REPLICA, PAIR, ELECTION))
    )
    for name in ("orders", "fault_count")
]


def simulate(
    seed: Annotated[int | None, typer.Option(help="Play this one seed.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Play the seeds from A up to B, without B.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes for --seeds.")] = 1,
    of_groups: Annotated[
        bool, typer.Option("--groups", help="Run consumer groups whose members join, leave, fail and are killed.")
    ] = False,
    of_sql: Annotated[
        bool,
        typer.Option("--sql", help="Run gantrymq.sql: local transactions with messages, and databases that crash."),
    ] = False,
    away: Annotated[
        Away,
        typer.Option("--away", help="With --sql: when_broker_is_away of the services, and brokers that go away."),
    ] = Away.REFUSE,
    of_order: Annotated[
        bool, typer.Option("--order", help="With --sql: messages have ordering keys, and there is one broker.")
    ] = False,
    of_waits: Annotated[
        bool, typer.Option("--waits", help="Run everything that waits in a broker, and clocks that step.")
    ] = False,
    of_replica: Annotated[
        bool,
        typer.Option("--replica", help="Feed a store the log of another one, with crashes and cuts; compare bytes."),
    ] = False,
    of_pair: Annotated[
        bool,
        typer.Option("--pair", help="Run a primary and its replica, and an operator who lets them change places."),
    ] = False,
    of_election: Annotated[
        bool,
        typer.Option("--election", help="Run three brokers that elect their primary; machines, lines and etcd fail."),
    ] = False,
    orders: Annotated[
        int | None, typer.Option(min=1, help=f"Transactions and ordinary messages ({_AMOUNTS[0]}).")
    ] = None,
    faults: Annotated[str, typer.Option(help="Kinds of faults, comma separated; all when none is named.")] = "",
    fault_count: Annotated[int | None, typer.Option(min=0, help=f"How many of them ({_AMOUNTS[1]}).")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Write the history of --seed to this file, one event a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run name server, brokers, producers and consumers in virtual time, with faults from a seed, and judge them.

    The exit status is 1 when a promise was broken. The command that repeats the failing seed (shortened) is printed.
    """
    if os.environ.get(HASH_SEED) != FIXED:
        os.environ[HASH_SEED] = FIXED
        os.execv(sys.executable, [sys.executable, "-m", "gantrymq.cli.main", *sys.argv[1:]])
    for number in _HEARD:
        signal.signal(number, _note)
    asked = [
        kind
        for kind, wanted in (
            (GROUPS, of_groups),
            (SQL, of_sql),
            (WAITS, of_waits),
            (REPLICA, of_replica),
            (PAIR, of_pair),
            (ELECTION, of_election),
        )
        if wanted
    ]
    if len(asked) > 1:
        raise typer.BadParameter("give only one of --groups, --sql, --waits, --replica, --pair and --election")
    run_kind = asked[0] if asked else TRANSACTIONS
    if away is not Away.REFUSE or of_order:
        if not of_sql:
            raise typer.BadParameter(f"{'--order' if of_order else '--away'} belongs to --sql")
        run_kind = (SQL_ORDERED if of_order else SQL_AWAY)[away.value]
    plan = run_kind.plan(orders, _kinds(faults, run_kind), fault_count)
    console = Console(stderr=True)
    clock = SystemClock()
    started = clock.monotonic()
    found: list[Result] = []
    injected: Counter[str] = Counter()
    wanted = _range(seed, seeds)
    played = 0
    for result in shown(_play(wanted, run_kind, plan, jobs), "seeds", len(wanted), console, clock):
        played += 1
        injected.update(result.injected)
        if not result.good:
            found.append(result)
            _tell(console, result, run_kind)
        if history is not None:
            history.write_text(encode(result.events))
        if _noted:
            break
    stopped = 128 + _noted[0] if _noted and played < len(wanted) else 0
    seconds = clock.monotonic() - started
    figures: dict[str, Any] = {
        "seeds": played, "interrupted": bool(stopped), "failed": [result.seed for result in found],
        "violations": sum(len(result.violations) for result in found),
        "errors": sum(len(result.errors) for result in found),
        "faults": dict(sorted(injected.items())), "seconds": round(seconds, 1),
    }  # fmt: skip
    if as_json:
        typer.echo(json.dumps(figures))
    else:
        end = f"; stopped before the other {len(wanted) - played}" if stopped else ""
        typer.echo(f"{played} seeds in {seconds:.1f} s, {len(found)} failed; faults: {figures['faults']}{end}")
    raise typer.Exit(1 if found else stopped)


def _range(seed: int | None, seeds: str | None) -> range:
    if (seed is None) == (seeds is None):
        raise typer.BadParameter("give either --seed S or --seeds A..B")
    if seed is not None:
        return range(seed, seed + 1)
    first, dots, end = str(seeds).partition("..")
    if not dots or not first.isdigit() or not end.isdigit() or int(first) >= int(end):
        raise typer.BadParameter(f"--seeds is {seeds!r}; write for example 0..1000")
    return range(int(first), int(end))


def _kinds(text: str, run_kind: RunKind) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in text.split(",") if part.strip())
    if unknown := [kind for kind in kinds if kind not in run_kind.kinds]:
        raise typer.BadParameter(f"no such fault: {', '.join(unknown)}; there are {', '.join(run_kind.kinds)}")
    return kinds or run_kind.default.faults


def _play(seeds: range, run_kind: RunKind, plan: Plan, jobs: int) -> Iterator[Result]:
    play = partial(_one, run_kind.run, plan)
    if jobs == 1:
        yield from map(play, seeds)
        return
    with ctrl_c_deferred():
        pool = multiprocessing.get_context("spawn").Pool(jobs, _leave_quietly)
    with pool:
        yield from pool.imap_unordered(play, seeds, chunksize=4)


def _one(run: Callable[[int, Plan], Result], plan: Plan, seed: int) -> Result:
    return run(seed, plan)


def _leave_quietly() -> None:
    """In a process of --jobs."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()


_noted: list[int] = []
"""Signals that came. They are looked at between two seeds: an exception raised where a signal happens to arrive may be
swallowed there (in a weak reference's callback), and processes that are just being started would lose the rest of their
instructions."""
_HEARD = (signal.SIGTERM, signal.SIGINT)


def _note(number: int, _frame: object) -> None:
    _noted.append(number)
    for heard in _HEARD:  # whoever asks again does not want to wait for the end of the seed
        signal.signal(heard, signal.SIG_DFL)


def _tell(console: Console, result: Result, run_kind: RunKind) -> None:
    shortest = result if _noted else shrink(result, run_kind.run)
    console.print(f"seed {result.seed}:", style="bold red")
    for line in [*map(str, shortest.violations[:SHOWN]), *shortest.errors[:SHOWN]]:
        console.print(f"  {line}", markup=False)
    plan = shortest.plan
    command = [
        *os.environ.get(CALLED_AS, "gantry").split(),
        "simulate",
        *run_kind.option,
        "--seed",
        str(result.seed),
    ]
    command += ["--orders", str(plan.orders), "--fault-count", str(plan.fault_count)]
    command += ["--faults", ",".join(plan.faults), "--history", "history.jsonl"]
    console.print(f"  again: {shlex.join(command)}", markup=False, soft_wrap=True)
