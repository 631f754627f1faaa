"""What a topic over several brokers gives to several tasks of Spark, measured here, and by a model beyond this machine.

    python -m benchmarks.scale [--messages 400000] [--json FILE] [--svg FILE]
    python -m benchmarks.scale --from FILE --svg docs/scale.svg       # draws figures of an earlier run

Brokers, Spark and its Python workers share this machine, so the rates of a run are limited by its cores. What is used
beyond it is the processor time of a row in brokers, Python workers and the JVM, and the time that planning takes for
each queue and each batch. Figures of the model are called so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks import scale_plot
from benchmarks.process_tree import descendants_cpu_s
from benchmarks.processes import cpu_s
from benchmarks.scale_model import Cluster, Costs, Planning, forecast, line
from gantrymq import Admin, PullConsumer, aio

BROKERS, TASKS = (1, 2), (1, 2)
QUEUES: Final = 8
"""Of the topic, over all brokers."""
PLANNED_QUEUES: Final = (8, 64, 256)
SMALL_BATCHES: Final = 12
SMALL_ROWS: Final = 256
COLUMNS: Final = "topic,queue_id,queue_offset,body,born_timestamp"
SEND_ROWS: Final = 400
READ, LEAST, EXACTLY = "read", "write, at_least_once", "write, exactly_once"
MODELED: Final = (READ, LEAST)
"""With exactly_once, one process of the driver also ends all half messages of a batch; the model lacks that."""
SHARE: Final = {READ: 1.0, LEAST: 0.25, EXACTLY: 0.1}
"""How many rows of those that are read are written."""


@dataclass(frozen=True, slots=True)
class Point:
    """The best of some rounds."""

    way: str
    brokers: int
    tasks: int
    rows_per_second: float
    broker_us: float
    python_us: float
    jvm_us: float
    load: float
    """Of the machine, over the last minute."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that one run has measured, and what the model makes of it."""

    cores: int
    body_bytes: int
    points: tuple[Point, ...]
    costs: dict[str, Costs]
    """By way, over all points."""
    plan_ms: dict[int, float]
    """By number of queues: asking brokers for the beginning and the end of each."""
    batch_ms: dict[int, float]
    """By number of queues: a micro-batch with almost no rows."""
    planning: Planning
    efficiency: dict[str, float]
    """By way: measured rates of this machine, divided by those of the model with efficiency 1."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Brokers:
    """A running name server with brokers."""

    name_servers: str
    pid: int
    """The process of the server: with one broker everything, else the parent of all."""

    def cpu_s(self) -> float:
        return cpu_s(self.pid) + descendants_cpu_s(self.pid)


@contextlib.contextmanager
def server(directory: Path, brokers: int) -> Iterator[Brokers]:
    """``gantry server`` with so many brokers, each a process."""
    command = [sys.executable, "-m", "gantrymq.cli.main", "server", "--store", str(directory), "--flush", "async"]
    command += ["--listen-port", "0", "--name-server-port", "0", *(("--brokers", str(brokers)) if brokers > 1 else ())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            for said in process.stdout:
                if found := re.search(r"name server (\S+:\d+)", said):
                    yield Brokers(found[1], process.pid)
                    return
            raise SystemExit(f"the server ended with status {process.wait()}")
        finally:
            process.terminate()


def make_topic(name_servers: str, topic: str, queues: int, brokers: int) -> None:
    with Admin(name_servers=name_servers) as admin:
        admin.create_topic(topic, queues // brokers)
    with PullConsumer(name_servers=name_servers) as consumer:
        there = len(consumer.queues(topic))
    if there != queues:
        raise SystemExit(f"the topic {topic} has {there} queues instead of {queues}")


async def fill(name_servers: str, topic: str, messages: int, body_bytes: int, rows: int = SEND_ROWS) -> None:
    body = b"x" * body_bytes
    async with aio.Producer("bench", name_servers=name_servers, send_timeout_ms=20_000) as producer:
        for start in range(0, messages, rows):
            await producer.send_batch([aio.Message(topic, body) for _ in range(min(rows, messages - start))])


class Spark:
    """A session with so many tasks at a time, and the processor time of its processes."""

    def __init__(self, tasks: int) -> None:
        from gantrymq.spark import spark_session

        self.session = spark_session("scale benchmark", master=f"local[{tasks}]")
        self._jvm: int = self.session.sparkContext._gateway.proc.pid

    def cpu_s(self) -> tuple[float, float]:
        """Of the Python workers, and of the JVM."""
        return descendants_cpu_s(self._jvm), cpu_s(self._jvm)


def measured(
    way: str, brokers: Brokers, count: int, spark: Spark, rows: int, rounds: int, work: Callable[[int], None]
) -> Point:
    """The best of ``rounds`` after one that does not count."""
    best: Point | None = None
    for turn in range(rounds + 1):
        before, (python, jvm), begin = brokers.cpu_s(), spark.cpu_s(), time.perf_counter()
        work(turn)
        seconds = time.perf_counter() - begin
        python_after, jvm_after = spark.cpu_s()
        costs = [cpu / rows * 1e6 for cpu in (brokers.cpu_s() - before, python_after - python, jvm_after - jvm)]
        tasks = spark.session.sparkContext.defaultParallelism
        point = Point(way, count, tasks, rows / seconds, costs[0], costs[1], costs[2], os.getloadavg()[0])
        if turn and (best is None or point.rows_per_second > best.rows_per_second):
            best = point
    assert best is not None
    say(
        f"{way:22} {best.brokers} brokers {best.tasks} tasks {best.rows_per_second:>10,.0f} rows/s   us/row: broker "
        f"{best.broker_us:.1f}, Python {best.python_us:.1f}, JVM {best.jvm_us:.1f}   load {best.load:.1f}"
    )
    return best


def rates(directory: Path, messages: int, body_bytes: int, rounds: int) -> Iterator[Point]:
    """Every way, with every number of brokers and tasks."""
    for count in BROKERS:
        with server(directory / f"store-{count}", count) as brokers:
            make_topic(brokers.name_servers, "Scale", QUEUES, count)
            uvloop.run(fill(brokers.name_servers, "Scale", messages, body_bytes))
            for tasks in TASKS:
                spark = Spark(tasks)
                try:
                    yield from ways(brokers, count, spark, messages, body_bytes, rounds)
                finally:
                    spark.session.stop()


def ways(brokers: Brokers, count: int, spark: Spark, messages: int, body_bytes: int, rounds: int) -> Iterator[Point]:
    servers = brokers.name_servers

    def read(_: int) -> None:
        options = {"nameServers": servers, "subscribe": "Scale", "columns": COLUMNS}
        spark.session.read.format("rocketmq").options(**options).load().write.format("noop").mode("overwrite").save()

    yield measured(READ, brokers, count, spark, messages, rounds, read)
    for way in (LEAST, EXACTLY):
        rows = int(messages * SHARE[way])
        frame = spark.session.range(0, rows, 1, 2).selectExpr(f"CAST(rpad(id, {body_bytes}, 'x') AS BINARY) AS body")
        frame = frame.cache()
        frame.count()
        guarantee = way.removeprefix("write, ")
        topics = [
            f"Written-{guarantee}-{spark.session.sparkContext.defaultParallelism}-{turn}" for turn in range(rounds + 1)
        ]
        for topic in topics:
            make_topic(servers, topic, QUEUES, count)

        def write(turn: int, frame: Any = frame, guarantee: str = guarantee, topics: list[str] = topics) -> None:
            options = {"nameServers": servers, "topic": topics[turn], "deliveryGuarantee": guarantee}
            frame.write.format("rocketmq").mode("append").options(**options).save()

        yield measured(way, brokers, count, spark, rows, rounds, write)
        frame.unpersist()


def planned(directory: Path, body_bytes: int) -> tuple[float, dict[int, float], dict[int, float]]:
    """The bytes of a row on the network; and by number of queues the milliseconds of asking about all of them, and of a
    micro-batch with few rows."""
    from gantrymq.spark.options.bounds import Edge
    from gantrymq.spark.options.settings import parse_options
    from gantrymq.spark.source.tasks import new_planner

    asked, small = {}, {}
    with server(directory / "store-planning", 1) as brokers:
        spark = Spark(2)
        try:
            for queues in PLANNED_QUEUES:
                topic = f"Planned-{queues}"
                make_topic(brokers.name_servers, topic, queues, 1)
                # Each request goes to the next queue, so all have messages.
                uvloop.run(fill(brokers.name_servers, topic, SMALL_BATCHES * SMALL_ROWS, body_bytes, rows=8))
                options = {"nameServers": brokers.name_servers, "subscribe": topic}
                times = []
                for _ in range(5):
                    planner = new_planner(parse_options(options))
                    begin = time.perf_counter()
                    for edge in (Edge.EARLIEST, Edge.LATEST):
                        planner.edge(edge, planner.queues())
                    times.append((time.perf_counter() - begin) * 1000)
                asked[queues] = statistics.median(times)
                small[queues] = small_batches(spark.session, options, directory / f"checkpoint-{queues}")
                say(f"{queues} queues: asked in {asked[queues]:.1f} ms; a small batch takes {small[queues]:.0f} ms")
            return record_bytes(brokers.name_servers, topic), asked, small
        finally:
            spark.session.stop()


def record_bytes(name_servers: str, topic: str) -> float:
    """The bytes of a message in the answer to a pull."""
    with PullConsumer(name_servers=name_servers) as consumer:
        answer = consumer.pull_raw(consumer.queues(topic)[0], 0, 8, 4 << 20)
        return len(answer.data) / answer.next_offset


def small_batches(session: Any, options: dict[str, str], checkpoint: Path) -> float:
    """The median time of a micro-batch, in milliseconds."""
    chosen = {**options, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(SMALL_ROWS), "columns": COLUMNS}
    stream = session.readStream.format("rocketmq").options(**chosen).load()
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    taken = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
    return float(statistics.median(taken[1:]))


def figures_of(
    points: list[Point], body_bytes: int, wire_bytes: float, asked: dict[int, float], small: dict[int, float]
) -> Figures:
    """Fit the model. A cost is the median over the points, as is the efficiency, measured to computed rates."""
    cores = len(os.sched_getaffinity(0))
    fixed, slope = line([(float(queues), value) for queues, value in small.items()])
    planning = Planning(max(fixed, 0.0), max(slope, 0.0))
    costs, efficiency = {}, {}
    for way in SHARE:
        some = [point for point in points if point.way == way]
        middles = [
            statistics.median(getattr(point, name) for point in some) for name in ("broker_us", "python_us", "jvm_us")
        ]
        costs[way] = Costs(middles[0], middles[1], middles[2], wire_bytes)
        shares = [point.rows_per_second / here(costs[way], point, cores) for point in some]
        efficiency[way] = statistics.median(shares)
    return Figures(cores, body_bytes, tuple(points), costs, asked, small, planning, efficiency)


def here(costs: Costs, point: Point, cores: int) -> float:
    """The rate of the model for a point of this machine. A batch is planned once, so planning does not count."""
    cluster = Cluster(point.brokers, point.tasks, shared_cores=cores)
    return forecast(costs, Planning(0, 0), cluster).rows_per_second


def report(figures: Figures) -> None:
    for way, costs in figures.costs.items():
        say(
            f"{way}: us of a row: broker {costs.broker_us:.2f}, Python {costs.python_us:.2f}, JVM {costs.jvm_us:.2f}; "
            f"{costs.wire_bytes:.0f} bytes on the wire; efficiency {figures.efficiency[way]:.2f}"
        )
        for point in (one for one in figures.points if one.way == way):
            model = here(costs, point, figures.cores)
            say(
                f"    {point.brokers} brokers {point.tasks} tasks: measured {point.rows_per_second:,.0f}/s, model with "
                f"efficiency 1 {model:,.0f}/s ({point.rows_per_second / model:.2f})"
            )
    plan = figures.planning
    say(f"a micro-batch: {plan.batch_ms:.0f} ms and {plan.queue_ms:.2f} ms for each queue")
    for way in MODELED:
        for brokers, cores in ((1, 4), (2, 8), (4, 16), (8, 32), (16, 64), (64, 64)):
            found = forecast(figures.costs[way], plan, Cluster(brokers, cores), figures.efficiency[way])
            rate = f"{found.rows_per_second:,.0f} rows/s, limit: {found.limit}"
            say(f"model, {way}: {brokers} brokers, {cores} tasks: {rate}")


def loaded(text: str) -> Figures:
    """The figures in a JSON file of an earlier run."""
    tree = json.loads(text)
    return Figures(
        tree["cores"], tree["body_bytes"], tuple(Point(**one) for one in tree["points"]),
        {way: Costs(**one) for way, one in tree["costs"].items()},
        {int(queues): value for queues, value in tree["plan_ms"].items()},
        {int(queues): value for queues, value in tree["batch_ms"].items()},
        Planning(**tree["planning"]), tree["efficiency"],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--body-bytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="the best round counts")
    parser.add_argument("--from", dest="earlier", type=Path, help="measure nothing: use the figures of this file")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--svg", type=Path, help="file for the picture")
    chosen = parser.parse_args()
    if chosen.earlier:
        figures = loaded(chosen.earlier.read_text())
        wire = figures.costs[READ].wire_bytes
        figures = figures_of(list(figures.points), figures.body_bytes, wire, figures.plan_ms, figures.batch_ms)
    else:
        with tempfile.TemporaryDirectory(prefix="gantry-bench-") as scratch:
            points = list(rates(Path(scratch), chosen.messages, chosen.body_bytes, chosen.rounds))
            figures = figures_of(points, chosen.body_bytes, *planned(Path(scratch), chosen.body_bytes))
    report(figures)
    if chosen.json:
        chosen.json.write_text(json.dumps(asdict(figures), indent=2) + "\n")
    if chosen.svg:
        costs = {way: figures.costs[way] for way in MODELED}
        chosen.svg.write_text(scale_plot.draw(figures.points, costs, figures.planning, figures.efficiency))


if __name__ == "__main__":
    main()
