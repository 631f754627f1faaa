"""Which values of a column another type of column can have without changing them, and rows as values of Python. No
I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.formats.column_types import FIRST_MICROS, LAST_MICROS

if TYPE_CHECKING:
    import pyarrow as pa

_DAY_MICROS: Final = 86_400_000_000
_MICRO_DIGITS: Final = 6


def inexact(values: pa.ChunkedArray, precision: int, scale: int) -> Any:
    """Which numbers have more digits than this, before or behind the point. Numbers may be texts; a text that is not a
    number is left to the server."""
    import pyarrow as pa

    if pa.types.is_decimal(values.type) and 0 <= scale <= precision <= 38:
        try:
            values.cast(pa.decimal128(precision, scale))
        except pa.ArrowInvalid:
            pass
        else:
            return pa.chunked_array([pa.array([], pa.bool_())])
    context = Context(prec=max(precision, 1), traps=[Inexact, InvalidOperation])

    def is_inexact(value: Any) -> bool:
        try:
            # A double is sent as the shortest text that names it, and so it is read.
            number = Decimal(repr(value) if isinstance(value, float) else value)
        except InvalidOperation:
            return False
        try:
            if number.is_finite():
                number.quantize(Decimal(1).scaleb(-scale), context=context)
        except (Inexact, InvalidOperation):
            return True
        return False

    return pa.chunked_array([pa.array([one is not None and is_inexact(one) for one in values.to_pylist()], pa.bool_())])


def outside_years(values: pa.ChunkedArray) -> Any:
    """Which dates and timestamps are not within the years 1 to 9999. The unit of timestamps is a microsecond."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_date = pa.types.is_date(values.type)
    number = values.cast(pa.int32()).cast(pa.int64()) if is_date else values.cast(pa.int64())
    unit = _DAY_MICROS if is_date else 1
    return pc.or_(pc.less(number, FIRST_MICROS // unit), pc.greater(number, LAST_MICROS // unit))


def finer(values: pa.ChunkedArray, digits: int) -> Any:
    """Which timestamps have more digits of a second than this. The unit is a microsecond."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_date(values.type) or digits >= _MICRO_DIGITS:
        return pa.chunked_array([pa.array([], pa.bool_())])
    micros = values.cast(pa.int64()).fill_null(0).to_numpy()
    return pa.chunked_array([pa.array(np.remainder(micros, 10 ** (_MICRO_DIGITS - digits)) != 0)])


def indices(mask: Any) -> list[int]:
    """Where a mask is true."""
    import pyarrow.compute as pc

    return list(pc.indices_nonzero(mask).to_pylist())


def tuples(rows: pa.Table) -> Iterator[Sequence[Any]]:
    """The values of each row."""
    for batch in rows.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
