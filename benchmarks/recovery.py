"""``python -m benchmarks recovery``: how long it takes after the death of a producer until its committed messages are
delivered.

A producer (a process with GantryMQ's client) has sent half messages whose local transactions are committed, and gets a
SIGKILL before it sends the commits. The broker checks them with a sibling, another process of the group, which answers
COMMIT. A consumer with long polling records when each message arrives. Both brokers run with their default settings (an
immunity of 6 s; Apache's checks every 30 s). They run one after the other, because Apache's 5.5.0 keeps a core busy.
The producers are killed at random moments from the seed, spread over the 30 s.

``plain``: the sibling has an ordinary checker. ``decisive``: its checker claims transactions that it does not find, and
the GantryMQ broker calls it as soon as the connections of the killed producer are closed. Apache's broker does not know
decisive checkers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import apache, own_broker
from benchmarks.apache import NotPossible
from benchmarks.processes import Running
from benchmarks.recovery_roles import TOPIC
from gantrymq.aio import Admin, MessageQueue, PullConsumer

IMMUNITY_S = 6.0
"""transactionTimeOut, of both brokers."""
INTERVAL_S = 30.0
"""transactionCheckInterval of both brokers. The deaths are spread over it, and a lost check delays a message by it."""
GIVE_UP_S = IMMUNITY_S + 3 * INTERVAL_S
CLOCK_STEP_S = 0.002
"""Store times are whole milliseconds."""
QUEUES = 4
GOALS_S = {"plain": IMMUNITY_S + 0.1, "decisive": 1.0}
"""The goals for p99 of GantryMQ, counted from the kill (plain: from the store time of the half message, which is a
little earlier)."""
CASES = (("Apache 5.5.0", "plain"), ("GantryMQ", "plain"), ("GantryMQ", "decisive"))

NARROWEST = 125
"""The number of columns that the table needs."""
console = Console()
if console.width < NARROWEST:
    console.width = NARROWEST


@dataclass(slots=True)
class Case:
    """The observations of one broker with one kind of half message. All times are monotonic seconds."""

    broker: str
    kind: str
    stored: dict[str, float] = field(default_factory=dict)
    killed: dict[str, float] = field(default_factory=dict)
    checked: dict[str, float] = field(default_factory=dict)
    """When the sibling got the first check."""
    delivered: dict[str, float] = field(default_factory=dict)
    times_delivered: int = 0
    load: list[float] = field(default_factory=list)
    """Load average of the machine before and after."""

    def from_kill(self) -> list[float]:
        return [self.delivered[name] - self.killed[name] for name in self.killed if name in self.delivered]

    def from_storing(self) -> list[float]:
        return [self.delivered[name] - self.stored[name] for name in self.killed if name in self.delivered]

    def too_early(self) -> int:
        """Checks during the immunity of half messages whose sender was alive, or whose checkers are not decisive."""
        early = 0
        for name, at in self.checked.items():
            immune = at < self.stored[name] + IMMUNITY_S - CLOCK_STEP_S
            early += immune and (self.kind == "plain" or at < self.killed[name])
        return early

    def figures(self) -> dict[str, Any]:
        found = {"broker": self.broker, "kind": self.kind, "halves": len(self.killed), "load": self.load}
        found["lost"] = len(self.killed.keys() - self.delivered.keys())
        found["doubled"] = self.times_delivered - len(self.delivered)
        found["checks_too_early"] = self.too_early()
        for name, times in (("from_kill_s", self.from_kill()), ("from_storing_s", self.from_storing())):
            found[name] = {share: round(value, 3) for share, value in spread(times).items()}
        found["samples_from_kill_s"] = [round(value, 3) for value in self.from_kill()]
        return found


def spread(times: Iterable[float]) -> dict[str, float]:
    """Minimum, p50, p99 and maximum of the times; empty when there are none."""
    ordered = sorted(times)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {"min": ordered[0], "p50": ordered[last // 2], "p99": ordered[round(last * 0.99)], "max": ordered[last]}


@contextlib.asynccontextmanager
async def role(log: Path, *arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader]]:
    """A process of ``recovery_roles`` and its output. It is killed when the block ends."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.recovery_roles", *arguments, stdout=asyncio.subprocess.PIPE, stderr=errors
        )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def lines(output: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The JSON lines of a process, until it ends."""
    while line := await output.readline():
        yield json.loads(line)


async def consume(case: Case, consumer: PullConsumer, queue: MessageQueue, delivered: Callable[[], None]) -> None:
    offset = await consumer.max_offset(queue)
    while True:
        found = await consumer.pull(queue, offset, wait_ms=10_000)
        now = time.monotonic()
        for message in found.messages:
            case.delivered.setdefault(message.body.decode(), now)
            case.times_delivered += 1
        offset = found.next_offset
        delivered()


async def kill_one(
    case: Case, log: Path, name_server: str, group: str, halves: int, delays: tuple[float, float]
) -> None:
    """Start a producer after the first delay, and kill it the second delay after its half messages are stored."""
    await asyncio.sleep(delays[0])
    async with role(log, "victim", name_server, case.kind, group, str(halves)) as (process, output):
        stored: dict[str, float] = {}
        async for line in lines(output):
            if "ready" in line:
                break
            stored[line["stored"]] = line["at"]
        if len(stored) < halves:
            raise NotPossible(f"a producer did not store its halves; its output:\n{log.read_text()[-2000:]}")
        await asyncio.sleep(delays[1])
        case.stored.update({name: at for name, at in stored.items() if name not in case.checked})
        case.killed.update(dict.fromkeys(stored, time.monotonic()))
        process.send_signal(signal.SIGKILL)


async def measure(case: Case, running: Running, log: Path, kills: int, halves: int, rng: random.Random) -> None:
    """Measure one case."""
    async with Admin(name_servers=running.name_server) as admin:
        await admin.create_topic(TOPIC, QUEUES)
    groups = [f"{case.kind}-{number}" for number in range(kills)]
    case.load.append(round(os.getloadavg()[0], 1))
    news = asyncio.Event()
    async with (
        PullConsumer(name_servers=running.name_server) as consumer,
        role(log, "sibling", running.name_server, case.kind, *groups) as (_, output),
    ):
        said = lines(output)
        await anext(said)

        async def listen() -> None:
            async for line in said:
                name = line["checked"]
                if name not in case.checked:  # later checks may be about a copy
                    case.checked[name], case.stored[name] = line["at"], line["stored"]

        queues = await consumer.queues(TOPIC)
        tasks = [asyncio.create_task(consume(case, consumer, queue, news.set)) for queue in queues]
        tasks.append(asyncio.create_task(listen()))
        delays = [(INTERVAL_S * (number + rng.random()) / kills, rng.uniform(0.0, 0.2)) for number in range(kills)]
        try:
            await asyncio.gather(
                *(kill_one(case, log, running.name_server, group, halves, delay)
                  for group, delay in zip(groups, delays, strict=True))
            )  # fmt: skip
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GIVE_UP_S):
                    while case.delivered.keys() < case.killed.keys():
                        news.clear()
                        await news.wait()
            await asyncio.sleep(0.5)  # a second delivery would have arrived by then
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    case.load.append(round(os.getloadavg()[0], 1))


def play(case: Case, scratch: Path, kills: int, halves: int, seed: int) -> None:
    directory = scratch / f"{case.broker.split()[0]}-{case.kind}"
    running = (
        own_broker.gantry(directory, "sync")
        if case.broker == "GantryMQ"
        else apache.broker(apache.jars(), directory, "sync")
    )
    console.print(f"[bold]{case.broker}, {case.kind}[/]: {kills} kills of producers with {halves} halves each")
    with running as broker:
        uvloop.run(measure(case, broker, directory / "roles.log", kills, halves, random.Random(seed)))


def show(cases: list[dict[str, Any]]) -> None:
    table = Table(title="Seconds from SIGKILL of the producer to the delivery of its message")
    for title in ("broker", "halves", "samples", "min", "p50", "p99", "max", "p99 from storing", "too early", "lost",
                  "load", "goal"):  # fmt: skip
        table.add_column(title, justify="left" if title in ("broker", "halves") else "right")
    for case in cases:
        killed, stored = case["from_kill_s"], case["from_storing_s"]
        goal = ""
        if case["broker"] == "GantryMQ":
            limit = GOALS_S[case["kind"]]
            reached = (stored if case["kind"] == "plain" else killed).get("p99", GIVE_UP_S) <= limit
            goal = f"{limit:g} {'reached' if reached and not case['lost'] else 'MISSED'}"
        times = [f"{killed.get(share, float('nan')):.2f}" for share in ("min", "p50", "p99", "max")]
        table.add_row(
            case["broker"], case["kind"], str(case["halves"]), *times, f"{stored.get('p99', float('nan')):.2f}",
            str(case["checks_too_early"]), str(case["lost"]), "-".join(map(str, case["load"])), goal,
        )  # fmt: skip
    console.print(table)
    console.print(
        f"The goal for plain halves is the immunity ({IMMUNITY_S:g} s after the storing) and 0.1 s, for decisive ones "
        "1 s after the kill, p99 each. Too early: checks while the sender was alive and within the immunity."
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench recovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("ours", "apache", "plain", "decisive"), help="a part of the cases")
    parser.add_argument("--kills", type=int, default=15, help="producers that are killed, for each case")
    parser.add_argument("--halves", type=int, default=10, help="half messages that each of them holds")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the deaths")
    parser.add_argument("--json", type=Path, help="write everything measured to this file, after every case")
    parser.add_argument("--dir", type=Path, help="where stores are made (and removed); default: a temporary directory")
    chosen = parser.parse_args(arguments)
    names = {"ours": "GantryMQ", "apache": "Apache 5.5.0"}
    wanted = [Case(*case) for case in CASES if chosen.only is None or names.get(chosen.only, chosen.only) in case]
    report: list[dict[str, Any]] = []
    try:
        with tempfile.TemporaryDirectory(prefix="gantry-bench-", dir=chosen.dir) as scratch:
            for case in wanted:
                play(case, Path(scratch), chosen.kills, chosen.halves, chosen.seed)
                report.append({"seed": chosen.seed, "kills": chosen.kills, **case.figures()})
                if chosen.json:
                    chosen.json.write_text(json.dumps(report, indent=2))
    except NotPossible as error:
        console.print(f"bench recovery: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; this is what was measured until then")
    show(report)
    return 0
