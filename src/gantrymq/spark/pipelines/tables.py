"""Tables of Parquet files to which a micro-batch is added exactly once.

    <table>/data/<query>-<batch>.parquet       the rows of one batch; not read unless the manifest names the file
    <table>/_manifest/<batch>-<query>.json     names the files of a batch; renaming this file is the commit

Spark runs a batch again after a crash, with the same number and the same rows. If the batch has a manifest entry, it is
complete; otherwise its file is written again. So after a crash at any line, the table contains either nothing of the
batch or all of it, once. Only one writer may run at a time, and it holds the lock of the tables' directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk, OsDisk, read_whole, write_durably

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class BatchEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The entry of one batch in the manifest."""

    version: int = 1
    query: str
    """The id of the streaming query, which stays the same as long as its checkpoint exists."""
    batch: int
    rows: int
    files: tuple[str, ...]
    """The files of the batch, relative to the directory of the table."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table on a file system that all Spark processes can read."""

    path: str
    schema: str
    """The columns as DDL."""
    disk: Disk

    def entry(self, query: str, batch: int) -> BatchEntry | None:
        """The entry of a published batch; None if the batch is not published."""
        path = self._entry_path(query, batch)
        return self._read_entry(path) if self.disk.exists(path) else None

    def entries(self) -> list[BatchEntry]:
        """All published batches, by number."""
        manifest = f"{self.path}/_manifest"
        return [self._read_entry(f"{manifest}/{name}") for name in self.disk.list(manifest) if name.endswith(".json")]

    def add(self, query: str, batch: int, rows: pa.Table) -> BatchEntry:
        """Publish the rows of a batch, unless it is already published.

        When this returns, the batch is durable. After a crash inside, the table is as before.
        """
        done = self.entry(query, batch)
        if done is not None:
            return done
        files: tuple[str, ...] = ()
        if len(rows):
            name = f"data/{query}-{batch:010d}.parquet"
            self.disk.make_dirs(f"{self.path}/data")
            write_durably(self.disk, f"{self.path}/{name}", parquet(rows))
            files = (name,)
        entry = BatchEntry(query=query, batch=batch, rows=len(rows), files=files)
        self.disk.make_dirs(f"{self.path}/_manifest")
        write_durably(self.disk, self._entry_path(query, batch), msgspec.json.encode(entry))
        return entry

    def _entry_path(self, query: str, batch: int) -> str:
        return f"{self.path}/_manifest/{batch:010d}-{query}.json"

    def _read_entry(self, path: str) -> BatchEntry:
        try:
            entry = msgspec.json.decode(read_whole(self.disk, path), type=BatchEntry)
        except msgspec.DecodeError as error:
            raise StoreFormatUnknown(f"{path} is no manifest entry: {error}") from error
        if entry.version != 1:
            raise StoreFormatUnknown(f"{path} has version {entry.version}; this release reads version 1")
        return entry

    def read(self, spark: SparkSession, *, without_query: str | None = None) -> DataFrame:
        """The table as a data frame; ``without_query`` leaves out what that query wrote."""
        files = [
            f"{self.path}/{file}" for entry in self.entries() if entry.query != without_query for file in entry.files
        ]
        if not files:
            return spark.createDataFrame([], schema=self.schema)
        return spark.read.schema(self.schema).parquet(*files)


def parquet(rows: pa.Table) -> bytes:
    """The rows as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


SCHEMAS = {
    "shipping": "order_id string, user_id string, status string, paid_at timestamp",
    "points": "order_id string, user_id string, points bigint, paid_at timestamp",
    "cart": "order_id string, user_id string, cleared_at timestamp",
    "rejected": "topic string, broker_name string, queue_id int, queue_offset bigint, body binary, reason string",
}
"""The tables of the order-paid pipeline. The first three have one row per order. ``rejected`` has the messages that are
not order-paid events, so that no message is lost."""

ORDER_TABLES = ("shipping", "points", "cart")


def order_tables(directory: str, disk: Disk | None = None) -> dict[str, Table]:
    """The tables of the order-paid pipeline below ``directory``."""
    return {name: Table(f"{directory}/{name}", schema, disk or OsDisk()) for name, schema in SCHEMAS.items()}


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """The table in a directory, for example ``out/shipping``. Raises StoreFormatUnknown for another name."""
    name = Path(path).name
    if name not in SCHEMAS:
        raise StoreFormatUnknown(f"{path} is not a table of the pipelines; there are {', '.join(SCHEMAS)}")
    return Table(str(path), SCHEMAS[name], OsDisk()).read(spark)
