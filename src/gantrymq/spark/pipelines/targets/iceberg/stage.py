"""Tasks write the data files of an Iceberg table, and describe them as Iceberg does. No snapshot names them yet."""

from __future__ import annotations

import pickle  # nosec B403 # what this module has written itself
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.targets.staging import Staged

if TYPE_CHECKING:
    import pyarrow as pa

_OF_THE_PAST: Final[dict[str, Any]] = {
    "snapshots": [],
    "snapshot_log": [],
    "metadata_log": [],
    "refs": {},
    "current_snapshot_id": None,
}
"""A task that writes needs to know nothing of these, and they grow with each batch."""


@dataclass(frozen=True, slots=True)
class IcebergStage:
    """Writes the rows of a task as files in the storage of the table. Files that are never committed are deleted by
    Iceberg's own maintenance ("remove orphan files")."""

    metadata: str
    """Of the table, as JSON."""
    storage: Mapping[str, str]
    """The properties by which its files are reached."""

    @classmethod
    def of(cls, table: Any) -> IcebergStage:
        storage = {name: value for name, value in table.io.properties.items() if name != "uri"}
        return cls(table.metadata.model_copy(update=_OF_THE_PAST).model_dump_json(), storage)

    def write(self, rows: Iterable[pa.RecordBatch], task: int) -> Iterator[Staged]:
        import pyarrow as pa
        from pyiceberg.io import load_file_io
        from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible, _dataframe_to_data_files
        from pyiceberg.table.metadata import TableMetadataUtil

        batches = iter(rows)
        first = next((one for one in batches if one.num_rows), None)
        if first is None:
            return
        metadata = TableMetadataUtil.parse_raw(self.metadata)
        _check_pyarrow_schema_compatible(metadata.schema(), first.schema, format_version=metadata.format_version)
        reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
        # Of a partitioned table, the rows of the task must be there at once.
        given = reader if metadata.spec().is_unpartitioned() else reader.read_all()
        io = load_file_io(dict(self.storage), metadata.location)
        for file in _dataframe_to_data_files(metadata, given, io):
            yield Staged(file.record_count, pickle.dumps(file))


def files_in(table: Any, staged: Sequence[Staged]) -> list[Any]:
    """The files that tasks have described. Raises ConfigError when the driver does not see one of them."""
    files = [pickle.loads(one.content) for one in staged]  # nosec B301 # the same
    for one in files:
        if not table.io.new_input(one.file_path).exists():
            raise ConfigError(
                f"an executor has written {one.file_path}, and it is not there for the driver; give the catalog a "
                "warehouse that all machines share, such as an object store"
            )
    return files
