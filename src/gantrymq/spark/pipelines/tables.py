"""Tables of Parquet files to which a batch is added exactly once, and which merge their small files.

    <table>/<piece>.parquet            published: large files, for every program that reads Parquet
    <table>/_recent/<piece>.parquet    the newest rows, until there are enough for a large file
    <table>/_table.json                the columns

``pieces`` explains the names. A batch is one file, and the rename of this file is its commit: after a crash at any line
the table holds all of the batch or nothing of it, and Spark gives the batch again. A large file appears whole, by one
rename, and is never changed. Programs that read the directory (Spark, pandas, or DuckDB with ``<table>/*.parquet``)
ignore ``_recent``, so they see each row at most once, and never one of an unfinished batch. ``Table.read`` sees the
newest rows as well. Files that were merged are deleted by the merge after the next one, so a slow reader can finish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk, Lock, OsDisk, read_whole, write_durably
from gantrymq.spark.pipelines.addresses import directory_of
from gantrymq.spark.pipelines.pieces import Piece, live, merged, to_merge

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PART_ROWS = 1_000_000
"""A published file has about this many rows,"""
PART_BYTES = 64 << 20
"""or this many bytes, whichever is reached first. The last file of a run may be smaller."""
RECENT, STAGED = "_recent", "_staged"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``_table.json``."""

    version: int
    schema: str


VERSION = 2


@dataclass(frozen=True, slots=True)
class Table:
    """One table on a file system that all Spark processes can read. Only one program may write it at a time."""

    path: str
    schema: str
    """The columns as DDL."""
    disk: Disk
    part_rows: int = PART_ROWS
    part_bytes: int = PART_BYTES

    def lock(self) -> Lock:
        """Become the only writer. Raises StoreLocked when another program writes this table."""
        self.create()
        return self.disk.lock(f"{self.path}/_writer.lock")

    def create(self) -> None:
        """Write the description, unless it is there. Raises StoreFormatUnknown for a directory of another kind."""
        description = description_of(self.path, self.disk)
        if description is None:
            self.disk.make_dirs(self.path)
            text = msgspec.json.encode(Description(version=VERSION, schema=self.schema))
            write_durably(self.disk, f"{self.path}/_table.json", text)
        elif description.schema != self.schema:
            raise StoreFormatUnknown(
                f"the table {self.path} has the columns {description.schema!r}, and not {self.schema!r}; "
                "write to another directory, or change the projection back"
            )

    def pieces(self) -> list[Piece]:
        """The files that together hold each row once."""
        return live(self._all())

    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces())

    def has(self, query: str, batch: int) -> bool:
        """Whether the batch is in the table. An empty batch leaves no trace."""
        return any(piece.query == query and piece.covers(batch) for piece in self._all())

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        """Add the rows of a batch, unless they are there. Returns how many were added.

        When this returns, they are durable. After a crash inside, the table is as before.
        """
        if not len(rows) or self.has(query, batch):
            return 0
        self.create()
        self._write(Piece(query, batch, batch, len(rows)), rows)
        self._compact(query)
        return len(rows)

    def finish(self) -> None:
        """Publish all rows. Called when a run ends, so that other readers see everything then."""
        self._clean()
        for query in {piece.query for piece in self.pieces() if not piece.published}:
            self._publish(self._hidden(query))

    def files(self, *, without_query: str | None = None) -> list[str]:
        """The paths of the files that together hold each row once."""
        return [self._path(piece) for piece in self.pieces() if piece.query != without_query]

    def read(self, spark: SparkSession, *, without_query: str | None = None) -> DataFrame:
        """The table as a data frame; ``without_query`` leaves out what that query wrote."""
        files = self.files(without_query=without_query)
        if not files:
            return spark.createDataFrame([], schema=self.schema)
        return spark.read.schema(self.schema).parquet(*files)

    def _all(self) -> list[Piece]:
        # Recent pieces first: one that is published between the two lists is then in both, and not in none.
        names = [(name, False) for name in self.disk.list(f"{self.path}/{RECENT}")]
        names += [(name, True) for name in self.disk.list(self.path)]
        return [piece for name, published in names if (piece := Piece.of(name, published=published))]

    def _hidden(self, query: str) -> list[Piece]:
        return [piece for piece in self.pieces() if piece.query == query and not piece.published]

    def _path(self, piece: Piece) -> str:
        return f"{self.path}/{piece.name}" if piece.published else f"{self.path}/{RECENT}/{piece.name}"

    def _write(self, piece: Piece, rows: pa.Table) -> None:
        directory = f"{self.path}/{STAGED if piece.published else RECENT}"
        self.disk.make_dirs(directory)
        write_durably(self.disk, f"{directory}/{piece.name}", parquet(rows))
        if piece.published:
            # Staged under another directory: a reader never finds the temporary file of an unfinished write.
            self.disk.rename(f"{directory}/{piece.name}", self._path(piece))
            self.disk.sync_dir(self.path)

    def _compact(self, query: str) -> None:
        hidden = self._hidden(query)
        size = sum(self.disk.size(self._path(piece)) for piece in hidden)
        if sum(piece.rows for piece in hidden) >= self.part_rows or size >= self.part_bytes:
            self._clean()
            self._publish(hidden)
        elif some := to_merge(hidden):
            self._clean()
            self._write(merged(some), self._content(some))

    def _publish(self, hidden: Sequence[Piece]) -> None:
        self._write(replace(merged(hidden), published=True), self._content(hidden))

    def _content(self, pieces: Sequence[Piece]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = [pa.BufferReader(read_whole(self.disk, self._path(piece))) for piece in pieces]
        return pa.concat_tables([pq.read_table(file) for file in files])

    def _clean(self) -> None:
        """Delete the pieces that an earlier merge has replaced, and what a crash left behind."""
        everything, kept = self._all(), set(self.pieces())
        for piece in everything:
            if piece not in kept:
                self.disk.remove(self._path(piece))
        for name in self.disk.list(f"{self.path}/{STAGED}"):
            self.disk.remove(f"{self.path}/{STAGED}/{name}")


def description_of(path: str, disk: Disk) -> Description | None:
    """The description of the table in a directory; None when there is no table. Raises StoreFormatUnknown."""
    if disk.list(f"{path}/_manifest"):
        raise StoreFormatUnknown(f"{path} was written by a development version; move it away and run the job again")
    file = f"{path}/_table.json"
    if not disk.exists(file):
        return None
    try:
        description = msgspec.json.decode(read_whole(disk, file), type=Description)
    except msgspec.DecodeError as error:
        raise StoreFormatUnknown(f"{file} does not describe a table: {error}") from error
    if description.version != VERSION:
        raise StoreFormatUnknown(f"{file} has version {description.version}; this release reads version {VERSION}")
    return description


def parquet(rows: pa.Table) -> bytes:
    """The rows as a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def read_table(spark: SparkSession, path: str | Path) -> DataFrame:
    """The table in a directory, for example ``out/shipping``, with its newest rows.

    Raises StoreFormatUnknown when no pipeline has written a table there.
    """
    disk = OsDisk()
    path = directory_of(str(path), "the table")  # absolute: a server of Spark Connect works in another directory
    description = description_of(path, disk)
    if description is None:
        raise StoreFormatUnknown(f"there is no table of a pipeline in {path}; give the directory of one table")
    return Table(path, description.schema, disk).read(spark)
