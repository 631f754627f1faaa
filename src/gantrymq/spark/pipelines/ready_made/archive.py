"""The job ``archive``: everything in some topics, in Parquet directories by topic and day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk
from gantrymq.spark.columns.rows import SPARK_TYPES
from gantrymq.spark.pipelines.describe.addresses import absolute_place
from gantrymq.spark.pipelines.job import Body, Job, ParquetTarget, Run
from gantrymq.spark.pipelines.targets.object_stores import disk_of
from gantrymq.spark.pipelines.targets.parquet.tables import Table, description_of, directory_text, values_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "messages"
PARTITION_BY = ("topic", "day")
KEY = ("broker_name", "queue_id", "queue_offset", "store_timestamp")
"""What names a message within its topic and day. The time is part of it: offsets begin again at 0 in a topic that was
deleted and made again."""


def archive_job(name_servers: str, topics: str, out: str, checkpoint: str, run: Run | None = None) -> Job:
    """The job that archives ``topics`` (names separated by ``,``) with all columns and properties.

    ``out`` then has ``topic=orders/day=2026-01-31/``; the day is the one of storing, in UTC. A message is there once,
    also when the checkpoint was lost and the job begins again.
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
                key=KEY,
            )
        },
        run=run or Run(),
    )


@dataclass(frozen=True, slots=True)
class ArchiveDay:
    """The messages of one topic that were stored on one day."""

    archive: str
    topic: str
    day: str
    disk: Disk

    def read(self, spark: SparkSession) -> DataFrame:
        """All columns. Each message is there once, also while the archive is written. Raises StoreFormatUnknown when
        the directory is gone."""
        from pyspark.sql import functions as f

        table = _table_of(self.archive, self.disk)
        directory = f"topic={directory_text(self.topic)}/day={directory_text(self.day)}/"
        if table is None or not table.files([directory]):
            raise StoreFormatUnknown(
                f"there are no messages of an archive in {self.archive}/{directory}; was it moved away?"
            )
        rows = table.read(spark, [directory])
        # The names of the directories have these two.
        return rows.withColumns({"topic": f.lit(self.topic), "day": f.lit(self.day)})


def days_of(archive: str, disk: Disk) -> Iterator[ArchiveDay]:
    """What an archive has, by topic and day."""
    table = _table_of(archive, disk)
    for directory in table.directories() if table is not None else ():
        values = values_in(directory)
        yield ArchiveDay(archive, values["topic"] or "", values["day"] or "", disk)


def _table_of(archive: str, disk: Disk) -> Table | None:
    path = absolute_place(archive)
    disk = disk_of(path, disk)
    description = description_of(path, disk)
    return None if description is None else Table(path, description.schema, disk, PARTITION_BY)
