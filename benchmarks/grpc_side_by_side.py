"""``python -m benchmarks grpc``: Apache's proxy and broker 5.5.0 beside ours, under the official Java client.

Two set-ups: ``local``, where the door is in the process of the broker (Apache's proxy in its local mode; our
``--grpc-port``), and ``cluster``, where a proxy stands before a broker (Apache's proxy in its cluster mode; ``gantry
proxy``). In each, one server runs after the other, on the same two cores as the client, with ASYNC_FLUSH. A client of
32 threads sends, receives and acknowledges, and sends and commits transactions; each kind of work warms up before it
counts. Processor time for a message, and memory at the end, are those of broker and proxy together; a start ends with
the first answer of gRPC.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import machine, own_broker
from benchmarks.apache import CLIENT_HEAP, NotPossible, java_command
from benchmarks.grpc_servers import Served, apache_servers, libraries, our_servers
from gantrymq.aio import Admin

LOAD: Final = Path(__file__).parent / "java" / "GrpcLoad.java"
TOPIC, TRANSACTIONS, GROUP = "Load", "LoadTransactions", "load"
KINDS: Final = 3
"""Kinds of work of the client."""
CLIENT_LIMIT_S: Final = 120.0
"""How long it may need beside the work."""
THREADS: Final = 32
BODY_BYTES: Final = 128
GOALS: Final = {"per_second": 3.0, "p99_ms": 0.5, "rss_mb": 1 / 8, "start_s": 0.1}
"""Ours as a part of Apache's: rates at least, the others at most."""
APACHE, OURS = "Apache 5.5.0", "GantryMQ"
SETUPS: Final = ("local", "cluster")

console = Console(width=140)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    setups: tuple[str, ...]
    warm_s: float
    seconds: float
    compiled: bool


@dataclass(slots=True)
class Figures:
    """Of one server."""

    start_s: float = 0.0
    rss_mb: float = 0.0
    work: list[dict[str, Any]] = field(default_factory=list)
    """Kinds of work: ``what``, ``per_second``, ``p50_ms``, ``p99_ms``, ``failed``, ``cpu_us``."""

    def as_dict(self) -> dict[str, Any]:
        return {"start_s": self.start_s, "rss_mb": self.rss_mb, "work": self.work}


def measure(plan: Plan, client: Path, servers: AbstractContextManager[Served], log: Path) -> Figures:
    """Start the servers, make the topics, and let the client work. Raises NotPossible."""
    found = Figures()
    with servers as served:
        found.start_s = served.start_s
        asyncio.run(_prepare(served.name_server))
        words = [served.endpoint, TOPIC, TRANSACTIONS, THREADS, BODY_BYTES, plan.warm_s, plan.seconds]
        command = java_command(client, [*CLIENT_HEAP, f"-Duser.home={log.parent}"], str(LOAD), *map(str, words))
        found.work = _played(command, CLIENT_LIMIT_S + KINDS * (plan.warm_s + plan.seconds), plan.seconds, served, log)
        found.rss_mb = served.rss_mb()
    return found


def _played(command: list[str], limit_s: float, seconds: float, served: Served, log: Path) -> list[dict[str, Any]]:
    """What the client says at the end of each kind of work, with the processor time of the servers for each message."""
    work, warm = [], 0.0
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as client,
    ):
        ends = threading.Timer(limit_s, client.kill)
        ends.start()
        try:
            for line in client.stdout or ():
                if line.startswith('{"warm"'):
                    warm = served.cpu_s()
                elif line.startswith("{"):
                    one = json.loads(line)
                    messages = max(1.0, one["per_second"] * seconds)
                    work.append({**one, "cpu_us": (served.cpu_s() - warm) / messages * 1e6})
        except BaseException:
            client.kill()
            raise
        finally:
            ends.cancel()
    if client.returncode or len(work) < KINDS:
        late = f" (after {limit_s:.0f} s it is killed)" if client.returncode == -signal.SIGKILL else ""
        raise NotPossible(f"the Java client ended with {client.returncode}{late}: {log.read_text()[-1500:]}")
    return work


async def _prepare(name_servers: str) -> None:
    async with Admin(name_servers) as admin:
        await admin.create_topic(TOPIC, queues=8, message_type="NORMAL")
        await admin.create_topic(TRANSACTIONS, queues=8, message_type="TRANSACTION")
        # Apache's proxy ends the stream of a consumer whose group does not exist.
        await admin.groups.put(GROUP, lambda now: now)


def compare(plan: Plan, root: Path, say: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Figures by set-up and server. Raises NotPossible."""
    server, client = libraries()
    environment = own_broker.compiled_environment(os.environ) if plan.compiled else own_broker.PURE_ENVIRONMENT
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    report: dict[str, dict[str, Any]] = {}
    for setup in plan.setups:
        cluster = setup == "cluster"
        kinds = {APACHE: partial(apache_servers, server, cluster=cluster), OURS: partial(our_servers, cluster=cluster)}
        report[setup] = {}
        for name, start in kinds.items():
            directory = root / f"{setup}-{name.split()[0]}"
            figures = measure(plan, client, start(directory), root / f"{directory.name}.client.log")
            report[setup][name] = figures.as_dict()
            counted = ", ".join(f"{one['what']} {one['per_second']:,.0f}/s" for one in figures.work)
            say(f"{setup}, {name}: up after {figures.start_s:.2f} s, {figures.rss_mb:.0f} MB; {counted}")
    return report


def rows(report: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    """Set-up, what, Apache, ours, ratio; ``!`` marks what misses its goal."""
    found: list[tuple[str, ...]] = []
    for setup, servers in report.items():
        theirs, ours = servers[APACHE], servers[OURS]
        for their, our in zip(theirs["work"], ours["work"], strict=True):
            found.append(_row(setup, f"{our['what']}: messages/s", "per_second", their, our))
            found.append(_row(setup, f"{our['what']}: p99 ms", "p99_ms", their, our))
            found.append(_row(setup, f"{our['what']}: server CPU us", "cpu_us", their, our))
            if their["failed"] or our["failed"]:
                found.append((setup, f"{our['what']}: failed calls", str(their["failed"]), str(our["failed"]), ""))
        found += [_row(setup, "memory MB", "rss_mb", theirs, ours), _row(setup, "start s", "start_s", theirs, ours)]
    return found


def _row(setup: str, what: str, key: str, theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[str, ...]:
    ratio = ours[key] / theirs[key] if theirs[key] else 0.0
    goal = GOALS.get(key)
    reached = goal is None or (ratio >= goal if key == "per_second" else ratio <= goal)
    form = {"per_second": ",.0f", "rss_mb": ",.0f", "cpu_us": ",.1f"}.get(key, ",.2f")
    return setup, what, format(theirs[key], form), format(ours[key], form), f"{ratio:.2f}{'' if reached else ' !'}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench grpc", description=__doc__)
    parser.add_argument("--setup", choices=("both", *SETUPS), default="both")
    parser.add_argument("--short", action="store_true", help="8 s of warming up and 10 s for each kind of work")
    parser.add_argument("--warm", type=float, help="seconds of warming up before each kind of work; default: 60")
    parser.add_argument("--seconds", type=float, help="seconds that count, of each kind; default: 30")
    parser.add_argument("--compiled", action="store_true", help="run our compiled core")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    chosen = parser.parse_args(arguments)
    plan = Plan(
        SETUPS if chosen.setup == "both" else (chosen.setup,),
        chosen.warm if chosen.warm is not None else 8 if chosen.short else 60,
        chosen.seconds if chosen.seconds is not None else 10 if chosen.short else 30,
        chosen.compiled,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end, too
    here = machine.description()
    console.print(f"{here['cpu']}, {here['nproc']} cores; at the start: {machine.calibrate()}", markup=False)
    try:
        with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
            report = compare(plan, Path(scratch), lambda line: console.print(line, markup=False))
    except NotPossible as error:
        console.print(f"bench grpc: {error}", markup=False)
        return 1
    table = Table(title=f"{THREADS} threads, {BODY_BYTES} B, {plan.warm_s:g} s warm, {plan.seconds:g} s measured")
    for title in ("set-up", "what", APACHE, OURS, "ratio"):
        table.add_column(title, justify="left" if title in ("set-up", "what") else "right")
    for row in rows(report):
        table.add_row(*row)
    console.print(table)
    console.print(f"at the end: {machine.calibrate()}; ! marks what misses its goal: {GOALS}", markup=False)
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2))
    return 0
