"""The target ``iceberg``: an Iceberg table in a catalog of ``pyiceberg``, which needs no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import IcebergTarget

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
        except ImportError as error:
            raise ConfigError(
                f"the target iceberg needs the package pyiceberg; run: pip install 'gantrymq[iceberg]' ({error})"
            ) from error
        self._name = target.table
        self._catalog: Any = load_catalog("gantry", **target.catalog)

    def has(self, query: str, batch: int) -> bool:
        table = self._table()
        if table is None:
            return False
        # A query commits its batches in order. The newest of its snapshots decides.
        for snapshot in reversed(table.metadata.snapshots):
            facts = snapshot.summary.additional_properties if snapshot.summary else {}
            if facts.get(QUERY) == query:
                return int(facts[BATCH]) >= batch
        return False

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not len(rows) or self.has(query, batch):
            return 0
        table = self._table() or self._create(rows.schema)
        table.append(rows, snapshot_properties={QUERY: query, BATCH: str(batch)})
        return len(rows)

    def keys_of_others(self, query: str, columns: Sequence[str]) -> pa.Table | None:
        table = self._table()
        return table.scan(selected_fields=tuple(columns)).to_arrow() if table else None

    def rows(self) -> int:
        table = self._table()
        return int(table.scan().count()) if table else 0

    def finish(self) -> None:
        """Iceberg's small files are merged by its own maintenance."""

    def close(self) -> None:
        """Iceberg lets several programs write."""

    def _table(self) -> Any:
        return self._catalog.load_table(self._name) if self._catalog.table_exists(self._name) else None

    def _create(self, schema: pa.Schema) -> Any:
        self._catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        return self._catalog.create_table(self._name, schema)
