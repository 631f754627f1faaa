"""What the Spark source is compared with: an Arrow source whose batches are made beforehand, and files of Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.spark_decode import answer
from gantrymq.spark.columns.decode import Records
from gantrymq.spark.columns.rows import ddl

ROWS = 10_000
"""In a batch; the best size for Spark."""
PARTITIONS = 4


def prebuilt_batch(columns: str, body_bytes: int) -> Any:
    """Rows like those of the topic."""
    return Records.scan(answer(ROWS, body_bytes, kind="plain")).batch(columns.split(","), "SparkBench", "broker-a")


class PrebuiltReader(DataSourceReader):
    """Gives out one batch again and again: what is left is Spark's own work."""

    def __init__(self, columns: str, batches: int, body_bytes: int) -> None:
        self._columns = columns
        self._batches = batches
        self._body_bytes = body_bytes

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = prebuilt_batch(self._columns, self._body_bytes)
        for number in range(self._batches):
            if number % PARTITIONS == partition.value:
                yield batch


class Prebuilt(DataSource):
    """Format ``prebuilt``; options ``columns``, ``rows``, ``bodyBytes``."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return ddl(self.options["columns"].split(","))

    def reader(self, schema: Any) -> DataSourceReader:
        rows, body_bytes = int(self.options["rows"]), int(self.options["bodyBytes"])
        return PrebuiltReader(self.options["columns"], max(1, rows // ROWS), body_bytes)


def write_parquet(directory: Path, columns: str, rows: int, body_bytes: int) -> None:
    """The same rows as files, one for each partition."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch = prebuilt_batch(columns, body_bytes)
    directory.mkdir(parents=True)
    for number in range(PARTITIONS):
        count = max(1, rows // ROWS // PARTITIONS)
        pq.write_table(pa.Table.from_batches([batch] * count), directory / f"part-{number}.parquet")
