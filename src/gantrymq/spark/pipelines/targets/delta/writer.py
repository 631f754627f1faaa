"""The target ``delta``: a Delta table, written by the library ``deltalake``, which needs no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.pipelines.job import DeltaTarget
from gantrymq.spark.pipelines.targets.delta import growth as delta_growth
from gantrymq.spark.pipelines.targets.delta import log as delta_log
from gantrymq.spark.pipelines.targets.growth import Growth
from gantrymq.spark.pipelines.targets.object_stores import not_opened
from gantrymq.spark.pipelines.targets.parquet_file import File, write_file
from gantrymq.spark.pipelines.targets.port import NOBODY
from gantrymq.spark.pipelines.targets.rows_by_key import distinct, filter_of
from gantrymq.spark.pipelines.targets.staging import Staged, refusal_in

if TYPE_CHECKING:
    import pyarrow as pa

COMPACT_AFTER = 50
"""After so many batches small files are merged. Older versions of the table stay readable until it is vacuumed."""


class DeltaWriter:
    """Commits the files of one batch at a time. The commit carries the query and the batch as Delta's application
    transaction, so a batch that was committed is recognised after a crash."""

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
        try:
            return bool(self._delta.DeltaTable.is_deltatable(self._path))
        except OSError as error:
            raise not_opened(self._path, error) from error

    def make(self, schema: pa.Schema) -> None:
        """Make the table, or give the one that is there what it lacks of this schema. Raises TableDiffers for types to
        which it cannot grow."""
        try:
            self._delta.DeltaTable.create(self._path, schema=schema, mode="ignore")
        except OSError as error:
            raise not_opened(self._path, error) from error
        delta_growth.grow(self.table(), schema)

    def lacking(self, schema: pa.Schema) -> Growth:
        """What the table lacks. Raises TableDiffers for types to which it cannot grow."""
        return delta_growth.lacking(self.table(), schema)

    def has(self, query: str, batch: int) -> bool:
        version = self.table().transaction_version(query)
        return version is not None and version >= batch

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """A Delta table has every value that Spark has."""
        return {}

    def stage(self, query: str, batch: int) -> DeltaStage:
        import pyarrow as pa

        schema = pa.schema(self.table().schema().to_arrow())
        return DeltaStage(self._path, schema, f"gantry-{query}-{batch:010d}")

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        return refusal_in(staged) is None

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        if not staged or self.has(query, batch):
            return 0
        table, files = self.table(), [File.decoded(one.content) for one in staged]
        _check_there(table, files)
        commit = self.commit_of(query, batch)
        if delta_log.is_plain(table):
            table.create_write_transaction(
                [_added(one) for one in files], "append", table.schema(), commit_properties=commit
            )
        else:
            # A partitioned table, or one with conditions: the library must see the rows. They go by in small parts.
            self._delta.write_deltalake(self._path, rows_of(table, files), mode="append", commit_properties=commit)
            remove(table, files)
        self._batches += 1
        if self._batches % COMPACT_AFTER == 0:
            self.compact()
        return sum(one.rows for one in files)

    def commit_of(self, query: str, batch: int) -> Any:
        """What a commit says of itself."""
        return self._delta.CommitProperties(app_transactions=[self._delta.Transaction(query, batch)])

    def others(self, query: str) -> Mapping[str, int]:
        table = self.table()
        found = delta_log.applications(table)
        if query not in found and not found and table.file_uris():
            return {NOBODY: table.version()}
        return {name: batch for name, batch in found.items() if name != query}

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        # Files that were merged have rows of several queries. A query that has written here knows its own by its state,
        # so finding those again does no harm while it must look.
        dataset = self.table().to_pyarrow_dataset()
        found = dataset.to_table(columns=keys.column_names, filter=filter_of(keys, dataset.schema))
        return distinct(found, keys.column_names) if len(found) else None

    def rows(self) -> int:
        return int(self.table().to_pyarrow_dataset().count_rows())

    def finish(self) -> None:
        if self._batches:
            self.compact()

    def compact(self) -> None:
        """Merge small files."""
        self.table().optimize.compact()

    def close(self) -> None:
        """Delta lets several programs write."""

    def table(self) -> Any:
        return self._delta.DeltaTable(self._path)


@dataclass(frozen=True, slots=True)
class DeltaStage:
    """Writes files beside those of the table. The log does not name them yet, so no reader sees them. VACUUM deletes
    those that are never committed."""

    path: str
    schema: pa.Schema
    """Of the table."""
    prefix: str

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        files, name = delta_log.files_of(self.path), f"{self.prefix}-{SystemRng().token(8).hex()}.parquet"
        written = write_file(name, lambda: files.open_output_stream(name), map(self._fitted, rows))
        if written is not None:
            yield Staged(written.rows, written.encoded())

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the types of the table. Its other columns read null."""
        import pyarrow as pa

        names = set(batch.schema.names)
        unknown = names - set(self.schema.names)
        if unknown:
            raise ConfigError(
                f"{self.path} has no column {', '.join(sorted(unknown))}; add it, or change the projection"
            )
        missing = [one.name for one in self.schema if not one.nullable and (
            one.name not in names or batch.column(one.name).null_count)]  # fmt: skip
        if missing:
            raise ConfigError(f"{self.path}: the column {missing[0]} is null, and the table says NOT NULL")
        wanted = pa.schema([one for one in self.schema if one.name in names])
        return batch.select(wanted.names).cast(wanted)


def rows_of(table: Any, files: Sequence[File]) -> Any:
    """The rows of staged files, as a stream of Arrow batches that needs little memory."""
    import pyarrow.dataset as ds

    paths = [one.path for one in files]
    dataset = ds.dataset(paths, format="parquet", filesystem=delta_log.files_of(table.table_uri))
    return dataset.scanner(batch_readahead=2, fragment_readahead=1).to_reader()


def remove(table: Any, files: Sequence[File]) -> None:
    """Delete staged files whose rows were written in another way."""
    for one in files:
        delta_log.files_of(table.table_uri).delete_file(one.path)


def _check_there(table: Any, files: Sequence[File]) -> None:
    """Raise ConfigError when the executors have written where the driver does not see it: a table with a file that is
    missing could not be read any more."""
    there = delta_log.files_of(table.table_uri)
    for found, one in zip(there.get_file_info([one.path for one in files]), files, strict=True):
        if found.size != one.size:
            raise ConfigError(
                f"an executor has written {one.path} into {table.table_uri}, and it is not there for the driver; give "
                "a place that all machines share, such as an object store"
            )


def _added(one: File) -> Any:
    from deltalake.transaction import AddAction

    stats = {
        "numRecords": one.rows,
        "minValues": {name: ends[0] for name, ends in one.ends.items()},
        "maxValues": {name: ends[1] for name, ends in one.ends.items()},
        "nullCount": one.nulls,
    }
    modified = SystemClock().wall_ms()
    return AddAction(one.path, one.size, {}, modified, True, msgspec.json.encode(stats).decode())
