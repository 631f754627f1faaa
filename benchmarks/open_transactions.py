"""``python -m benchmarks open-transactions``: the resources that a broker needs with 10^3 to 10^6 open transactions.

For each number a broker is started, filled over a socket, and measured from outside. The figures are: memory, CPU per
half message and per transaction, time to start after SIGKILL and after an orderly stop, time until a producer that
answers UNKNOWN got a check for every transaction, and how much the checks added to the log. The producer answers its
checks. Otherwise the broker would send it 1,000 at a time, because clients drop further checks (hole X6).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import growth_plot, processes
from benchmarks.half_peer import HalfPeer, Place
from benchmarks.processes import Running

NUMBERS = (1_000, 10_000, 100_000, 1_000_000)
BODY_BYTES = 512
ROUNDS = 5
"""Rounds of the commit measurement; the median counts."""
PER_ROUND = 2_000
NO_CHECKS_MS = 24 * 3600 * 1000
KEPT_PLACES = 10_000
NARROWEST = 190
"""The number of columns that the table needs."""
CHECK_LIMIT_S = 900.0

console = Console()
if console.width < NARROWEST:
    console.width = NARROWEST


@dataclass(slots=True)
class Figures:
    """The figures for one number of open transactions."""

    open: int
    halves_per_second: float = 0.0
    cpu_us_per_half: float = 0.0
    memory_bytes_per_open: float = 0.0
    """Growth of the resident memory during the filling, divided by the number; not meaningful for small numbers."""
    cpu_us_per_transaction: float = 0.0
    """CPU of a half message and its commit, while the others are open; median of the rounds."""
    slowest_commit_ms: float = 0.0
    cpu_us_per_old_commit: float = 0.0
    """CPU of the commit of a half message that was stored before the broker started."""
    start_empty_s: float = 0.0
    start_after_kill_s: float = 0.0
    start_after_kill_cpu_s: float = 0.0
    """CPU of that start, which does not depend on how busy the machine is."""
    start_after_stop_s: float = 0.0
    start_after_stop_cpu_s: float = 0.0
    stop_s: float = 0.0
    memory_bytes_per_open_restarted: float = 0.0
    asked_s: float = 0.0
    """Time from the producer's heartbeat until it got a check for every open transaction."""
    cpu_us_per_check: float = 0.0
    log_bytes_per_check: float = 0.0
    private_file_bytes: int = 0


def settings(directory: Path, name: str, immunity_ms: int) -> Path:
    """Write a broker.conf. ``immunity_ms`` determines whether checks happen during the measurement."""
    target = directory / name
    target.write_text(f"transactionTimeOut={immunity_ms}\ntransactionCheckInterval=600000\n")
    return target


def run(coroutine: Awaitable[object]) -> object:
    async def inner() -> object:
        return await coroutine

    return uvloop.run(inner())


def memory(running: Running) -> float:
    """Resident memory that is not backed by files, in bytes."""
    return running.anonymous_mb() * 2**20


def kill(running: Running) -> None:
    os.kill(running.pid, signal.SIGKILL)


async def fill(running: Running, number: int, figures: Figures) -> list[Place]:
    before, begun = running.cpu_exact_s(), time.monotonic()
    async with HalfPeer(running.broker, BODY_BYTES) as peer:
        places = await peer.send_halves(number, keep=KEPT_PLACES)
    figures.halves_per_second = number / (time.monotonic() - begun)
    figures.cpu_us_per_half = (running.cpu_exact_s() - before) / number * 1e6
    return places


async def transactions(running: Running, figures: Figures) -> None:
    """Send half messages and commit them at once, while the others stay open."""
    costs = []
    async with HalfPeer(running.broker, BODY_BYTES) as peer:
        await peer.transactions(PER_ROUND)
        peer.slowest_s = 0.0
        for _ in range(ROUNDS):
            before = running.cpu_exact_s()
            await peer.transactions(PER_ROUND)
            costs.append((running.cpu_exact_s() - before) / PER_ROUND * 1e6)
    figures.cpu_us_per_transaction = statistics.median(costs)
    figures.slowest_commit_ms = peer.slowest_s * 1000


async def old_commits(running: Running, places: list[Place], figures: Figures) -> None:
    async with HalfPeer(running.broker, BODY_BYTES) as peer:
        await peer.heartbeat()
        before = running.cpu_exact_s()
        await peer.commit(places)
    figures.cpu_us_per_old_commit = (running.cpu_exact_s() - before) / len(places) * 1e6


async def checks(running: Running, number: int, figures: Figures) -> None:
    async with HalfPeer(running.broker, BODY_BYTES) as peer:
        before, log_before, begun = running.cpu_exact_s(), await peer.log_end(), time.monotonic()
        await peer.heartbeat()
        await asyncio.wait_for(peer.asked_about(number), CHECK_LIMIT_S)
        figures.asked_s = time.monotonic() - begun
        figures.cpu_us_per_check = (running.cpu_exact_s() - before) / number * 1e6
        figures.log_bytes_per_check = (await peer.log_end() - log_before) / number


def measure(number: int, scratch: Path) -> Figures:
    """Measure all figures for one number of open transactions, and stop everything that was started."""
    figures = Figures(number)
    store, log = scratch / f"store{number}", scratch / "server.log"
    quiet = settings(scratch, "quiet.conf", NO_CHECKS_MS)
    asking = settings(scratch, "asking.conf", 1000)
    with processes.server(store, "sync", log, config=quiet) as running:
        figures.start_empty_s = running.start_s
        empty = memory(running)
        places: list[Place] = run(fill(running, number, figures))  # type: ignore[assignment]
        figures.memory_bytes_per_open = (memory(running) - empty) / number
        run(transactions(running, figures))
        kill(running)
    with processes.server(store, "sync", log, config=quiet) as running:
        figures.start_after_kill_s = running.start_s
        figures.start_after_kill_cpu_s = running.cpu_exact_s()
        stopped = time.monotonic()
    figures.stop_s = time.monotonic() - stopped
    with processes.server(store, "sync", log, config=quiet) as running:
        figures.start_after_stop_s = running.start_s
        figures.start_after_stop_cpu_s = running.cpu_exact_s()
        figures.memory_bytes_per_open_restarted = (memory(running) - empty) / number
        ended = random.Random(number).sample(places, min(len(places), number) // 10)
        run(old_commits(running, ended, figures))
    with processes.server(store, "sync", log, config=asking) as running:
        run(checks(running, number - len(ended), figures))
    figures.private_file_bytes = sum(file.stat().st_size for file in (store / "gantry").rglob("*") if file.is_file())
    return figures


COLUMNS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("open", lambda f: f"{f.open:,}"),
    ("halves/s", lambda f: f"{f.halves_per_second:,.0f}"),
    ("us CPU/half", lambda f: f"{f.cpu_us_per_half:.1f}"),
    ("bytes each", lambda f: f"{f.memory_bytes_per_open:,.0f}"),
    ("restarted", lambda f: f"{f.memory_bytes_per_open_restarted:,.0f}"),
    ("us/transaction", lambda f: f"{f.cpu_us_per_transaction:.1f}"),
    ("slowest ms", lambda f: f"{f.slowest_commit_ms:.0f}"),
    ("us/old commit", lambda f: f"{f.cpu_us_per_old_commit:.1f}"),
    ("start: empty s", lambda f: f"{f.start_empty_s:.2f}"),
    ("killed s", lambda f: f"{f.start_after_kill_s:.2f}"),
    ("stopped s", lambda f: f"{f.start_after_stop_s:.2f}"),
    ("CPU s", lambda f: f"{f.start_after_kill_cpu_s:.2f} {f.start_after_stop_cpu_s:.2f}"),
    ("stop s", lambda f: f"{f.stop_s:.2f}"),
    ("all asked s", lambda f: f"{f.asked_s:.2f}"),
    ("us/check", lambda f: f"{f.cpu_us_per_check:.1f}"),
    ("log bytes/check", lambda f: f"{f.log_bytes_per_check:.1f}"),
)


def show(measured: Iterable[Figures]) -> None:
    table = Table(title="What open transactions cost")
    for title, _ in COLUMNS:
        table.add_column(title, justify="right")
    for figures in measured:
        table.add_row(*(text(figures) for _, text in COLUMNS))
    console.print(table)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks open-transactions", description=__doc__)
    parser.add_argument("--numbers", type=int, nargs="+", default=list(NUMBERS), help="of open transactions")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--svg", type=Path, help="draw them into this file (docs/open-transactions.svg)")
    parser.add_argument("--scratch", type=Path, help="directory for the stores (about 1.1 GB for 10^6)")
    chosen = parser.parse_args(arguments)
    measured: list[Figures] = []
    for number in chosen.numbers:
        with tempfile.TemporaryDirectory(prefix="gantry-open-", dir=chosen.scratch) as scratch:
            measured.append(measure(number, Path(scratch)))
        show(measured[-1:])
    show(measured)
    rows = [asdict(figures) for figures in measured]
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=2) + "\n")
    if chosen.svg:
        chosen.svg.write_text(growth_plot.draw(rows))
    return 0
