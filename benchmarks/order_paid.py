"""``order-paid`` while more and more orders are known: does a batch become slower, with a driver of little memory?

    python -m benchmarks.order_paid [--orders 300000] [--driver-memory 512m] [--batch 100000] [--json FILE]

Fills a topic, starts the job in a Spark session of its own, and processes everything in batches of equal size. The last
batch should take at most 1.5 times as long as the tenth, and a warm session (Spark was started on this machine a moment
ago) should be ready within 6 s. Broker, Spark and its Python workers share this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks import processes
from benchmarks.process_tree import descendants_cpu_s
from gantrymq import aio
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.job import Job
from gantrymq.spark.pipelines.ready_made.order_event import OrderPaid
from gantrymq.spark.pipelines.ready_made.order_paid import ORDER_TABLES, OrderPaidJob
from gantrymq.spark.pipelines.run import job_session, running
from gantrymq.spark.pipelines.run.progress_lines import ProgressLines
from gantrymq.spark.pipelines.run.running import Ending

TOPIC: Final = "orders-paid"
SENDERS, SEND_ROWS = 4, 400
FIRST_PAID_MS: Final = 1_767_225_600_000
TENTH: Final = 9
"""The number of the tenth batch."""
RATIO_GOAL, SESSION_GOAL_S = 1.5, 6.0
SESSION_ONLY: Final = "--session-only"


@dataclass(frozen=True, slots=True)
class Batch:
    """What Spark says about one micro-batch."""

    number: int
    rows: int
    seconds: float
    """From its planning to its commit."""
    cpu_s: float
    """Processor time of Spark and its Python processes since the batch before. It depends little on what else runs on
    the machine."""
    state_mb: float
    load: float
    """Of the machine, over the last minute."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    orders: int
    driver_memory: str
    session_s: float | None
    """From the start of a program until its session can be used; Spark ran on this machine a moment ago. None: it was
    not measured."""
    until_first_batch_s: float
    """From the start of the job in its session until its first batch was in the tables."""
    total_s: float
    batches: tuple[Batch, ...]

    @property
    def full(self) -> list[Batch]:
        """The batches that have about as many rows as the largest. Queues end at different offsets, so some rows may
        be missing."""
        most = max(batch.rows for batch in self.batches)
        return [batch for batch in self.batches if batch.rows >= 0.99 * most]

    @property
    def ratio(self) -> float | None:
        """The last full batch to the tenth. None: there are fewer than eleven."""
        return self.full[-1].seconds / self.full[TENTH].seconds if len(self.full) > TENTH + 1 else None

    def steady_ratio(self, name: str) -> float | None:
        """The median of the last five full batches to that of the five around the tenth, which one slow batch does not
        change. ``name``: ``seconds`` or ``cpu_s``. None: there are fewer than fifteen."""
        values = [getattr(batch, name) for batch in self.full]
        around = values[TENTH - 2 : TENTH + 3]
        return statistics.median(values[-5:]) / statistics.median(around) if len(values) >= 15 else None


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def fill(name_servers: str, orders: int) -> None:
    """Send so many paid orders, in batches."""
    left = iter(range(0, orders, SEND_ROWS))
    async with aio.Producer("bench", name_servers=name_servers, send_timeout_ms=20_000) as producer:

        async def sender() -> None:
            for start in left:
                numbers = range(start, min(start + SEND_ROWS, orders))
                events = (OrderPaid(f"o-{n:09}", f"u-{n % 99_991}", n % 50_000, FIRST_PAID_MS + n) for n in numbers)
                await producer.send_batch([aio.Message(TOPIC, event.to_body()) for event in events])

        await asyncio.gather(*(sender() for _ in range(SENDERS)))


def job_of(name_servers: str, directory: Path, batch: int, driver_memory: str) -> Job:
    job = OrderPaidJob(
        name_servers, TOPIC, str(directory / "tables"), str(directory / "checkpoint"), max_offsets_per_trigger=batch
    ).job
    return msgspec.structs.replace(job, run=msgspec.structs.replace(job.run, driver_memory=driver_memory))


def warm_session(job: Job) -> float:
    """How long a program needs until it has a session, the second time. Says how much processor time that is."""
    command = [sys.executable, "-m", "benchmarks.order_paid", SESSION_ONLY, job.run.driver_memory]
    taken = 0.0
    for _ in range(2):
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            said = program.stdout.readline().split()
            taken = time.perf_counter() - begin
            if said[:1] != ["ready"]:
                raise SystemExit("the session was not ready")
            say(f"a session was ready after {taken:.1f} s, with {said[1]} s of processor time")
    return taken


def only_session(driver_memory: str) -> None:
    """Start a session, say so, and end."""
    job = job_of("127.0.0.1:9876", Path("/nowhere"), 1, driver_memory)
    with job_session.session("order_paid benchmark", job.run) as spark:
        spark.range(1).count()
        print(f"ready {cpu_of_spark(spark.sparkContext._gateway.proc.pid):.2f}", flush=True)


def cpu_of_spark(jvm: int) -> float:
    """The processor seconds of this process, the JVM and the Python workers."""
    return time.process_time() + processes.cpu_s(jvm) + descendants_cpu_s(jvm)


def listener_of(batches: list[Batch], jvm: int) -> Any:
    """A listener of Spark that appends to ``batches``."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    used = [cpu_of_spark(jvm)]

    class Batches(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            """Nothing to note."""

        def onQueryProgress(self, event: Any) -> None:
            progress = json.loads(event.progress.json)
            if not progress["numInputRows"]:
                return
            state = sum(one["memoryUsedBytes"] for one in progress["stateOperators"])
            seconds = progress["durationMs"]["triggerExecution"] / 1000
            used.append(cpu_of_spark(jvm))
            batch = Batch(
                progress["batchId"], progress["numInputRows"], seconds, round(used[-1] - used[-2], 2),
                round(state / 1e6, 1), round(os.getloadavg()[0], 1),
            )  # fmt: skip
            batches.append(batch)
            say(
                f"batch {batch.number:3}: {batch.rows:,} rows in {batch.seconds:.2f} s   CPU {batch.cpu_s:.2f} s   "
                f"load {batch.load}"
            )

        def onQueryIdle(self, event: Any) -> None:
            """Nothing to note."""

        def onQueryTerminated(self, event: Any) -> None:
            """Nothing to note."""

    return Batches()


def measure(
    name_servers: str, directory: Path, orders: int, batch: int, driver_memory: str, *, sessions: bool
) -> Result:
    """Raises SystemExit when a table has not each order once."""
    begin = time.perf_counter()
    asyncio.run(fill(name_servers, orders))
    say(f"filled with {orders:,} orders in {time.perf_counter() - begin:.0f} s")
    job = job_of(name_servers, directory, batch, driver_memory)
    session_s = warm_session(job) if sessions else None
    if session_s is not None:
        say(f"a warm session was ready after {session_s:.1f} s (goal {SESSION_GOAL_S:.0f} s)")
    batches: list[Batch] = []
    first: list[float] = []

    def note(event: Mapping[str, Any]) -> None:
        if event["event"] == "batch" and not first:
            first.append(time.perf_counter() - begin)

    with job_session.session("order_paid benchmark", job.run) as spark:
        spark.streams.addListener(listener_of(batches, spark.sparkContext._gateway.proc.pid))
        begin = time.perf_counter()
        rows = running.process(spark, job, Ending(until_end=True), ProgressLines(None, note), OsDisk())
        total = time.perf_counter() - begin
        deadline = time.monotonic() + 10
        while sum(one.rows for one in batches) < orders and time.monotonic() < deadline:
            time.sleep(0.1)  # the listener is a thread of its own
    if rows != dict.fromkeys(ORDER_TABLES, orders) | {"dead_letters": 0}:
        raise SystemExit(f"the tables have {rows}, and not {orders} orders each")
    return Result(orders, driver_memory, session_s, first[0], total, tuple(sorted(batches, key=lambda one: one.number)))


def report(result: Result) -> None:
    rate = result.orders / result.total_s
    say(f"{result.orders:,} orders in {result.total_s:.0f} s ({rate:,.0f}/s); each table has each order once")
    say(f"from the start of the job until its first batch was in the tables: {result.until_first_batch_s:.1f} s")
    if result.ratio is None:
        say("there are too few batches to compare the last one with the tenth")
        return
    verdict = "reached" if result.ratio <= RATIO_GOAL else "NOT reached"
    say(f"last batch to tenth batch: {result.ratio:.2f} (goal {RATIO_GOAL}: {verdict})")
    for name, meaning in (("seconds", "elapsed"), ("cpu_s", "processor time")):
        steady = result.steady_ratio(name)
        if steady is not None:
            say(f"median of the last five to the median of the five around the tenth, {meaning}: {steady:.2f}")


def main() -> None:
    if sys.argv[1:2] == [SESSION_ONLY]:
        only_session(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=300_000)
    parser.add_argument("--driver-memory", default="512m", help="heap of Spark's JVM")
    parser.add_argument("--batch", type=int, default=100_000, help="orders in a batch")
    parser.add_argument("--no-sessions", action="store_true", help="do not measure how long a session takes to start")
    parser.add_argument("--json", type=Path, help="file for the result")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
        directory = Path(scratch)
        with processes.server(directory / "store", "async", directory / "server.log") as running_server:
            result = measure(
                running_server.name_server, directory, chosen.orders, chosen.batch, chosen.driver_memory,
                sessions=not chosen.no_sessions,
            )  # fmt: skip
    report(result)
    if chosen.json:
        text = {**asdict(result), "ratio": result.ratio}
        chosen.json.write_text(json.dumps(text, indent=2) + "\n")


if __name__ == "__main__":
    main()
