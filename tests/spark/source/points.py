"""The points at which a query that reads a topic can die, and a reader and tables that die there.

The query reads a topic with the source, and adds each batch to two tables under its number. The environment names one
point; in batch FAULTY it strikes once, and leaves a file as its mark. ``engine.py`` calls all of this without Spark,
``kill_spark.py`` gives it to Spark.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from gantrymq import Message, Producer
from gantrymq.admin.blocking import Admin
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.offsets import StreamOffset
from gantrymq.spark.pipelines.targets.parquet.tables import Table
from gantrymq.spark.source.stream import StreamReader
from tests.spark.pipelines.staged import added_to

TOPIC = "Read"
BATCHES, QUEUES, ROWS, FAULTY = 4, 2, 200, 2
"""Batches, queues of the topic, rows of a batch, the batch in which something strikes."""
OPTIONS = {
    "subscribe": TOPIC, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(ROWS), "minPartitions": str(QUEUES),
    "pullMaxRows": "30",
}  # fmt: skip
COLUMNS = ("queue_id", "queue_offset", "body")
SCHEMA = "queue_id int, queue_offset bigint, body binary"
TABLES = ("first", "second")
POINTS = (
    "kill before the end is stored",
    "kill before the tasks",
    "kill in a task",
    "raise in a task",
    "kill before the first table",
    "kill while a table is written",
    "kill between the tables",
    "raise between the tables",
    "kill after the last table",
)
IN_SPARK = (*POINTS, "kill a worker in a task", "kill when the source is told")
EXECUTOR = "kill an executor in a task"
"""Only where executors are processes: --master 'local-cluster[2,1,1024]'."""
POINT, DRIVER, MARK = "READ_POINT", "READ_DRIVER", "READ_MARK"


class Struck(Exception):
    """The step that raises."""


def strike(*points: str) -> None:
    """Die or raise, if the environment names one of these points and nothing has struck yet."""
    point, mark = os.environ.get(POINT, ""), Path(os.environ.get(MARK, ""))
    if point not in points or mark.exists():
        return
    mark.touch()
    if point.startswith("raise"):
        raise Struck(point)
    if point == EXECUTOR:
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    elif DRIVER in os.environ and not point.startswith("kill a worker"):
        os.killpg(int(os.environ[DRIVER]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class FaultyReader(StreamReader):
    """The reader of the source, which dies in batch FAULTY."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        end = super().latestOffset(start, limit)
        if rows_before(start) == FAULTY * ROWS:
            strike("kill before the end is stored")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if rows_before(start) == FAULTY * ROWS:
            strike("kill before the tasks")
        return super().partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part = partition.value[0]
        for batch in super().read(partition):
            yield batch
            if (part.queue.queue_id, part.begin) == (0, FAULTY * ROWS // QUEUES):
                strike("kill in a task", "raise in a task", "kill a worker in a task", EXECUTOR)

    def commit(self, end: dict[str, Any]) -> None:
        super().commit(end)
        if rows_before(end) == (FAULTY + 1) * ROWS:
            strike("kill when the source is told")


def rows_before(offset: Mapping[str, Any]) -> int:
    return sum(StreamOffset.from_json(offset).positions.values())


class FaultyDisk(OsDisk):
    """Dies before the rename that adds a file to a table."""

    def rename(self, source: str, target: str) -> None:
        strike("kill while a table is written")
        super().rename(source, target)


class FaultyTables:
    """Two tables that have each batch once, by its number."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, number: int, rows: pa.Table) -> None:
        faulty = number == FAULTY
        if faulty:
            strike("kill before the first table")
        for name in TABLES:
            added_to(self._table(name, faulty=faulty), "query", number, rows)
            if faulty and name == TABLES[0]:
                strike("kill between the tables", "raise between the tables")
        if faulty:
            strike("kill after the last table")

    def _table(self, name: str, *, faulty: bool = False) -> Table:
        return Table(str(self._directory / name), SCHEMA, FaultyDisk() if faulty else OsDisk())

    def verdicts(self, expected: list[str]) -> set[str]:
        """What is wrong in the tables; ``exactly once`` when they have each of these bodies once."""
        return {verdict_of(self.bodies(name), expected) for name in TABLES}

    def bodies(self, name: str) -> list[str]:
        files = self._table(name).files()
        return [body.decode() for file in files for body in pq.read_table(file)["body"].to_pylist()]


def verdict_of(found: list[str], expected: list[str]) -> str:
    counts, wanted = Counter(found), Counter(expected)
    missing, added = wanted - counts, counts - wanted
    return f"{missing.total()} missing, {added.total()} too many" if missing or added else "exactly once"


def make_topic(name_servers: str, topic: str = TOPIC, queues: int = QUEUES) -> None:
    with Admin(name_servers) as admin:
        admin.create_topic(topic, queues)


def fill(name_servers: str, topic: str, rows: int, mark: str = "row", padding: int = 0) -> list[str]:
    """Send ``rows`` messages, an equal number to each queue. Returns their bodies."""
    bodies: list[str] = []
    with Producer("fill", name_servers=name_servers) as producer:
        queues = sorted(producer.queues(topic))
        for number, queue in enumerate(queues):
            mine = [f"{mark} {queue.queue_id} {row}".ljust(padding) for row in range(number, rows, len(queues))]
            producer.send_batches([Message(topic, body) for body in mine], queue)
            bodies += mine
    return bodies
