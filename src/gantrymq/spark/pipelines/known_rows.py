"""Leaves out the rows of a batch that a table has already, found by their key. Arrow tables in and out, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
