"""The target ``parquet``: a table of ``tables``, or one for each combination of values of ``partition_by``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk
from gantrymq.spark.pipelines.job import ParquetTarget
from gantrymq.spark.pipelines.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The directory name for null, which Spark and pyarrow read as null."""


class ParquetWriter:
    """Writes to ``path``, or to ``path/day=2026-01-01/topic=orders`` and so on."""

    def __init__(self, target: ParquetTarget, schema: str, disk: Disk) -> None:
        self._root = Table(target.path, schema, disk)
        self._partition_by = target.partition_by
        self._lock = self._root.lock()
        self._disk = disk
        self._used: set[str] = set()

    def has(self, query: str, batch: int) -> bool:
        # Of a partitioned batch some directories may be there and others not; ``add`` looks into each.
        return not self._partition_by and self._root.has(query, batch)

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not self._partition_by:
            return self._root.add(query, batch, rows)
        added = 0
        for path, part in _parts(rows, self._partition_by):
            self._used.add(path)
            added += self._at(path).add(query, batch, part)
        return added

    def keys_of_others(self, query: str, columns: Sequence[str]) -> pa.Table | None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = [file for table in self._tables() for file in table.files(without_query=query)]
        wanted = [name for name in columns if name not in self._partition_by]
        return pa.concat_tables([pq.read_table(file, columns=wanted) for file in files]) if files else None

    def rows(self) -> int:
        return sum(table.rows() for table in self._tables())

    def finish(self) -> None:
        for table in self._tables():
            table.finish()

    def close(self) -> None:
        self._lock.release()

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


def _parts(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows for each combination of values of these columns, with the path of its directory."""
    import pyarrow.compute as pc

    missing = [name for name in names if name not in rows.column_names]
    if missing:
        raise ConfigError(
            f"partition_by: the projection has no column {missing[0]}; it has {', '.join(rows.column_names)}"
        )
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


def directory_text(value: Any) -> str:
    """A value as it is written in the name of a directory."""
    return NO_VALUE if value is None else quote(str(value), safe=" -_.")
