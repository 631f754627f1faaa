"""``python -m benchmarks apache``: Apache's broker and ours under the same load, in turns, as ratios.

The load is Apache's own benchmark programs (with binary headers, as they are, and with JSON headers) and our client,
which has as many processes as the JVM has cores here, two. Both brokers live all the time with the same settings; a row
is measured on one and then on the other, as often as there are turns, and its figures are the medians. Each pair of
flush mode and body size begins with empty stores, each kind with a turn that is not counted: JVMs compile what is hot.

Whoever is not measured is stopped (SIGSTOP), and transactions come last: Apache's 5.5.0 burns a core when it is idle
after it has ended one, in the thread that writes op messages. That would take half of two cores from us, and from its
own plain sends.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import contextlib
import json
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

import gantrymq
from benchmarks import apache, load, processes, ratios
from benchmarks.apache import SECONDS_PER_LINE, Jars, NotPossible
from benchmarks.processes import START_LIMIT_S, Running
from gantrymq.aio import Admin, Message, Producer, TransactionProducer
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError

NARROWEST = 170
"""Columns the table needs."""
console = Console()
if console.width < NARROWEST:
    console.width = NARROWEST
TOPIC_QUEUES = 8
OWN_PROCESSES = 2
OWN_START_S = 1.0
"""About what its processes need to be there."""
OWN_WARM_UP_S = 1.5
OWN_SHARE = 0.3
"""Our client needs no time to compile: so much of a turn of Apache's programs is enough for it."""
WARM_UP_THREADS = 32
NAMES = ("Apache", "GantryMQ")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result: which client does what, how."""

    client: str
    """``java`` (binary headers), ``json`` (the same with JSON headers), ``ours``."""
    kind: str
    flush: str
    size: int
    threads: int

    def words(self) -> set[str]:
        core = {"core"} if self in CORE else set()
        return {self.client, self.kind, self.flush, str(self.size), f"{self.threads}t"} | core

    def __str__(self) -> str:
        return f"{self.client} {self.kind} {self.flush} {self.size} B, {self.threads} threads"


@dataclass(frozen=True, slots=True)
class Figures:
    """One turn of a row on one broker."""

    per_second: float
    average_ms: float
    max_ms: float
    broker_cpu_us: float
    """Processor time of the broker per message, microseconds."""
    failed: int


def all_rows() -> list[Row]:
    rows = []
    for flush in ("async", "sync"):
        for size in (128, 2048):
            for client in ("java", "json", "ours"):
                for kind in ("plain", "transaction"):
                    for threads in (1, 32, 64) if client != "json" else (32,):
                        rows.append(Row(client, kind, flush, size, threads))
            rows.append(Row("java", "consume", flush, size, 32))
    return rows


CORE = {
    *(Row("java", "plain", "async", 128, threads) for threads in (1, 32, 64)),
    *(Row("java", "plain", "sync", 128, threads) for threads in (32, 64)),
    *(Row("java", "transaction", flush, 2048, 32) for flush in ("async", "sync")),
    Row("json", "plain", "async", 128, 32),
    Row("json", "transaction", "async", 2048, 32),
    Row("java", "consume", "async", 128, 32),
    Row("ours", "plain", "async", 128, 64),
    Row("ours", "transaction", "async", 2048, 32),
}
"""What ``--only core`` measures."""


def chosen_rows(only: list[str]) -> list[Row]:
    """The rows of which some text of ``only`` names all words; all rows for an empty list."""
    rows = all_rows()
    known = set().union(*(row.words() for row in rows))
    for text in only:
        for word in text.split():
            if word not in known:
                raise NotPossible(f"--only: {word!r} names nothing; the words are {', '.join(sorted(known))}")
    return [row for row in rows if not only or any(set(text.split()) <= row.words() for text in only)]


@contextlib.contextmanager
def gantry(directory: Path, flush: str) -> Iterator[Running]:
    """Our name server and broker, each a process; ``Running`` tells of the broker alone."""
    directory.mkdir(parents=True)
    # As pip does when it installs, and as Apache's jars come. Where PYTHONDONTWRITEBYTECODE is set each start would
    # compile all that it loads: 0.25 s.
    compileall.compile_dir(Path(gantrymq.__file__).parent, quiet=1)
    log = directory / "output.log"
    command = [sys.executable, "-m", "gantrymq.cli.main"]
    name_port, broker_port = free_port(), free_port()
    options = ["--listen-port", str(name_port), "--log-level", "warning"]
    with apache.child([*command, "nameserver", *options], log) as name_server:
        processes.await_route(name_port, name_server, time.monotonic(), log, expect=None)
        conf = apache.broker_conf(directory, flush, f"127.0.0.1:{name_port}", broker_port)
        started = time.monotonic()
        with apache.child([*command, "broker", "-c", str(conf), "--log-level", "warning"], log) as process:
            processes.await_route(name_port, process, started, log)
            yield Running(f"127.0.0.1:{name_port}", process.pid, time.monotonic() - started)


async def _make_topic(name_server: str, topic: str) -> None:
    async with Admin(name_servers=name_server) as admin:
        await admin.create_topic(topic, TOPIC_QUEUES)


def turn(row: Row, running: Running, lib: Jars, directory: Path, seconds: int) -> Figures:
    """Measure one row on one broker; once more, and saying so, when that gave nothing."""
    figures = _turn(row, running, lib, directory, seconds)
    if figures.per_second == 0:
        console.print(f"  {row}: nothing arrived in this turn, it is repeated.", markup=False)
        if row.client != "ours":
            console.print(f"  The Java clients' last complaints so far:\n{apache.complaints(directory)}", markup=False)
        figures = _turn(row, running, lib, directory, seconds)
    return figures


def _turn(row: Row, running: Running, lib: Jars, directory: Path, seconds: int) -> Figures:
    topic = f"{row.client}_{row.kind}_{row.size}_{row.threads}"
    if row.client == "ours":
        return own_turn(row, running, topic, max(2.0, seconds * OWN_SHARE))
    # A consumer begins at the end of the topic: its first report is about nothing.
    lines = seconds // SECONDS_PER_LINE + (row.kind == "consume")
    # A producer feeds the consumer that is measured.
    kinds = ("consume", "plain") if row.kind == "consume" else (row.kind,)
    with contextlib.ExitStack() as stack:
        before = running.cpu_s()
        outputs = [
            stack.enter_context(
                apache.client(lib, kind, running, topic, row.size, row.threads, directory, json=row.client == "json")
            )
            for kind in kinds
        ]
        found = apache.follow(row.kind, outputs[0], running, lines)
    last = found[-1]
    if lines > 1:
        elapsed, cpu = last.at - found[-2].at, last.broker_cpu_s - found[-2].broker_cpu_s
    else:
        elapsed, cpu = SECONDS_PER_LINE, last.broker_cpu_s - before
    messages = max(1.0, elapsed * last.per_second)
    return Figures(last.per_second, last.average_ms, last.max_ms, cpu / messages * 1e6, last.failed)


def own_turn(row: Row, running: Running, topic: str, seconds: float) -> Figures:
    """The same by our client: a process of Python has one core, a JVM all of them, so it gets OWN_PROCESSES."""
    count = min(OWN_PROCESSES, row.threads)
    context = multiprocessing.get_context("spawn")
    ready, shares = context.Barrier(count + 1), context.SimpleQueue()
    share = (row.kind, running.name_server, topic, row.size, row.threads // count, seconds)
    children = [context.Process(target=own_share, args=(*share, ready, shares), daemon=True) for _ in range(count)]
    for child in children:
        child.start()
    ready.wait(START_LIMIT_S)
    time.sleep(OWN_WARM_UP_S)
    cpu = running.cpu_s()
    time.sleep(seconds)
    cpu = running.cpu_s() - cpu
    found: list[tuple[list[float], int]] = [shares.get() for _ in children]
    for child in children:
        child.join()
    taken = [each for times, _ in found for each in times]
    messages = max(1, len(taken))
    return Figures(
        per_second=len(taken) / seconds,
        average_ms=sum(taken) / messages * 1000,
        max_ms=max(taken, default=0.0) * 1000,
        broker_cpu_us=cpu / messages * 1e6,
        failed=sum(failed for _, failed in found),
    )


def own_share(
    kind: str, name_server: str, topic: str, size: int, width: int, seconds: float, ready: Barrier,
    shares: SimpleQueue[tuple[list[float], int]],
) -> None:  # fmt: skip
    """One process of our client: puts (seconds of each operation after the warm-up, failures) into ``shares``."""
    shares.put(uvloop.run(_own_share(kind, name_server, Message(topic, b"x" * size), width, seconds, ready)))


async def _own_share(
    kind: str, name_server: str, message: Message, width: int, seconds: float, ready: Barrier
) -> tuple[list[float], int]:
    producer: Producer | TransactionProducer
    if kind == "plain":
        producer = Producer("bench-producer", name_servers=name_server)
    else:
        producer = TransactionProducer("bench-tx", name_servers=name_server, listener=load.Commit())
    send: Callable[[Message], Awaitable[object]] = (
        producer.send_in_transaction if isinstance(producer, TransactionProducer) else producer.send
    )
    clock = time.perf_counter
    taken: list[float] = []
    failed = 0

    async def worker(begin: float, end: float) -> None:
        nonlocal failed
        while (begun := clock()) < end:
            try:
                await send(Message(message.topic, message.body))
                if begin <= (now := clock()) < end:
                    taken.append(now - begun)
            except GantryError:
                failed += 1

    async with producer:
        await send(Message(message.topic, message.body))
        ready.wait(START_LIMIT_S)
        begin = clock() + OWN_WARM_UP_S
        await asyncio.gather(*(worker(begin, begin + seconds) for _ in range(width)))
    return taken, failed


def compare(rows: list[Row], lib: Jars, scratch: Path, seconds: int, turns: int, save: Callable[[], None],
            report: dict[str, Any]) -> None:  # fmt: skip
    """Measure ``rows`` into ``report``, calling ``save`` whenever something was added."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.flush, row.size), []).append(row)
    begun, done = time.monotonic(), 0
    for (flush, size), members in groups.items():
        directory = scratch / f"{flush}-{size}"
        with contextlib.ExitStack() as stack:
            started = {
                "Apache": stack.enter_context(apache.broker(lib, directory / "apache", flush)),
                "GantryMQ": stack.enter_context(gantry(directory / "gantry", flush)),
            }
            sizes = {name: size_of(running) for name, running in started.items()}
            console.print(f"[bold]{flush.upper()}_FLUSH, {size} B[/]: both brokers are up")
            topics = {f"{row.client}_{row.kind}_{row.size}_{row.threads}" for row in members} | {"warm_up"}
            for running in started.values():
                for topic in sorted(topics):
                    uvloop.run(_make_topic(running.name_server, topic))
            warm: set[str] = set()
            # Transactions last: what they leave running in Apache's broker is not for the others to pay.
            for row in sorted(members, key=lambda row: row.kind == "transaction"):
                if row.kind not in warm and row.kind != "consume":
                    warm_up(row, started, lib, directory, seconds)
                    warm.add(row.kind)
                measured: dict[str, list[Figures]] = {name: [] for name in NAMES}
                for number in range(turns):
                    # Whoever was last is first: what the machine does in the meantime shall hit both.
                    for name in NAMES if number % 2 == 0 else NAMES[::-1]:
                        with processes.paused(started[other(name)]):
                            measured[name].append(turn(row, started[name], lib, directory, seconds))
                done += 1
                report["rows"].append({**asdict(row), **{n: [asdict(f) for f in fs] for n, fs in measured.items()}})
                save()
                tell(row, measured, done, len(rows), begun)
            report["processes"].append(
                {"flush": flush, "bytes": size, **{n: sizes[n] | _after(r) for n, r in started.items()}}
            )
            save()
        shutil.rmtree(directory, ignore_errors=True)


def other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


def warm_up(row: Row, started: dict[str, Running], lib: Jars, directory: Path, seconds: int) -> None:
    """A turn of this kind on both brokers that is not counted."""
    for name, running in started.items():
        with (
            processes.paused(started[other(name)]),
            apache.client(
                lib, row.kind, running, "warm_up", row.size, WARM_UP_THREADS, directory, json=False
            ) as output,
        ):
            apache.follow(row.kind, output, running, max(1, seconds // SECONDS_PER_LINE - 1))
    console.print(f"  warmed up: {row.kind}")


def size_of(running: Running) -> dict[str, float]:
    time.sleep(2)  # what a start leaves to be done in the background
    return {"start_s": running.start_s, "rss_mb": running.rss_mb(), "anonymous_mb": running.anonymous_mb()}


def _after(running: Running) -> dict[str, float]:
    return {"rss_mb_after": running.rss_mb(), "anonymous_mb_after": running.anonymous_mb()}


def tell(row: Row, measured: dict[str, list[Figures]], done: int, rows: int, begun: float) -> None:
    """Progress: this row, and how long the others will take."""
    left = (time.monotonic() - begun) / done * (rows - done) / 60

    def middle(figures: list[Figures]) -> float:
        return statistics.median(each.per_second for each in figures)

    rates = ", ".join(f"{name} {middle(figures):,.0f}/s" for name, figures in measured.items())
    console.print(f"  {done}/{rows} {row}: {rates}; about {left:.0f} min left")


def show(report: dict[str, Any]) -> None:
    """The rows and the processes; what misses its goal is marked."""
    console.print(ratios.table(report))
    for line in (ratios.LEGEND, *ratios.sizes(report)):
        console.print(line, markup=False)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench apache", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORDS",
        help="rows with all these words, e.g. 'java plain async 128'; may be given again. 'core': the ones goals are "
             "about. Threads are 1t, 32t, 64t",
    )  # fmt: skip
    parser.add_argument("--seconds", type=int, default=20, help="length of a turn: 10 (not warm), 20, 30, ...")
    parser.add_argument("--turns", type=int, default=3, help="how often each row is measured on each broker")
    parser.add_argument("--json", type=Path, help="write everything measured to this file, after every row")
    parser.add_argument("--markdown", type=Path, help="write the ratios to this file, as a table in Markdown")
    parser.add_argument(
        "--cache", type=Path, default=Path(__file__).parents[1] / ".interop", help="where jars are kept"
    )
    parser.add_argument("--dir", type=Path, help="where stores are made (and removed); default: a temporary directory")
    parser.add_argument("--list", action="store_true", help="say which rows would be measured, and how long it takes")
    chosen = parser.parse_args(arguments)
    report: dict[str, Any] = {"seconds": chosen.seconds, "turns": chosen.turns, "rows": [], "processes": []}

    def save() -> None:
        if chosen.json:
            chosen.json.write_text(json.dumps(report, indent=2))

    try:
        rows = chosen_rows(chosen.only)
        java = sum(row.client != "ours" for row in rows) * (chosen.seconds + 2)
        own = sum(row.client == "ours" for row in rows) * (chosen.seconds * OWN_SHARE + OWN_START_S + OWN_WARM_UP_S)
        minutes = ((java + own) * 2 * chosen.turns + 100 * len({(row.flush, row.size) for row in rows})) / 60
        console.print(f"{len(rows)} rows, {chosen.turns} turns each: about {minutes:.0f} minutes")
        if chosen.list:
            for row in rows:
                console.print(f"  {row}")
            return 0
        if chosen.seconds < SECONDS_PER_LINE:
            raise NotPossible(f"--seconds: Apache's programs say something every {SECONDS_PER_LINE} seconds only")
        lib = apache.jars()
        with tempfile.TemporaryDirectory(prefix="gantry-bench-", dir=chosen.dir) as scratch:
            compare(rows, lib, Path(scratch), chosen.seconds, chosen.turns, save, report)
    except NotPossible as error:
        console.print(f"bench apache: {error}", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; this is what was measured until then")
    if report["rows"]:
        show(report)
        if chosen.markdown:
            chosen.markdown.write_text(ratios.markdown(report))
    return 0
