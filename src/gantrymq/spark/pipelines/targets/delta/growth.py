"""A Delta table grows to the columns of a job. A new column is a commit without files; a wider type rewrites the table
once, in one commit: other readers need not know Delta's type widening then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gantrymq.spark.pipelines.targets.growth import Growth, Widening, as_wide, grown, growth

if TYPE_CHECKING:
    import pyarrow as pa


def lacking(table: Any, wanted: pa.Schema) -> Growth:
    """What a table lacks. Raises TableDiffers for types to which it cannot grow."""
    return growth(_schema(table), wanted, Widening(), table.table_uri)


def grow(table: Any, wanted: pa.Schema) -> None:
    """Give a table what it lacks. After a crash it is as before, or has grown."""
    growing = lacking(table, wanted)
    if growing.widened:
        _rewrite(table, grown(_schema(table), growing))
    elif growing.added:
        import pyarrow as pa
        from deltalake import Schema

        table.alter.add_columns(Schema.from_arrow(pa.schema(growing.added)).fields)


def _rewrite(table: Any, schema: pa.Schema) -> None:
    import deltalake
    import pyarrow as pa

    dataset = table.to_pyarrow_dataset()

    def rows() -> Iterator[pa.RecordBatch]:
        # A few parts at a time, however large the table is.
        for batch in dataset.scanner(batch_readahead=2, fragment_readahead=1).to_reader():
            yield from as_wide(pa.Table.from_batches([batch]), schema).to_batches()

    deltalake.write_deltalake(
        table,
        pa.RecordBatchReader.from_batches(schema, rows()),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=table.metadata().partition_columns or None,
    )


def _schema(table: Any) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())
