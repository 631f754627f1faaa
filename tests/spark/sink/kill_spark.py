"""Real Spark, killed with SIGKILL at each point between two steps of the sink, and started again.

    python -m tests.spark.sink.kill_spark [POINT ...] [--keep-going]

For each point it starts a broker and a stream of 4 batches in 2 tasks, kills the driver, its JVM and its workers (or an
executor, or raises an error) in batch 2, starts the stream again with the same checkpoint, and counts every row. It
takes about half a minute for each point, so it is no part of the test suite; ``test_faults.py`` has the same points
without Spark.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from gantrymq.message.transaction import Resolution
from gantrymq.spark.data_source import RocketMQDataSource
from gantrymq.spark.sink.exactly_once import Commit
from gantrymq.spark.sink.options import parse_sink_options
from gantrymq.spark.sink.writers import StreamWriter, stream_writer
from tests.kill.server import Server
from tests.spark.sink.topics import bodies

TOPIC = "Killed"
BATCHES, ROWS, FAULTY = 4, 200, 2
POINTS = (
    "kill in a task",
    "kill a worker in a task",
    "raise in a task",
    "kill before the decision",
    "kill after the decision",
    "raise after the decision",
    "kill between the ends",
    "raise between the ends",
    "kill after the last end",
)
EXECUTOR = "kill an executor in a task"
"""Only where executors are processes: --master 'local-cluster[2,1,1024]'."""
POINT, DRIVER, MARK = "KILL_SPARK_POINT", "KILL_SPARK_DRIVER", "KILL_SPARK_MARK"
WAIT_S = 300


def strike(point: str) -> None:
    """Once: the mark is a file."""
    mark = Path(os.environ[MARK])
    if mark.exists():
        return
    mark.touch()
    if point.startswith("raise"):
        raise RuntimeError(f"as asked for: {point}")
    if point == EXECUTOR:
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    elif not point.startswith("kill a worker"):
        os.killpg(int(os.environ[DRIVER]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class KilledWriter(StreamWriter):
    """The writer of the sink, which dies at the point that the environment names."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = 0 if context is None else int(context.getLocalProperty("streaming.sql.batchId") or 0)
        point = os.environ[POINT] if batch == FAULTY else ""
        return super().write(self._dying(iterator, point))

    @staticmethod
    def _dying(iterator: Iterator[Any], point: str) -> Iterator[Any]:
        for batch in iterator:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if "in a task" in point:
                strike(point)
            yield batch.slice(half)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        point = os.environ[POINT] if batchId == FAULTY else ""
        original = Commit.decide, Commit.end, Commit.note_end

        def decide(self: Commit, sent: Any) -> Any:
            if "before the decision" in point:
                strike(point)
            found = original[0](self, sent)
            if "after the decision" in point:
                strike(point)
            return found

        def end(self: Commit, winners: Any, resolution: Resolution) -> None:
            if resolution is Resolution.COMMIT and "between the ends" in point:
                original[1](self, winners[:1], resolution)
                strike(point)
            original[1](self, winners, resolution)

        def note_end(self: Commit, of: Any) -> None:
            if "after the last end" in point:
                strike(point)
            original[2](self, of)

        Commit.decide, Commit.end, Commit.note_end = decide, end, note_end  # type: ignore[method-assign]
        try:
            super().commit(messages, batchId)
        finally:
            Commit.decide, Commit.end, Commit.note_end = original  # type: ignore[method-assign]


class KilledSink(RocketMQDataSource):
    """The format ``rocketmq-killed``."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        settings = parse_sink_options(self.options)
        writer = stream_writer(settings, schema)
        return KilledWriter(settings, writer._columns)


def drive(name_servers: str, directory: Path, master: str) -> None:
    """The driver: write what is not written yet, then end."""
    from gantrymq.spark import spark_session
    from gantrymq.spark.session.session import SHORT_JOBS

    os.environ[DRIVER] = str(os.getpgid(0))
    spark = spark_session("kill_spark", master=master, conf=SHORT_JOBS)
    spark.dataSource.register(KilledSink)
    query = (
        spark.readStream.schema("body string").option("maxFilesPerTrigger", 2).format("text")
        .load(str(directory / "source")).writeStream.format("rocketmq-killed")
        .options(nameServers=name_servers, topic=TOPIC, batchMaxRows="7")
        .option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def fill(directory: Path) -> list[str]:
    """Two files for each batch. Returns all rows."""
    rows = [f"{batch}-{row}" for batch in range(BATCHES) for row in range(ROWS)]
    source = directory / "source"
    source.mkdir()
    for number in range(2 * BATCHES):
        part = rows[number * ROWS // 2 : (number + 1) * ROWS // 2]
        (source / f"{number}.txt").write_text("\n".join(part) + "\n")
        os.utime(source / f"{number}.txt", (1_700_000_000 + number, 1_700_000_000 + number))
    return rows


def run_point(point: str, master: str) -> str:
    """What became of the rows."""
    with tempfile.TemporaryDirectory(prefix="kill-spark-", ignore_cleanup_errors=True) as root:
        directory = Path(root)
        rows = fill(directory)
        server = Server(directory / "server", "ASYNC_FLUSH")
        server.start()
        try:
            environment = {**os.environ, POINT: point, MARK: str(directory / "mark")}
            command = [sys.executable, "-m", __spec__.name, "--drive", server.name_servers, root, "--master", master]
            codes = []
            for _ in range(2):
                with (directory / "driver.log").open("ab") as log:
                    run = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
                    codes.append(run.wait(WAIT_S))
            if not (directory / "mark").exists():
                return "the point was not reached\n" + (directory / "driver.log").read_text()[-3000:]
            found = Counter(bodies(server.name_servers, TOPIC))
            missing, doubled = [row for row in rows if not found[row]], [row for row in found if found[row] > 1]
            verdict = (
                "exactly once" if not missing and not doubled else f"{len(missing)} missing, {len(doubled)} doubled"
            )
            return f"{verdict} (exit codes {codes[0]}, {codes[1]})"
        finally:
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", nargs="*", help=f"which points; default: all of {', '.join(POINTS)}")
    parser.add_argument("--master", default="local[2,2]", help="the second number allows a task to be tried again")
    parser.add_argument("--drive", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.drive:
        # Pickled by name, and not with this module as __main__.
        from tests.spark.sink import kill_spark

        kill_spark.drive(chosen.drive[0], Path(chosen.drive[1]), chosen.master)
        return
    for point in chosen.points or POINTS:
        begin = time.monotonic()
        print(f"{point:28} {run_point(point, chosen.master)}   {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
