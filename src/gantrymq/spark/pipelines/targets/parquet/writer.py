"""The target ``parquet``: a table of ``tables``, with directories for the values of ``partition_by``.

It grows to the columns of a job. Its files never change: they are read with the columns that the table has by now. A
Spark session must be there, which reads the columns as they are written in Spark's language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.pipelines.job import ParquetTarget
from gantrymq.spark.pipelines.targets.growth import Growth, Widening, growth
from gantrymq.spark.pipelines.targets.object_stores import arrow_files, disk_of
from gantrymq.spark.pipelines.targets.parquet.tables import (
    NO_VALUE,
    Piece,
    Table,
    description_of,
    directory_text,
    values_in,
)
from gantrymq.spark.pipelines.targets.parquet_file import File, FileWriter, groups
from gantrymq.spark.pipelines.targets.port import ddl_of
from gantrymq.spark.pipelines.targets.rows_by_key import distinct, filter_of
from gantrymq.spark.pipelines.targets.staging import Staged, refusal_in

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_NAME: Final = 255
"""Bytes in the name of a directory, on all usual file systems."""
OPEN_FILES: Final = 64
"""A task writes to so many directories at once."""


class ParquetWriter:
    """Writes to ``path``, or to ``path/day=2026-01-01/topic=orders`` and so on."""

    def __init__(self, target: ParquetTarget, schema: str, disk: Disk) -> None:
        disk = disk_of(target.path, disk)
        there = description_of(target.path, disk)
        before = schema if there is None else there.schema
        now = grown(target.path, before, schema)
        self._lock = Table(target.path, before, disk, target.partition_by).lock()
        self._table = Table(target.path, now, disk, target.partition_by)
        if now != before:
            self._table.describe()

    def has(self, query: str, batch: int) -> bool:
        return self._table.has(query, batch)

    def stage(self, query: str, batch: int) -> ParquetStage:
        self._table.clear(query)
        return ParquetStage(self._table.staged(query), self._table.partition_by, query, batch)

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        return refusal_in(staged) is None

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        return self._table.commit(query, batch, [File.decoded(one.content) for one in staged])

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """Values that cannot be the name of a directory. A file has every value that Spark has."""
        return unnameable(rows, self._table.partition_by)

    def others(self, query: str) -> Mapping[str, int]:
        return {name: mark.batch for name, mark in self._table.marks().items() if name != query}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        import pyarrow as pa

        found = []
        for path, piece in self._table.pieces(self._directories(keys)):
            if piece.query != query:
                found.append(_keys_in(f"{self._table.path}/{path}", values_in(path), keys))
        return pa.concat_tables(found) if found else None

    def rows(self) -> int:
        return self._table.rows()

    def finish(self) -> None:
        self._table.publish()

    def close(self) -> None:
        self._lock.release()

    def _directories(self, keys: pa.Table) -> list[str]:
        """Those that can have rows with these keys."""
        wanted = {
            name: {directory_text(value) for value in keys[name].unique().to_pylist()}
            for name in self._table.partition_by
            if name in keys.column_names
        }
        return [
            path
            for path in self._table.directories()
            if all(f"/{path}".find(f"/{name}=") < 0 or _named(path, name) in texts for name, texts in wanted.items())
        ]


def _named(path: str, name: str) -> str:
    return f"/{path}".partition(f"/{name}=")[2].partition("/")[0]


def _keys_in(path: str, directories: Mapping[str, str | None], keys: pa.Table) -> pa.Table:
    """The keys of a file, as far as they can be among ``keys``, each once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files, inner = arrow_files(path)
    inside = [name for name in keys.column_names if name not in directories]
    there = pq.read_schema(inner, filesystem=files)
    if not set(inside) <= set(there.names):  # it is from a time before the table grew, and reads null
        return keys.slice(0, 0)
    only = filter_of(keys.select(inside), there) if inside else None
    rows = pq.read_table(inner, columns=inside, partitioning=None, filters=only, filesystem=files)
    for name in keys.column_names:
        if name in directories:
            value = pa.array([directories[name]] * rows.num_rows, pa.string())
            rows = rows.append_column(name, value)
    rows = rows.select(keys.column_names).cast(keys.schema)
    return distinct(rows, keys.column_names)


@dataclass(frozen=True, slots=True)
class ParquetStage:
    """Writes a file for each directory, where no reader looks."""

    path: str
    """Where the files of the query wait for their commit."""
    partition_by: tuple[str, ...]
    query: str
    batch: int

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        open_files: dict[str, FileWriter] = {}
        written: list[Staged] = []
        try:
            for table in groups(rows):
                refused = unnameable(table, self.partition_by)
                if refused:
                    yield Staged(0, refused=next(iter(refused.values())))
                    return
                for directory, part in _parts(table, self.partition_by):
                    if directory not in open_files:
                        if len(open_files) == OPEN_FILES:
                            oldest = next(iter(open_files))
                            written.append(self._finished(oldest, open_files.pop(oldest)))
                        open_files[directory] = self._opened(part)
                    open_files[directory].write(part)
            while open_files:
                written.append(self._finished(*open_files.popitem()))
        finally:
            for one in open_files.values():
                one.abandon()
        yield from written

    def _opened(self, part: pa.Table) -> FileWriter:
        name = f"{SystemRng().token(8).hex()}.parquet"
        disk = disk_of(self.path, OsDisk())
        disk.make_dirs(self.path)
        return FileWriter(name, _Stream(disk, f"{self.path}/{name}"), part.schema)

    def _finished(self, directory: str, writer: FileWriter) -> Staged:
        """The file is complete, and described by the name that it will have in the table."""
        file = writer.finish()
        disk_of(self.path, OsDisk()).sync_dir(self.path)
        piece = Piece(self.query, self.batch, self.batch, file.rows, file.path.removesuffix(".parquet"))
        named = File(f"{directory}{piece.name}", file.rows, file.size, {}, {})
        return Staged(file.rows, named.encoded())


class _Stream:
    """A file of a ``Disk`` for pyarrow, which is durable when it is closed."""

    closed = False

    def __init__(self, disk: Disk, path: str) -> None:
        self._file = disk.open(path, create=True)
        self._end = 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._file.write(content, self._end)
        self._end += len(content)
        return len(content)

    def tell(self) -> int:
        return self._end

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.sync()
            self._file.close()


def _parts(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows for each combination of values of these columns, with the path of its directory, which ends with /."""
    import pyarrow.compute as pc

    if not names:
        yield "", rows
        return
    values = rows.select(list(names)).group_by(list(names)).aggregate([])
    rest = rows.drop_columns(list(names))
    for row in values.to_pylist():
        chosen: Any = None
        for name in names:
            equal = (
                pc.is_null(rows[name]) if row[name] is None else pc.fill_null(pc.equal(rows[name], row[name]), False)
            )
            chosen = equal if chosen is None else pc.and_(chosen, equal)
        yield "".join(f"{name}={directory_text(row[name])}/" for name in names), rest.filter(chosen)


def unnameable(rows: pa.Table, names: Sequence[str]) -> dict[int, str]:
    """The rows with a value after which no directory can be named: by index, with the reason."""
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        raise ConfigError(
            f"partition_by: the projection has no column {missing[0]}; it has {', '.join(rows.column_names)}"
        )
    found: dict[int, str] = {}
    for name in names:
        for value in rows[name].unique().to_pylist():
            reason = _not_a_directory(name, value)
            if reason is not None:
                found |= dict.fromkeys(_indices(rows[name], value), reason)
    return found


def _not_a_directory(name: str, value: Any) -> str | None:
    """Why no directory can be named after this value."""
    if value == NO_VALUE:
        return f"the column {name} is {NO_VALUE}, which readers of directories take for null"
    length = len(f"{name}={directory_text(value)}".encode())
    if length > LONGEST_NAME:
        return f"the column {name} has a value for which the name of a directory would have {length} bytes"
    return None


def _indices(column: pa.ChunkedArray, value: Any) -> list[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    return list(pc.indices_nonzero(pc.equal(column, pa.scalar(value, column.type))).to_pylist())


def lacking(path: str, table: str, wanted: str) -> Growth:
    """What a table lacks; both schemas are DDL. Raises TableDiffers for types to which it cannot grow."""
    return growth(_arrow(_columns(table)), _arrow(_columns(wanted)), Widening(), path)


def grown(path: str, table: str, wanted: str) -> str:
    """The columns of the table when it has grown. Raises TableDiffers."""
    growing = Growth((), {}) if table == wanted else lacking(path, table, wanted)
    if not growing:
        return table
    from pyspark.sql.types import StructType

    new = {field.name: field for field in _columns(wanted).fields}
    columns = [new[field.name] if field.name in growing.widened else field for field in _columns(table).fields]
    return ddl_of(StructType([*columns, *(new[field.name] for field in growing.added)]))


def _columns(ddl: str) -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.active().createDataFrame([], ddl).schema


def _arrow(columns: Any) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(columns, timezone="UTC")
