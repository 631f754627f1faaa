"""The target ``delta``: a Delta table, written by the library ``deltalake``, which needs no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import DeltaTarget

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

    def has(self, query: str, batch: int) -> bool:
        table = self._table()
        version = table.transaction_version(query) if table else None
        return version is not None and version >= batch

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not len(rows) or self.has(query, batch):
            return 0
        commit = self._delta.CommitProperties(app_transactions=[self._delta.Transaction(query, batch)])
        self._delta.write_deltalake(self._path, rows, mode="append", commit_properties=commit)
        self._batches += 1
        if self._batches % COMPACT_AFTER == 0:
            self._delta.DeltaTable(self._path).optimize.compact()
        return len(rows)

    def keys_of_others(self, query: str, columns: Sequence[str]) -> pa.Table | None:
        table = self._table()
        # Rows do not say which query wrote them. A query that has written here knows its own rows by its state, so
        # finding them again does no harm.
        return table.to_pyarrow_table(columns=list(columns)) if table else None

    def rows(self) -> int:
        table = self._table()
        return int(table.to_pyarrow_dataset().count_rows()) if table else 0

    def finish(self) -> None:
        table = self._table()
        if table and self._batches:
            table.optimize.compact()

    def close(self) -> None:
        """Delta lets several programs write."""

    def _table(self) -> Any:
        return self._delta.DeltaTable(self._path) if self._delta.DeltaTable.is_deltatable(self._path) else None
