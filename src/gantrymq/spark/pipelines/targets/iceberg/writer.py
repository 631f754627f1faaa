"""The target ``iceberg``: an Iceberg table in a catalog of ``pyiceberg``, which needs no JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import IcebergTarget
from gantrymq.spark.pipelines.targets.growth import Growth, Widening, growth
from gantrymq.spark.pipelines.targets.iceberg.stage import IcebergStage, files_in
from gantrymq.spark.pipelines.targets.port import NOBODY
from gantrymq.spark.pipelines.targets.rows_by_key import distinct, filter_of
from gantrymq.spark.pipelines.targets.staging import Staged, refusal_in

if TYPE_CHECKING:
    import pyarrow as pa

QUERY, BATCH = "gantry.query", "gantry.batch"
"""Properties of a snapshot."""


class IcebergWriter:
    """Writes one snapshot for each batch. Its summary names the query and the batch, so a batch that was committed is
    recognised after a crash. The catalog makes the commit atomic."""

    def __init__(self, target: IcebergTarget) -> None:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.table.snapshots import Operation
        except ImportError as error:
            raise ConfigError(
                f"the target iceberg needs the package pyiceberg; run: pip install 'gantrymq[iceberg]' ({error})"
            ) from error
        self._replace = Operation.REPLACE
        """Merging of files, which adds no rows."""
        self._name = target.table
        # A connection of an SQL catalog that was lost is opened again, unless the job says otherwise.
        self.catalog: Any = load_catalog("gantry", **{"pool_pre_ping": "true", **target.catalog})

    def exists(self) -> bool:
        return bool(self.catalog.table_exists(self._name))

    def make(self, schema: pa.Schema) -> None:
        """Make the table, or give the one that is there what it lacks of this schema. Raises TableDiffers for types to
        which it cannot grow."""
        if not self.exists():
            self.catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            self.catalog.create_table_if_not_exists(self._name, schema)
        table = self.table()
        if self.lacking(schema):
            with table.update_schema() as update:
                update.union_by_name(schema)

    def lacking(self, schema: pa.Schema) -> Growth:
        """What the table lacks. Raises TableDiffers for types to which it cannot grow."""
        table = self.table()
        widening = Widening(decimal_scale=False, date_to_timestamp=False)
        return growth(table.schema().as_arrow(), _with_its_types(schema), widening, self._name)

    def has(self, query: str, batch: int) -> bool:
        # A query commits its batches in order. The newest of its snapshots decides.
        for snapshot in reversed(self.table().metadata.snapshots):
            facts = snapshot.summary.additional_properties if snapshot.summary else {}
            if facts.get(QUERY) == query:
                return int(facts[BATCH]) >= batch
        return False

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """An Iceberg table has every value that Spark has."""
        return {}

    def stage(self, query: str, batch: int) -> IcebergStage:
        return IcebergStage.of(self.table())

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        return refusal_in(staged) is None

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        if not staged or self.has(query, batch):
            return 0
        table, marks = self.table(), {QUERY: query, BATCH: str(batch)}
        files = files_in(table, staged)
        with table.transaction() as transaction, transaction.update_snapshot(marks).fast_append() as append:
            for one in files:
                append.append_data_file(one)
        return sum(one.rows for one in staged)

    def others(self, query: str) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for number, snapshot in enumerate(self.table().metadata.snapshots):
            summary = snapshot.summary
            if summary is not None and summary.operation is not self._replace:
                facts = summary.additional_properties
                writer = facts.get(QUERY, NOBODY)
                found[writer] = int(facts.get(BATCH, number))
        found.pop(query, None)
        return found

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        # A row does not say which query wrote it. A query that has written here knows its own by its state, so finding
        # those again does no harm while it must look.
        import pyarrow as pa

        names = tuple(keys.column_names)
        reader = self.table().scan(row_filter=between_ends(keys), selected_fields=names).to_arrow_batch_reader()
        wanted = filter_of(keys, reader.schema)
        batches = [batch if wanted is None else batch.filter(wanted) for batch in reader]
        found = pa.Table.from_batches(batches, reader.schema)
        return distinct(found, names) if len(found) else None

    def rows(self) -> int:
        return int(self.table().scan().count())

    def finish(self) -> None:
        """Iceberg's small files are merged by its own maintenance."""

    def close(self) -> None:
        """Iceberg lets several programs write."""

    def table(self) -> Any:
        return self.catalog.load_table(self._name)


def _with_its_types(schema: pa.Schema) -> pa.Schema:
    """Iceberg has no whole numbers with fewer bits than an int."""
    import pyarrow as pa

    narrow = (pa.int8(), pa.int16())
    return pa.schema([field.with_type(pa.int32()) if field.type in narrow else field for field in schema])


def between_ends(keys: pa.Table) -> Any:
    """A filter by the ends of each column that Iceberg's statistics can compare: texts and whole numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual

    found: Any = AlwaysTrue()
    for name in keys.column_names:
        kind = keys.schema.field(name).type
        if pa.types.is_string(kind) or pa.types.is_integer(kind):
            ends = pc.min_max(keys[name]).as_py()
            found = And(found, GreaterThanOrEqual(name, ends["min"]), LessThanOrEqual(name, ends["max"]))
    return found
