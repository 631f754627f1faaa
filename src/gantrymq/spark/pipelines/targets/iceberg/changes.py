"""Changes of an Iceberg table: for each batch one commit, which replaces the files that have rows of its keys.

``pyiceberg`` can delete by a filter and append, both in one commit. So the rows that a filter finds are read, decided
about, deleted by a filter, and those of them that stay are appended again with the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.changes.applying import DELETES, Applying
from gantrymq.spark.pipelines.changes.rows import CHANGE, DELETE
from gantrymq.spark.pipelines.job import Changes, IcebergTarget
from gantrymq.spark.pipelines.targets.changed_table import ChangedTable
from gantrymq.spark.pipelines.targets.growth import as_wide
from gantrymq.spark.pipelines.targets.iceberg.writer import BATCH, QUERY, IcebergWriter, between_ends

if TYPE_CHECKING:
    import pyarrow as pa

_ROW: Final = "gantry_row"
_RETRIES: Final = "commit.retry.num-retries"


class IcebergChanges(ChangedTable):
    """The snapshots of a batch name the query and the batch."""

    def __init__(self, target: IcebergTarget, applying: Applying) -> None:
        self._added = IcebergWriter(target)
        deletes = IcebergDeletes(self._added.catalog, f"{target.table}_{DELETES}")
        super().__init__(target.table, applying, deletes)
        self.rows = self._added.rows
        self.close = self._added.close

    def make(self, schema: pa.Schema) -> None:
        self._added.make(schema)
        self._deletes.make()

    def has(self, query: str, batch: int) -> bool:
        return self._added.has(query, batch)

    def conflicts(self) -> tuple[type[Exception], ...]:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        return CommitFailedException, ValidationException

    def replace(self, query: str, batch: int, upserts: pa.Table, gone: pa.Table) -> int:
        import pyarrow as pa

        table, changes = self._added.table(), self._applying.changes
        # The library would make the commit again without looking at the rows of others. Here only: nothing of this is
        # stored.
        table.metadata.properties[_RETRIES] = "0"
        key = list(changes.key)
        keys = pa.concat_tables([upserts.select(key), gone.select(key)])
        there = table.scan(row_filter=_one_of(keys)).to_arrow()
        change = _change(there, upserts, gone, changes)
        if not len(change.deleted) and not len(change.added):
            return 0
        said = {QUERY: query, BATCH: str(batch)}
        # With all columns of the table, so rows that stay keep what the job does not know.
        added = as_wide(change.added, there.schema)
        with table.transaction() as both:
            if len(change.deleted):
                both.delete(_one_of(change.deleted), snapshot_properties=said)
                # The filter may be wider than the keys, if these have several columns.
                added = pa.concat_tables([added, _also_found(there, change.deleted)])
            if len(added):
                both.append(added, snapshot_properties=said)
        return max(len(change.deleted), len(change.added))


@dataclass(frozen=True, slots=True)
class _Change:
    deleted: pa.Table
    """The keys whose rows go, also those of rows that become others."""
    added: pa.Table


def _change(there: pa.Table, upserts: pa.Table, gone: pa.Table, changes: Changes) -> _Change:
    """What becomes of rows that are in the table, by key and order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    key, order = list(changes.key), [name for name in changes.order_by if name not in changes.key]
    kinds = upserts.schema
    old = there.select([*key, *order]).cast(pa.schema([kinds.field(name) for name in (*key, *order)]))
    old = old.rename_columns([*key, *(f"old {name}" for name in order)])
    old = old.append_column("there", pa.array([True] * len(old), pa.bool_()))

    def met(rows: pa.Table) -> tuple[pa.Table, Any, Any]:
        """Events joined with the rows that are there; which of them have none; which rows are behind."""
        numbered = rows.select([*key, *order, *(name for name in (CHANGE,) if name in rows.column_names)])
        numbered = numbered.append_column(_ROW, pa.array(range(len(rows)), pa.int64()))
        joined = numbered.join(old, keys=key, join_type="left outer")
        return joined, pc.is_null(joined["there"]), _behind(joined, changes.order_by, key)

    joined, new, behind = met(upserts)
    updates = joined.filter(pc.and_(pc.invert(new), behind))
    applied = pa.concat_arrays([*joined.filter(new)[_ROW].chunks, *updates[_ROW].chunks, pa.array([], pa.int64())])
    joined, new, behind = met(gone)
    deletes = joined.filter(pc.and_(pc.invert(new), behind))
    return _Change(pa.concat_tables([updates.select(key), deletes.select(key)]), upserts.take(applied.unique().sort()))


def _behind(joined: pa.Table, order_by: Sequence[str], key: Sequence[str]) -> Any:
    """Which rows of the table are behind their event: older ones, and for a delete those of equal order. A row without
    an order is behind every event."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: Any = pa.chunked_array([pa.array([False] * len(joined), pa.bool_())])
    if CHANGE in joined.column_names:
        found = pc.equal(joined[CHANGE], DELETE)
    for name in reversed(order_by):
        if name in key:  # it is equal in both
            continue
        new, old = joined[name], joined[f"old {name}"]
        later = pc.or_(pc.fill_null(pc.greater(new, old), False), pc.is_null(old))
        found = pc.or_(later, pc.and_(pc.fill_null(pc.equal(new, old), False), found))
    return found


def _also_found(there: pa.Table, deleted: pa.Table) -> pa.Table:
    """The rows that the filter for the deleted keys finds, and which have other keys."""
    import pyarrow as pa
    import pyarrow.compute as pc

    key = deleted.column_names
    if len(key) == 1:
        return there.slice(0, 0)
    kinds = pa.schema([there.schema.field(name) for name in key])
    numbered = there.select(key).append_column(_ROW, pa.array(range(len(there)), pa.int64()))
    for name in key:
        values = deleted[name].cast(kinds.field(name).type).combine_chunks()
        numbered = numbered.filter(pc.is_in(numbered[name], value_set=values))
    kept = numbered.join(deleted.cast(kinds), keys=key, join_type="left anti")
    return there.take(kept[_ROW].combine_chunks().sort())


class IcebergDeletes:
    """An Iceberg table with a line for each delete."""

    def __init__(self, catalog: Any, name: str) -> None:
        self._catalog = catalog
        self._name = name

    def make(self) -> None:
        import pyarrow as pa

        schema = pa.schema([("key", pa.string()), ("position", pa.string()), ("at_ms", pa.int64())])
        self._catalog.create_table_if_not_exists(self._name, schema)

    def version(self) -> int:
        """Another one after each change."""
        return int(self._catalog.load_table(self._name).metadata.last_sequence_number)

    def positions(self, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        table = self._catalog.load_table(self._name)
        wanted = pc.field("key").isin(pa.array(keys, pa.string()))
        for some in table.scan(selected_fields=("key", "position")).to_arrow_batch_reader():
            found = some.filter(wanted)
            yield from zip(found["key"].to_pylist(), found["position"].to_pylist(), strict=True)

    def remember(self, positions: Mapping[str, str], now_ms: int) -> None:
        import pyarrow as pa

        lines = {"key": list(positions), "position": list(positions.values()), "at_ms": [now_ms] * len(positions)}
        self._catalog.load_table(self._name).append(pa.table(lines))

    def forget(self, before_ms: int) -> None:
        from pyiceberg.expressions import LessThan

        table, old = self._catalog.load_table(self._name), LessThan("at_ms", before_ms)
        if table.scan(row_filter=old).count():
            table.delete(old)


def _one_of(keys: pa.Table) -> Any:
    """A filter that finds the rows with these keys; with several columns it may find others, too."""
    from pyiceberg.expressions import And, In

    found = between_ends(keys)
    for name in keys.column_names:
        found = And(found, In(name, keys[name].unique().to_pylist()))
    return found
