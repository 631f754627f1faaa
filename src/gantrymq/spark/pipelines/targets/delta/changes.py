"""Changes of a Delta table: one MERGE for each batch. The deletes are remembered in a Delta table below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from gantrymq.spark.pipelines.changes.applying import DELETES, Applying
from gantrymq.spark.pipelines.changes.rows import CHANGE, DELETE, LEFT_OUT, UPSERT
from gantrymq.spark.pipelines.job import DeltaTarget
from gantrymq.spark.pipelines.targets.changed_table import ChangedTable
from gantrymq.spark.pipelines.targets.delta.writer import DeltaWriter

if TYPE_CHECKING:
    import pyarrow as pa


class DeltaChanges(ChangedTable):
    """The mark of a batch is Delta's application transaction."""

    def __init__(self, target: DeltaTarget, applying: Applying) -> None:
        self._added = DeltaWriter(target)
        super().__init__(target.path, applying, DeltaDeletes(f"{target.path.rstrip('/')}/_{DELETES}"))
        self.rows = self._added.rows
        self.close = self._added.close

    def make(self, schema: pa.Schema) -> None:
        self._added.make(schema)
        self._deletes.make()

    def has(self, query: str, batch: int) -> bool:
        return self._added.has(query, batch)

    def conflicts(self) -> tuple[type[Exception], ...]:
        from deltalake.exceptions import CommitFailedError

        return (CommitFailedError,)

    def tidy(self) -> None:
        super().tidy()
        self._added.compact()

    def replace(self, query: str, batch: int, upserts: pa.Table, gone: pa.Table) -> int:
        import pyarrow as pa

        kept = upserts.append_column(CHANGE, pa.array([UPSERT] * len(upserts), pa.string()))
        return self._merge(query, batch, pa.concat_tables([kept, gone]))

    def _merge(self, query: str, batch: int, source: pa.Table) -> int:
        table, changes = self._added.table(), self._applying.changes
        names = [name for name in source.column_names if name != CHANGE]
        values = {_column("t", name)[2:]: _column("s", name) for name in names}
        change, behind = _column("s", CHANGE), partial(_is_behind, changes.order_by)
        merging = table.merge(
            source,
            " AND ".join(f"{_column('t', name)} = {_column('s', name)}" for name in changes.key),
            source_alias="s",
            target_alias="t",
            # The least and the largest key of the batch say which files can be left out.
            streamed_exec=False,
            commit_properties=self._added.commit_of(query, batch),
        )
        goes = f"{change} = '{DELETE}' AND ({behind('>=')}) OR {change} = '{LEFT_OUT}' AND ({behind('>')})"
        found = (
            merging.when_matched_delete(predicate=goes)
            .when_matched_update(values, predicate=f"{change} = '{UPSERT}' AND ({behind('>')})")
            .when_not_matched_insert(values, predicate=f"{change} = '{UPSERT}'")
            .execute()
        )
        return sum(int(found[f"num_target_rows_{what}"]) for what in ("inserted", "updated", "deleted"))


class DeltaDeletes:
    """A Delta table with a line for each delete. Directories whose name begins with ``_`` are no part of the table in
    which they are."""

    def __init__(self, path: str) -> None:
        import deltalake

        self._delta: Any = deltalake
        self._path = path

    def make(self) -> None:
        import pyarrow as pa

        schema = pa.schema([("key", pa.string()), ("position", pa.string()), ("at_ms", pa.int64())])
        self._delta.DeltaTable.create(self._path, schema=schema, mode="ignore")

    def version(self) -> int:
        """Another one after each change."""
        return int(self._table().version())

    def positions(self, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
        import pyarrow as pa
        import pyarrow.dataset as ds

        wanted = ds.field("key").isin(pa.array(keys, pa.string()))
        found = self._table().to_pyarrow_dataset().to_table(columns=["key", "position"], filter=wanted)
        return zip(found["key"].to_pylist(), found["position"].to_pylist(), strict=True)

    def remember(self, positions: Mapping[str, str], now_ms: int) -> None:
        import pyarrow as pa

        lines = {"key": list(positions), "position": list(positions.values()), "at_ms": [now_ms] * len(positions)}
        self._delta.write_deltalake(self._path, pa.table(lines), mode="append")

    def forget(self, before_ms: int) -> None:
        table = self._table()
        table.delete(f"at_ms < {before_ms}")
        table.optimize.compact()

    def _table(self) -> Any:
        return self._delta.DeltaTable(self._path)


def _column(table: str, name: str) -> str:
    escaped = name.replace('"', '""')
    return f'{table}."{escaped}"'


def _is_behind(order_by: Sequence[str], last: str) -> str:
    """Whether the row of the table is behind the event, by the first column in which they differ. ``last``: how the
    last column must compare. A row without an order is behind every event."""
    parts = ""
    for at, name in enumerate(reversed(order_by)):
        new, old = _column("s", name), _column("t", name)
        first = f"{new} {'>' if at else last} {old} OR {old} IS NULL"
        parts = f"{first} OR ({new} = {old} AND ({parts}))" if at else first
    return parts
