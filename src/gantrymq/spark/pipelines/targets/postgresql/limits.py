"""What the columns of a table in PostgreSQL can have, and which rows of a batch do not fit. No I/O.

The server itself names one bad row at a time, and only after the others were sent. So what its types say is checked
here, for whole columns at once. Its constraints, triggers and less usual types are left to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.targets.exact_values import finer, indices, inexact, outside_years

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = """
SELECT a.attname, t.typname, a.atttypmod, a.attnotnull
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""
"""The columns of a table; ``regclass`` takes a name in quotes."""
_BITS: Final = {"int2": 16, "int4": 32, "int8": 64}
_TYPMOD_HEADER: Final = 4
"""PostgreSQL adds so much to the length of a type in ``atttypmod``. Source: VARHDRSZ."""
_SCALE_BITS: Final = 11


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

    @property
    def time_digits(self) -> int | None:
        """The most digits of a second behind its point."""
        return self.modifier if self.type in ("timestamp", "timestamptz") and self.modifier >= 0 else None


def unfit(rows: pa.Table, columns: Iterable[Column]) -> dict[int, str]:
    """The rows that have a value which their column cannot have: by index, with the reason."""
    found: dict[int, str] = {}
    for column in columns:
        if column.name in rows.column_names:
            for mask, reason in _checks(rows[column.name], column):
                for at in indices(mask):
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
    if column.digits is not None:
        precision, scale = column.digits
        reason = f"is a number that does not fit numeric({precision},{scale}) without rounding"
        yield inexact(values, precision, scale), reason
    elif pa.types.is_integer(kind) and column.type in _BITS:
        half = 1 << (_BITS[column.type] - 1)
        if _BITS[column.type] < kind.bit_width:
            outside = pc.or_(pc.less(values, -half), pc.greater(values, half - 1))
            yield outside, f"is a number that is too large for {column.type}"
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        yield outside_years(values), "is not within the years 1 to 9999"
        if column.time_digits is not None:
            yield finer(values, column.time_digits), f"is a time with more than {column.time_digits} digits of a second"
