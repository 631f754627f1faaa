"""Keys and orders as texts, in which targets remember the rows that were deleted. No I/O.

The texts depend on values only, not on their types: a key is the same when its column has become wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from gantrymq.spark.pipelines.changes.rows import CHANGE, DELETE
from gantrymq.spark.pipelines.formats.column_types import DAY_MICROS, DECIMAL_DIGITS

if TYPE_CHECKING:
    import pyarrow as pa

Position: TypeAlias = tuple[Any, ...]
"""An order, and how strong it is."""
_UPSERT, _LEFT_OUT, _DELETE = 0, 1, 2
"""Of equal order, a delete counts, and otherwise the first event. What an earlier query of the target has left out may
come back: that is what a backfill is for when the query was corrected."""
_EXACT: Final = Context(prec=DECIMAL_DIGITS)


def keys_of(rows: pa.Table, names: Sequence[str]) -> list[str]:
    """The key of each row: a list in JSON."""
    columns = [_plain(rows[name]) for name in names]
    return [msgspec.json.encode(values).decode() for values in zip(*columns, strict=True)]


def positions_of(rows: pa.Table, order_by: Sequence[str], query: str) -> list[str]:
    """The order of rows that go, and the query that leaves them out; empty for deletes. A list in JSON."""
    columns = [_plain(rows[name]) for name in order_by]
    reasons = ["" if change == DELETE else query for change in rows[CHANGE].to_pylist()]
    return [msgspec.json.encode(values).decode() for values in zip(*columns, reasons, strict=True)]


def newest(positions: Iterable[tuple[str, str]], kinds: Sequence[pa.DataType], query: str) -> dict[str, Position]:
    """Of pairs of a key and a position, the last one of each key. ``kinds``: the types of the order."""
    found: dict[str, Position] = {}
    for key, text in positions:
        position = position_of(text, kinds, query)
        if key not in found or found[key] < position:
            found[key] = position
    return found


def position_of(text: str, kinds: Sequence[pa.DataType], query: str) -> Position:
    """What compares as positions do. ``query``: of the target, as a name."""
    *values, reason = msgspec.json.decode(text)
    rank = _DELETE if not reason else _LEFT_OUT if reason == query else _UPSERT
    return (*(_comparable(value, kind) for value, kind in zip(values, kinds, strict=True)), rank)


def not_behind(rows: pa.Table, key: Sequence[str], order_by: Sequence[str], known: Mapping[str, Position]) -> pa.Table:
    """The upserts that no delete is behind. ``known``: the position of deletes by key."""
    if not known or not len(rows):
        return rows
    import pyarrow as pa

    kinds = [rows.schema.field(name).type for name in order_by]
    orders = zip(*(_plain(rows[name]) for name in order_by), strict=True)

    def is_newer(one: str, order: Sequence[Any]) -> bool:
        values = (_comparable(value, kind) for value, kind in zip(order, kinds, strict=True))
        return one not in known or (*values, _UPSERT) >= known[one]

    kept = [is_newer(one, order) for one, order in zip(keys_of(rows, key), orders, strict=True)]
    return rows.filter(pa.array(kept, pa.bool_()))


def _comparable(value: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    return Decimal(value) if pa.types.is_decimal(kind) else value


def _plain(values: pa.ChunkedArray) -> list[Any]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_timestamp(kind):
        return list(values.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist())
    if pa.types.is_date(kind):
        # As a timestamp, which the column may become.
        days = values.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if one is None else one * DAY_MICROS for one in days]
    if pa.types.is_decimal(kind):
        return [str(value.normalize(_EXACT)) if value else "0" for value in values.to_pylist()]
    return list(values.to_pylist())
