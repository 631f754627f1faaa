"""Leaves out the rows of a batch that a table has already, found by their key. Arrow tables in and out, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def without(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key is not among ``known``, in their order. A row with null in its key is never known.

    The columns of ``known`` may have other types, as names of directories are text: they are cast to those of ``rows``.
    """
    import pyarrow as pa

    if not len(rows) or not len(known):
        return rows
    names = list(key)
    # Only the key takes part in the join: Arrow cannot join tables with lists or structs.
    keys = rows.select(names)
    same = known.select(names).cast(keys.schema)
    numbered = keys.append_column("_row", pa.array(range(len(rows)), pa.int64()))
    return rows.take(numbered.join(same, keys=names, join_type="left anti")["_row"].sort())


def distinct(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of rows, each once."""
    return rows.select(list(key)).group_by(list(key)).aggregate([])


def _of_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values that a type can have: a file may be older than the wider type of its table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(kind) and pa.types.is_integer(values.type) and kind.bit_width < values.type.bit_width:
        half = 1 << (kind.bit_width - 1)
        values = values.filter(pc.and_(pc.greater_equal(values, -half), pc.less(values, half)))
    return values.cast(kind)


def filter_of(keys: pa.Table, types: pa.Schema) -> Any:
    """A filter for the rows of a table that may have one of these keys. The ends of each column come first, so files
    whose statistics exclude them are not read. ``types``: of the table. None: no column can be compared."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: Any = None
    for name in keys.column_names:
        kind = types.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
            continue
        values = _of_type(keys[name].combine_chunks(), kind)
        ends = pc.min_max(values)
        field = pc.field(name)
        part = (field >= ends["min"]) & (field <= ends["max"]) & field.isin(values)
        found = part if found is None else found & part
    return found
