"""The target ``parquet``: a table of ``tables``, or one for each combination of values of ``partition_by``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk
from gantrymq.spark.pipelines.job import ParquetTarget
from gantrymq.spark.pipelines.known_rows import distinct, filter_of, without
from gantrymq.spark.pipelines.tables import Table
from gantrymq.spark.pipelines.targets.staging import InDescriptions, Stage, Staged, rows_in

if TYPE_CHECKING:
    import pyarrow as pa

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The directory name for null, which Spark and pyarrow read as null."""
LONGEST_NAME = 255
"""Bytes in the name of a directory, on all usual file systems."""
DIRECTORIES_KEPT = 8
"""The keys that other queries have put into so many directories are kept in memory. A job that reads old messages
again goes through the days of all topics at about the same pace."""


class ParquetWriter:
    """Writes to ``path``, or to ``path/day=2026-01-01/topic=orders`` and so on."""

    def __init__(self, target: ParquetTarget, schema: str, disk: Disk) -> None:
        self._root = Table(target.path, schema, disk)
        self._partition_by = target.partition_by
        self._key = [name for name in target.key if name not in target.partition_by]
        self._known: dict[tuple[str, str], pa.Table | None] = {}
        """By query and directory: the keys that others have put there."""
        self._staged: pa.Table | None = None
        self._lock = self._root.lock()
        self._disk = disk

    def has(self, query: str, batch: int) -> bool:
        # Of a partitioned batch some directories may be there and others not; ``add`` looks into each.
        return not self._partition_by and self._root.has(query, batch)

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """Values that cannot be the name of a directory. A file has every value that Spark has."""
        found: dict[int, str] = {}
        _check_columns(rows, self._partition_by)
        for name in self._partition_by:
            for value in rows[name].unique().to_pylist():
                reason = _not_a_directory(name, value)
                if reason is not None:
                    found |= dict.fromkeys(_indices(rows[name], value), reason)
        return found

    def stage(self, query: str, batch: int) -> Stage:
        return InDescriptions()

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        self._staged = rows_in(staged)
        return self._staged is None or not self.refusals(query, batch, self._staged)

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        return 0 if self._staged is None else self.add(query, batch, self._staged)

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not self._partition_by:
            return self._add(self._root, query, batch, rows)
        return sum(
            self._add(self._at(path), query, batch, part) for path, part in _parts(rows, self._partition_by)
        )  # fmt: skip

    def others(self, query: str) -> Mapping[str, int]:
        if self._key:
            return {}  # ``add`` finds them
        pieces = [piece for table in self._tables() for piece in table.pieces() if piece.query != query]
        return {piece.query: piece.last for piece in sorted(pieces, key=lambda one: one.last)}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        if self._key:
            return None
        names = keys.column_names
        return _one([found for table in self._tables() if (found := self._of_others(table, query, names, keys))])

    def rows(self) -> int:
        return sum(table.rows() for table in self._tables())

    def finish(self) -> None:
        for table in self._tables():
            table.finish()

    def close(self) -> None:
        self._lock.release()

    def _add(self, table: Table, query: str, batch: int, rows: pa.Table) -> int:
        if self._key and len(rows):
            place = (query, table.path)
            if place not in self._known:
                # Nobody else can write while this writer is open, so what others have put there does not change.
                self._known[place] = self._of_others(table, query, self._key)
                if len(self._known) > DIRECTORIES_KEPT:
                    del self._known[next(iter(self._known))]
            known = self._known[place]
            rows = rows if known is None else without(rows, known, self._key)
        return table.add(query, batch, rows)

    def _of_others(
        self, table: Table, query: str, columns: Sequence[str], keys: pa.Table | None = None
    ) -> pa.Table | None:
        """These columns of what other queries have put into one directory. Columns of ``partition_by`` are text.
        ``keys``: only of rows that may have one of these."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        directories = dict(one.partition("=")[::2] for one in table.path.removeprefix(self._root.path).split("/"))
        wanted = [name for name in columns if name not in self._partition_by]
        found = []
        for file in table.files(without_query=query):
            only = None if keys is None or not wanted else filter_of(keys.select(wanted), pq.read_schema(file))
            rows = pq.read_table(file, columns=wanted, partitioning=None, filters=only)
            for name in columns:
                if name in self._partition_by:
                    value = None if directories[name] == NO_VALUE else unquote(directories[name])
                    rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
            found.append(rows.select(list(columns)) if keys is None else distinct(rows, columns))
        return _one(found)

    def _at(self, path: str) -> Table:
        return Table(f"{self._root.path}/{path}", self._root.schema, self._disk)

    def _tables(self) -> Iterator[Table]:
        """All tables: the root, or those in the directories of the partitions."""
        if not self._partition_by:
            yield self._root
            return
        level = [""]
        for name in self._partition_by:
            level = [
                f"{path}{one}/"
                for path in level
                for one in self._disk.list(f"{self._root.path}/{path}")
                if one.startswith(f"{name}=")
            ]
        for path in level:
            yield self._at(path.rstrip("/"))


def _one(tables: Sequence[pa.Table]) -> pa.Table | None:
    """All rows of these tables, whose types may differ in their time zones; None if there are no tables."""
    import pyarrow as pa

    return pa.concat_tables([table.cast(tables[0].schema) for table in tables]) if tables else None


def _parts(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows for each combination of values of these columns, with the path of its directory."""
    import pyarrow.compute as pc

    _check_columns(rows, names)
    values = rows.select(list(names)).group_by(list(names)).aggregate([])
    rest = rows.drop_columns(list(names))
    for row in values.to_pylist():
        chosen: Any = None
        for name in names:
            equal = (
                pc.is_null(rows[name]) if row[name] is None else pc.fill_null(pc.equal(rows[name], row[name]), False)
            )
            chosen = equal if chosen is None else pc.and_(chosen, equal)
        yield "/".join(f"{name}={directory_text(row[name])}" for name in names), rest.filter(chosen)


def _check_columns(rows: pa.Table, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        raise ConfigError(
            f"partition_by: the projection has no column {missing[0]}; it has {', '.join(rows.column_names)}"
        )


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


def directory_text(value: Any) -> str:
    """A value as it is written in the name of a directory."""
    return NO_VALUE if value is None else quote(str(value), safe=" -_.")
