"""The target ``delta``: a Delta table, written by the library ``deltalake``, which needs no JVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import DeltaTarget
from gantrymq.spark.pipelines.known_rows import distinct, filter_of
from gantrymq.spark.pipelines.others import NOBODY
from gantrymq.spark.pipelines.targets.delta_log import applications

if TYPE_CHECKING:
    import pyarrow as pa

COMPACT_AFTER = 50
"""After so many batches small files are merged. Older versions of the table stay readable until it is vacuumed."""


class DeltaWriter:
    """Writes one commit for each batch. The commit carries the query and the batch as Delta's application transaction,
    so a batch that was committed is recognised after a crash."""

    def __init__(self, target: DeltaTarget) -> None:
        try:
            import deltalake
        except ImportError as error:
            raise ConfigError(
                f"the target delta needs the package deltalake; run: pip install 'gantrymq[delta]' ({error})"
            ) from error
        self._delta: Any = deltalake
        self._path = target.path
        self._batches = 0

    def exists(self) -> bool:
        return bool(self._delta.DeltaTable.is_deltatable(self._path))

    def make(self, schema: pa.Schema) -> None:
        """Make the table, unless it is there."""
        self._delta.DeltaTable.create(self._path, schema=schema, mode="ignore")

    def has(self, query: str, batch: int) -> bool:
        version = self._table().transaction_version(query)
        return version is not None and version >= batch

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """A Delta table has every value that Spark has."""
        return {}

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not len(rows) or self.has(query, batch):
            return 0
        commit = self._delta.CommitProperties(app_transactions=[self._delta.Transaction(query, batch)])
        self._delta.write_deltalake(self._path, rows, mode="append", commit_properties=commit)
        self._batches += 1
        if self._batches % COMPACT_AFTER == 0:
            self._delta.DeltaTable(self._path).optimize.compact()
        return len(rows)

    def others(self, query: str) -> Mapping[str, int]:
        table = self._table()
        found = applications(table)
        if query not in found and not found and table.file_uris():
            return {NOBODY: table.version()}
        return {name: batch for name, batch in found.items() if name != query}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        # Files that were merged have rows of several queries. A query that has written here knows its own by its state,
        # so finding those again does no harm while it must look.
        dataset = self._table().to_pyarrow_dataset()
        found = dataset.to_table(columns=keys.column_names, filter=filter_of(keys, dataset.schema))
        return distinct(found, keys.column_names) if len(found) else None

    def rows(self) -> int:
        return int(self._table().to_pyarrow_dataset().count_rows())

    def finish(self) -> None:
        if self._batches:
            self._table().optimize.compact()

    def close(self) -> None:
        """Delta lets several programs write."""

    def _table(self) -> Any:
        return self._delta.DeltaTable(self._path)
