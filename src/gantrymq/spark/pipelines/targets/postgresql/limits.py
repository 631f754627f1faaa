"""What the columns of a table in PostgreSQL can have, and which rows of a batch do not fit. No I/O.

The server itself names one bad row at a time, and only after the others were sent. So what its types say is checked
here, for whole columns at once. Its constraints, triggers and less usual types are left to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.formats.column_types import FIRST_MICROS, LAST_MICROS

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = """
SELECT a.attname, t.typname, a.atttypmod, a.attnotnull
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped"""
"""The columns of a table; ``regclass`` takes a name in quotes."""
_BITS: Final = {"int2": 16, "int4": 32, "int8": 64}
_TYPMOD_HEADER: Final = 4
"""PostgreSQL adds so much to the length of a type in ``atttypmod``. Source: VARHDRSZ."""
_SCALE_BITS: Final = 11
_DAY_MICROS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    name: str
    type: str
    modifier: int
    """-1, or what the type says of its length or digits."""
    required: bool

    @property
    def length(self) -> int | None:
        """The most characters of a text."""
        return self.modifier - _TYPMOD_HEADER if self.type in ("varchar", "bpchar") and self.modifier >= 0 else None

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a numeric."""
        if self.type != "numeric" or self.modifier < 0:
            return None
        both = self.modifier - _TYPMOD_HEADER
        scale = both & ((1 << _SCALE_BITS) - 1)
        # The scale is a number of 11 bits with a sign.
        return both >> 16, scale - ((scale & (1 << (_SCALE_BITS - 1))) << 1)


def unfit(rows: pa.Table, columns: Iterable[Column]) -> dict[int, str]:
    """The rows that have a value which their column cannot have: by index, with the reason."""
    found: dict[int, str] = {}
    for column in columns:
        if column.name in rows.column_names:
            for mask, reason in _checks(rows[column.name], column):
                for at in _true(mask):
                    found.setdefault(at, f"the column {column.name} {reason}")
    return found


def _checks(values: pa.ChunkedArray, column: Column) -> Iterator[tuple[Any, str]]:
    """Masks of the values that do not fit, each with what is wrong with them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if column.required and values.null_count:
        yield pc.is_null(values), "is null, and the table says NOT NULL"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        yield pc.match_substring(values, "\0"), "has the character NUL, which no text in PostgreSQL can have"
        if column.length is not None:
            # Spaces at the end that do not fit are cut off by the server.
            length = pc.utf8_length(pc.utf8_rtrim(values, " "))
            yield pc.greater(length, column.length), f"is too long for {column.length} characters"
    elif pa.types.is_integer(kind) and column.type in _BITS:
        half = 1 << (_BITS[column.type] - 1)
        if _BITS[column.type] < kind.bit_width:
            outside = pc.or_(pc.less(values, -half), pc.greater(values, half - 1))
            yield outside, f"is a number that is too large for {column.type}"
    elif column.digits is not None and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        precision, scale = column.digits
        reason = f"is a number that does not fit numeric({precision},{scale}) without rounding"
        yield _inexact(values, precision, scale), reason
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        number = values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(kind) else values.cast(pa.int64())
        unit = _DAY_MICROS if pa.types.is_date(kind) else 1
        outside = pc.or_(pc.less(number, FIRST_MICROS // unit), pc.greater(number, LAST_MICROS // unit))
        yield outside, "is not within the years 1 to 9999"


def _inexact(values: pa.ChunkedArray, precision: int, scale: int) -> Any:
    """Which numbers have more digits than this, before or behind the point."""
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
            Decimal(value).quantize(Decimal(1).scaleb(-scale), context=context)
        except (Inexact, InvalidOperation):
            return True
        return False

    return pa.chunked_array([pa.array([one is not None and is_inexact(one) for one in values.to_pylist()], pa.bool_())])


def _true(mask: Any) -> list[int]:
    import pyarrow.compute as pc

    return list(pc.indices_nonzero(mask).to_pylist())
