"""How a table grows to the columns of a job: new ones, and wider types. Arrow schemas and tables, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def as_wide(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with all columns of a table: those that they lack are null."""
    import pyarrow as pa

    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
