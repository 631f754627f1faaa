"""``python -m benchmarks``: messages per second and latencies, for both flush modes, with a ratio to a bare peer.

Absolute figures depend on the machine. So every row also has the ratio to the same client with a process that answers
at once and stores nothing (``benchmarks/bare_peer.py``), measured in the same run. ``python -m benchmarks apache``
compares with Apache's broker instead. ``python -m benchmarks open-transactions`` shows how costs grow with the number
of open transactions, ``python -m benchmarks recovery`` how long messages of a killed producer are delayed, ``python -m
benchmarks grpc`` compares with Apache's proxy under the Java client of RocketMQ 5, and ``python -m benchmarks
consistency`` compares four ways to change a database and tell other services.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks import load, processes
from benchmarks.load import Rate
from benchmarks.processes import Running

SIZES_BYTES = (128, 2048)
WIDTHS = (1, 32, 64)
FLUSHES = ("sync", "async")
FLOORS = {
    ("plain", "async", 128, 64): 20_000,
    ("transaction", "sync", 2048, 32): 5_000,
    ("push", "async", 128, 0): 40_000,
}
"""The messages per second that the first release must reach, by (operation, flush, bytes, requests in flight)."""
ATTEMPTS = 3
"""Rows with a floor are measured this often, and the best result is shown: the speed of a shared machine changes by a
factor of two within a minute, and only the best result shows what the program can do. The JSON report has all."""

console = Console()
Row = dict[str, Any]


def operations(width: int, quick: bool) -> int:
    """The number of operations of a row: enough for a few seconds with each number of requests in flight."""
    full = {1: 4_000, 32: 40_000, 64: 60_000}[width]
    return full // 10 if quick else full


def measure(work: Coroutine[Any, Any, Rate]) -> Rate:
    rate: Rate = uvloop.run(work)
    return rate


def machine_speed() -> float:
    """Million rounds of an empty loop per second. With it, figures of different moments can be compared."""
    rounds = 400_000
    started = time.perf_counter()
    for _ in range(rounds):
        pass
    return rounds / (time.perf_counter() - started) / 1e6


def row(what: str, flush: str, size: int, width: int, rate: Rate, **more: object) -> Row:
    found: Row = {"what": what, "flush": flush, "bytes": size, "in_flight": width, **dataclasses.asdict(rate), **more}
    found["floor"] = FLOORS.get((what, flush, size, width))
    found["machine_speed"] = round(machine_speed(), 1)
    line = f"{what} {flush} {size} B, {width} in flight" if width else f"{what} {flush} {size} B"
    console.print(f"  {line}: {rate.per_second:,.0f}/s  p50 {rate.p50_ms:.2f} ms  p99 {rate.p99_ms:.2f} ms")
    return found


def bare(quick: bool, log: Path) -> dict[tuple[int, int], Rate]:
    """The rates of the bare peer by (bytes, in flight)."""
    console.print("[bold]bare peer[/] (answers at once, stores nothing)")
    rates = {}
    with processes.bare_peer(log) as peer:
        for size in SIZES_BYTES:
            for width in WIDTHS:
                total = operations(width, quick)
                rates[size, width] = measure(load.plain_send(peer.name_server, "Bare", size, width, total))
                row("bare", "none", size, width, rates[size, width])
    return rates


def broker_rows(running: Running, flush: str, quick: bool) -> list[Row]:
    """All rows of one flush mode against one broker."""
    rows: list[Row] = []
    kinds: dict[str, Callable[..., Coroutine[Any, Any, Rate]]] = {
        "plain": load.plain_send,
        "transaction": load.transaction,
    }
    for size in SIZES_BYTES:
        for kind, work in kinds.items():
            for width in WIDTHS:
                total = operations(width, quick) // (2 if kind == "transaction" else 1)
                topic = f"Bench_{kind}_{size}_{width}"
                tries: list[tuple[Rate, float]] = []
                for _ in range(ATTEMPTS if (kind, flush, size, width) in FLOORS else 1):
                    before = running.cpu_s()
                    rate = measure(work(running.name_server, topic, size, width, total))
                    cost = (running.cpu_s() - before) / (total * (1 + load.WARM_UP)) * 1e6
                    tries.append((rate, round(cost, 1)))
                rate, cost = max(tries, key=lambda found: found[0].per_second)
                attempts = [round(found.per_second) for found, _ in tries]
                rows.append(row(kind, flush, size, width, rate, broker_cpu_us=cost, attempts=attempts))
        backlog = f"Bench_plain_{size}_64"
        held = next(
            r["operations"] for r in rows if r["what"] == "plain" and r["bytes"] == size and r["in_flight"] == 64
        )
        rows.append(row("pull", flush, size, 0, measure(load.pull(running.name_server, backlog))))
        rows.append(row("push", flush, size, 0, measure(load.push(running.name_server, backlog, held))))
    return rows


def profile(running: Running, log: Path, seconds: int) -> str:
    """Where the broker spends its time with 64 plain sends in flight, sampled by py-spy. If py-spy is missing, a text
    that says so."""
    target = log.parent / "profile.txt"
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        "record",
        "-p",
        str(running.pid),
        "-d",
        str(seconds),
        "-r",
        "200",
        "-f",
        "raw",
        "-o",
        str(target),
    ]
    try:
        sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except FileNotFoundError:
        return "no profile: py-spy is not installed"
    measure(load.plain_send(running.name_server, "Bench_profile", 128, 64, 15_000 * seconds))
    _, complaint = sampler.communicate(timeout=60)
    if sampler.returncode != 0 or not target.exists():
        return f"no profile: py-spy said {complaint.decode(errors='replace').strip()[-300:]}"
    return heaviest(target.read_text())


def heaviest(folded: str, count: int = 18) -> str:
    """The functions with the most samples of their own, from py-spy's folded stacks."""
    own: dict[str, int] = {}
    total = 0
    for line in folded.splitlines():
        stack, _, samples = line.rpartition(" ")
        leaf = stack.rsplit(";", 1)[-1]
        if leaf.startswith("_sync_all "):  # the flush thread, waiting for work
            continue
        own[leaf] = own.get(leaf, 0) + int(samples)
        total += int(samples)
    ranked = sorted(own.items(), key=lambda item: -item[1])[:count]
    return "\n".join(f"{samples / max(total, 1):6.1%}  {name}" for name, samples in ranked)


def show(rows: list[Row], peers: dict[tuple[int, int], Rate]) -> None:
    table = Table(title="GantryMQ; ratio: to the bare peer of the same run; speed: of the machine, Mrounds/s")
    titles = (
        "what",
        "flush",
        "bytes",
        "in flight",
        "per second",
        "p50 ms",
        "p99 ms",
        "us/op",
        "ratio",
        "speed",
        "floor",
    )
    for title in titles:
        table.add_column(title, justify="left" if title in ("what", "flush") else "right")
    for found in rows:
        peer = peers.get((found["bytes"], found["in_flight"]))
        ratio = f"{found['per_second'] / peer.per_second:.2f}" if peer else ""
        floor = found["floor"]
        verdict = "" if floor is None else f"{floor:,} {'reached' if found['per_second'] >= floor else 'MISSED'}"
        latencies = [f"{found[key]:.2f}" if found[key] else "" for key in ("p50_ms", "p99_ms")]
        cost = str(found.get("broker_cpu_us", ""))
        width = str(found["in_flight"] or "")
        table.add_row(
            found["what"],
            found["flush"],
            str(found["bytes"]),
            width,
            f"{found['per_second']:,.0f}",
            *latencies,
            cost,
            ratio,
            str(found["machine_speed"]),
            verdict,
        )
    console.print(table)


def run(quick: bool, spark: bool) -> dict[str, Any]:
    rows: list[Row] = []
    report: dict[str, Any] = {"start_s": {}, "rss_mb_before_first_message": {}, "rss_mb_after": {}, "profile": {}}
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        log = Path(scratch) / "server.log"
        peers = bare(quick, log)
        for flush in FLUSHES:
            with processes.server(Path(scratch) / flush, flush, log) as running:
                console.print(f"[bold]gantry server, {flush.upper()}_FLUSH[/]: up after {running.start_s:.2f} s")
                report["start_s"][flush] = round(running.start_s, 3)
                report["rss_mb_before_first_message"][flush] = round(running.rss_mb(), 1)
                rows += broker_rows(running, flush, quick)
                report["rss_mb_after"][flush] = round(running.rss_mb(), 1)
                report["profile"][flush] = profile(running, log, 2 if quick else 5)
    if spark:
        report["spark"] = spark_source(quick)
    report["bare"] = {f"{size} B, {width} in flight": dataclasses.asdict(rate) for (size, width), rate in peers.items()}
    report["rows"] = rows
    show(rows, peers)
    return report


def spark_source(quick: bool) -> object:
    console.print("[bold]Spark source[/]")
    command = [sys.executable, "-m", "benchmarks.spark_source", "--json", "-", *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return {"error": f"exit status {done.returncode}"}
    result: object = json.loads(done.stdout)
    console.print(result)
    return result


def main() -> None:
    if sys.argv[1:2] == ["apache"]:
        from benchmarks import side_by_side

        sys.exit(side_by_side.main(sys.argv[2:]))
    if sys.argv[1:2] == ["open-transactions"]:
        from benchmarks import open_transactions

        sys.exit(open_transactions.main(sys.argv[2:]))
    if sys.argv[1:2] == ["recovery"]:
        from benchmarks import recovery

        sys.exit(recovery.main(sys.argv[2:]))
    if sys.argv[1:2] == ["grpc"]:
        from benchmarks import grpc_side_by_side

        sys.exit(grpc_side_by_side.main(sys.argv[2:]))
    if sys.argv[1:2] == ["consistency"]:
        from benchmarks.consistency import main as consistency

        sys.exit(consistency.main(sys.argv[2:]))
    arguments = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a tenth of the messages; figures are rough")
    arguments.add_argument("--no-spark", action="store_true", help="leave the Spark source out")
    arguments.add_argument("--json", type=Path, help="write everything measured to this file")
    chosen = arguments.parse_args()
    report = run(chosen.quick, not chosen.no_spark)
    for key in ("start_s", "rss_mb_before_first_message", "rss_mb_after"):
        console.print(f"{key}: {report[key]}")
    for flush, text in report["profile"].items():
        console.print(f"[bold]where the broker's time goes, plain 128 B, 64 in flight, {flush}[/] (own time)\n{text}")
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
