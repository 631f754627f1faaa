"""The job ``archive``: everything in some topics, in Parquet directories by topic and day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from gantrymq.runtime.disk import Disk, read_whole
from gantrymq.spark.pipelines.job import Body, Job, ParquetTarget, Run
from gantrymq.spark.pipelines.tables import Table, description_of
from gantrymq.spark.pipelines.targets.parquet import NO_VALUE
from gantrymq.spark.rows import SPARK_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

TABLE = "messages"
PARTITION_BY = ("topic", "day")


def archive_job(name_servers: str, topics: str, out: str, checkpoint: str, run: Run | None = None) -> Job:
    """The job that archives ``topics`` (names separated by ``,``) with all columns and properties.

    ``out`` then has ``topic=orders/day=2026-01-31/``; the day is the one of storing, in UTC. A message is there once.
    """
    return Job(
        name="archive",
        checkpoint=checkpoint,
        source={"nameServers": name_servers, "subscribe": topics, "columns": ",".join(SPARK_TYPES)},
        body=Body(format="none"),
        targets={
            TABLE: ParquetTarget(
                path=out,
                sql="SELECT *, date_format(store_timestamp, 'yyyy-MM-dd') AS day FROM events",
                partition_by=PARTITION_BY,
            )
        },
        run=run or Run(),
    )


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """One file of an archive, with the values that are in the names of its directories."""

    path: str
    topic: str
    day: str


def files_of(archive: str, disk: Disk) -> Iterator[ArchiveFile]:
    """The files of an archive by topic and day, those of one day in the order in which they were written. Each message
    is in one of them, also while the archive is written."""
    for topic in _directories(archive, "topic", disk):
        for day in _directories(f"{archive}/topic={topic}", "day", disk):
            path = f"{archive}/topic={topic}/day={day}"
            description = description_of(path, disk)
            for file in Table(path, description.schema, disk).files() if description else ():
                yield ArchiveFile(file, _value(topic), _value(day))


def rows_of(file: ArchiveFile, disk: Disk) -> pa.Table:
    """The messages of one file, each queue in its order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(pa.BufferReader(read_whole(disk, file.path)))
    keys: Any = [(name, "ascending") for name in ("broker_name", "queue_id", "queue_offset")]
    return rows.sort_by(keys)


def _directories(path: str, name: str, disk: Disk) -> list[str]:
    return [one.removeprefix(f"{name}=") for one in disk.list(path) if one.startswith(f"{name}=")]


def _value(text: str) -> str:
    return "" if text == NO_VALUE else unquote(text)
