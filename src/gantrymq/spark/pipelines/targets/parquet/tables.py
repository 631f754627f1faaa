"""Tables of Parquet files, on a file system or in an object store, to which a batch is added exactly once.

    <table>/<piece>.parquet                  the rows, for every program that reads Parquet
    <table>/day=2026-01-31/<piece>.parquet   or by the values of columns
    <table>/_table.json                      the columns
    <table>/_gantry/<query>.json             the mark: the newest batch of a query, and its files
    <table>/_gantry/<query>/                 files of tasks that are not committed

Readers of directories ignore what begins with ``_``. The mark is the commit of a batch:
its files, which are complete then, get their places in the table, and a crash in between is made good by the next
writer. A file that is visible never changes, and nothing merges files.

The names of its files and directories say whose rows they have:

    0000000042-0000000042-1500-<query>.3f6c77aa01b2c3d4.parquet

These are 1500 rows of batch 42 of a query. The last word is of the task that wrote them. Files of earlier versions have
the rows of several batches, and no such word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import msgspec

from gantrymq.errors import ConfigError, StoreFormatUnknown
from gantrymq.runtime.disk import Disk, Lock, OsDisk, read_whole, write_durably
from gantrymq.spark.pipelines.describe.addresses import absolute_place, scheme_of
from gantrymq.spark.pipelines.targets.object_stores import arrow_files, disk_of
from gantrymq.spark.pipelines.targets.parquet_file import File

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_NAME: Final = re.compile(r"(\d{10})-(\d{10})-(\d+)-([^.]+)(?:\.([0-9a-f]+))?\.parquet")


NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name for null, which Spark and pyarrow read as null."""


def directory_text(value: Any) -> str:
    """A value as it is written in the name of a directory."""
    return NO_VALUE if value is None else quote(str(value), safe=" -_.")


def values_in(path: str) -> dict[str, str | None]:
    """The values that the directories of a path name."""
    pairs = (one.partition("=") for one in path.split("/")[:-1] if "=" in one)
    return {name: None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """One file of a table."""

    query: str
    """The id of the streaming query, which stays the same as long as its checkpoint exists."""
    first: int
    """Number of its first batch."""
    last: int
    rows: int
    task: str = ""

    @classmethod
    def of(cls, name: str) -> Piece | None:
        """The piece with this file name; None if it is another file."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        first, last, rows, query, task = match.groups()
        return cls(query, int(first), int(last), int(rows), task or "")

    @property
    def name(self) -> str:
        task = f".{self.task}" if self.task else ""
        return f"{self.first:010d}-{self.last:010d}-{self.rows}-{self.query}{task}.parquet"

    @property
    def staged_name(self) -> str:
        """Its name before it is committed, when the task that writes it does not know yet how many rows it gets."""
        return f"{self.task}.parquet"


def staged_name(path: str) -> str:
    """The name before its commit of the file at this path in a table."""
    piece = Piece.of(path.rpartition("/")[2])
    return piece.staged_name if piece else ""


MARKS: Final = "_gantry"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``_table.json``."""

    version: int
    schema: str
    partition_by: tuple[str, ...] = ()
    """Columns whose values are in the names of directories."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a mark."""

    batch: int
    files: list[str]
    """Where they are in the table, from its directory."""


VERSION: Final = 3
BEFORE: Final = 2
"""Tables of this version had their newest rows in directories that readers ignore, and no marks."""
OLD_DIRECTORY: Final = "_recent"


@dataclass(frozen=True, slots=True)
class Table:
    """One table. The executors and the driver must reach its directory."""

    path: str
    schema: str
    """The columns as DDL."""
    disk: Disk
    partition_by: tuple[str, ...] = ()

    def lock(self) -> Lock:
        """Become the only writer, and finish what an earlier one began. Raises StoreLocked when another program of
        this machine writes this table; nobody can lock an object store."""
        self.create()
        lock = self.disk.lock(f"{self.path}/_writer.lock")
        try:
            self._move_from_before()
            self.publish()
        except BaseException:
            lock.release()
            raise
        return lock

    def create(self) -> None:
        """Write the description, unless it is there. Raises StoreFormatUnknown for a directory of another kind."""
        description = description_of(self.path, self.disk)
        if description is None:
            self.disk.make_dirs(self.path)
            self.describe()
        elif description.schema != self.schema:
            raise StoreFormatUnknown(
                f"the table {self.path} has the columns {description.schema!r}, and not {self.schema!r}; "
                "write to another directory, or change the projection back"
            )

    def has(self, query: str, batch: int) -> bool:
        """Whether the batch is in the table. An empty batch leaves no trace."""
        mark = self._mark(query)
        return mark is not None and mark.batch >= batch

    def marks(self) -> dict[str, Mark]:
        """Each query that has written here, with its newest batch."""
        names = [name for name in self.disk.list(f"{self.path}/{MARKS}") if name.endswith(".json")]
        found = {name.removesuffix(".json"): self._mark(name.removesuffix(".json")) for name in names}
        return {query: mark for query, mark in found.items() if mark is not None}

    def staged(self, query: str, name: str = "") -> str:
        """Where tasks write the files of a query."""
        return f"{self.path}/{MARKS}/{query}/{name}".rstrip("/")

    def publish(self) -> None:
        """Give the files of all newest batches their places, as far as a crash or an error has prevented it."""
        for query, mark in self.marks().items():
            self._publish(query, mark)

    def clear(self, query: str) -> None:
        """Delete what tasks have staged and nobody has committed."""
        mark = self._mark(query)
        if mark is not None:
            self._publish(query, mark)
        for name in self.disk.list(self.staged(query)):
            self.disk.remove(self.staged(query, name))

    def commit(self, query: str, batch: int, files: Sequence[File]) -> int:
        """Add staged files as a batch, unless it is there. Returns how many rows were added.

        When this returns, they are durable. After a crash inside, the table has the batch or not, and the next writer
        makes the rest of its files visible.
        """
        if not files or self.has(query, batch):
            return 0
        for one in files:
            self._check_there(query, one)
        mark = Mark(batch=batch, files=[one.path for one in files])
        write_durably(self.disk, f"{self.path}/{MARKS}/{query}.json", msgspec.json.encode(mark))
        self._publish(query, mark)
        return sum(one.rows for one in files)

    def directories(self) -> list[str]:
        """Where files may be, from the directory of the table: itself, or those of the partitions."""
        level = [""]
        for name in self.partition_by:
            level = [
                f"{path}{one}/"
                for path in level
                for one in self.disk.list(f"{self.path}/{path}".rstrip("/"))
                if one.startswith(f"{name}=")
            ]
        return level

    def pieces(self, directories: Iterable[str] | None = None) -> Iterator[tuple[str, Piece]]:
        """The files that together hold each row once, each with its path from the directory of the table."""
        for directory in self.directories() if directories is None else directories:
            for name in self.disk.list(f"{self.path}/{directory}".rstrip("/")):
                piece = Piece.of(name)
                if piece is not None:
                    yield f"{directory}{name}", piece

    def files(self, directories: Iterable[str] | None = None) -> list[str]:
        """The paths of the files that together hold each row once."""
        return [f"{self.path}/{path}" for path, _ in self.pieces(directories)]

    def rows(self) -> int:
        return sum(piece.rows for _, piece in self.pieces())

    def read(self, spark: SparkSession, directories: Iterable[str] | None = None) -> DataFrame:
        """The table, or some of its directories, as a data frame. Spark needs no library of an object store: its
        workers read by pyarrow."""
        files = self.files(directories)
        if not files:
            return spark.createDataFrame([], schema=self.schema)
        if scheme_of(self.path) is None:
            return spark.read.schema(self.schema).option("basePath", self.path).parquet(*files)
        paths = spark.createDataFrame([(file,) for file in files], "path string").repartition(len(files))
        return paths.mapInArrow(_Reading(spark.createDataFrame([], self.schema).schema.json()), self.schema)

    def describe(self) -> None:
        """Write the description, also over an earlier one. Only its writer may do this."""
        text = msgspec.json.encode(Description(version=VERSION, schema=self.schema, partition_by=self.partition_by))
        write_durably(self.disk, f"{self.path}/_table.json", text)

    def _mark(self, query: str) -> Mark | None:
        path = f"{self.path}/{MARKS}/{query}.json"
        if not self.disk.exists(path):
            return None
        try:
            return msgspec.json.decode(read_whole(self.disk, path), type=Mark)
        except msgspec.DecodeError as error:
            raise StoreFormatUnknown(f"{path} does not have the expected content: {error}") from error

    def _check_there(self, query: str, file: File) -> None:
        staged = self.staged(query, staged_name(file.path))
        try:
            size = self.disk.size(staged)
        except FileNotFoundError:
            size = -1
        if size != file.size:
            raise ConfigError(
                f"an executor has written {staged}, and it is not there for the driver; give a path that all machines "
                "share, or an address of an object store"
            )

    def _publish(self, query: str, mark: Mark) -> None:
        """Give the files of a batch their places, as far as they do not have them."""
        waiting = set(self.disk.list(self.staged(query)))
        moved = [path for path in mark.files if staged_name(path) in waiting]
        for path in moved:
            self.disk.make_dirs(f"{self.path}/{path}".rpartition("/")[0])
            self.disk.rename(self.staged(query, staged_name(path)), f"{self.path}/{path}")
        for directory in {f"{self.path}/{path}".rpartition("/")[0] for path in moved}:
            self.disk.sync_dir(directory)

    def _move_from_before(self) -> None:
        """Take over a table of the version before, if its last run came to its end: all its rows are visible then."""
        description = description_of(self.path, self.disk)
        if description is None or description.version != BEFORE:
            return
        for directory in self.directories():
            hidden = f"{self.path}/{directory}{OLD_DIRECTORY}"
            if any(Piece.of(name) for name in self.disk.list(hidden)):
                raise StoreFormatUnknown(
                    f"{hidden} has rows that the run of an earlier version of this package left behind when it was "
                    "killed. Run the job to its end once with that version; or move the table away, and give a new "
                    "checkpoint"
                )
        self.disk.make_dirs(f"{self.path}/{MARKS}")
        newest: dict[str, int] = {}
        for _, piece in self.pieces():
            newest[piece.query] = max(piece.last, newest.get(piece.query, 0))
        for query, batch in newest.items():
            text = msgspec.json.encode(Mark(batch=batch, files=[]))
            write_durably(self.disk, f"{self.path}/{MARKS}/{query}.json", text)
        self.describe()


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads files in the workers of Spark. Pickled."""

    schema: str
    """The columns in Spark's JSON."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json

        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        wanted = to_arrow_schema(StructType.fromJson(json.loads(self.schema)), timezone="UTC")
        for path in (path for batch in batches for path in batch.column(0).to_pylist()):
            files, inner = arrow_files(path)
            with files.open_input_file(inner) as file:
                for batch in pq.ParquetFile(file).iter_batches():
                    rows = pa.Table.from_batches([batch])
                    for field in wanted:
                        if field.name in rows.column_names:
                            continue
                        value = values_in(path).get(field.name)
                        if value is None:  # also a column that the table did not have yet
                            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
                        else:
                            texts = pa.array([value] * rows.num_rows, pa.string())
                            rows = rows.append_column(field.name, texts.cast(field.type))
                    yield from rows.select(wanted.names).cast(wanted).to_batches()


def description_of(path: str, disk: Disk) -> Description | None:
    """The description of the table in a directory; None when there is no table. Raises StoreFormatUnknown."""
    file = f"{path}/_table.json"
    if not disk.exists(file):
        return None
    try:
        description = msgspec.json.decode(read_whole(disk, file), type=Description)
    except msgspec.DecodeError as error:
        raise StoreFormatUnknown(f"{file} does not describe a table: {error}") from error
    if description.version not in (BEFORE, VERSION):
        raise StoreFormatUnknown(f"{file} has version {description.version}; this release reads version {VERSION}")
    return description


def read_table(spark: SparkSession, path: str | Path) -> DataFrame:
    """The table in a directory or at an address, for example ``out/shipping``.

    Raises StoreFormatUnknown when no pipeline has written a table there.
    """
    path = absolute_place(str(path))  # a server of Spark Connect works in another directory
    disk = disk_of(path, OsDisk())
    description = description_of(path, disk)
    if description is None:
        raise StoreFormatUnknown(f"there is no table of a pipeline in {path}; give the directory of one table")
    return Table(path, description.schema, disk, description.partition_by).read(spark)
