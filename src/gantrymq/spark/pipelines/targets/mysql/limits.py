"""What the columns of a table in MySQL can have without changing it, and which rows of a batch do not fit. No I/O.

Also in its strict mode MySQL changes values without an error: it rounds numbers and times, cuts off or adds spaces and
zero bytes. So a column of the job must be of a type that its column in the table can have, and values are looked at
here, for whole columns at once. Constraints, triggers and the lengths of long texts are left to the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.targets.exact_values import finer, indices, inexact, outside_years
from gantrymq.spark.pipelines.targets.growth import type_name

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = """
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE LIKE '%%unsigned%%', IS_NULLABLE = 'NO', CHARACTER_MAXIMUM_LENGTH,
    NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, COLLATION_NAME, EXTRA LIKE '%%auto_increment%%'
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s
ORDER BY ORDINAL_POSITION"""
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_FIXED: Final = ("char", "binary")
_TEXTS: Final = ("varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "char")
_BYTES: Final = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob", "binary")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    name: str
    type: str
    unsigned: bool
    required: bool
    length: int | None
    """Characters of a text, or bytes."""
    precision: int | None
    scale: int | None
    time_digits: int | None
    collation: str | None
    """By which texts are compared; None: they are not texts."""
    counts: bool
    """The server counts its values up."""

    @classmethod
    def of(cls, row: Iterable[Any]) -> Column:
        """Of a row of ``COLUMNS``."""
        name, kind, unsigned, required, length, precision, scale, digits, collation, counts = row
        return cls(
            name, kind.lower(), bool(unsigned), bool(required), length, precision, scale, digits, collation,
            bool(counts),
        )  # fmt: skip

    @property
    def ends(self) -> tuple[int, int] | None:
        """The least and the largest number of a whole one."""
        bits = _BITS.get(self.type)
        if bits is None:
            return None
        return (0, (1 << bits) - 1) if self.unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)

    def can_have(self, kind: pa.DataType) -> bool:
        """Whether values of this type stay what they are, if they fit."""
        import pyarrow as pa

        types = pa.types
        if types.is_string(kind) or types.is_large_string(kind):
            return self.type in _TEXTS or self.type in _BYTES
        if types.is_binary(kind) or types.is_large_binary(kind):
            return self.type in _BYTES
        if types.is_boolean(kind):
            return self.type in _BITS
        if types.is_integer(kind):
            return self.type in _BITS or self.type == "decimal"
        if types.is_decimal(kind):
            return self.type == "decimal" or (self.type in _BITS and kind.scale == 0)
        if types.is_floating(kind):
            return self.type == "double" or (self.type == "float" and kind.bit_width == 32)
        if types.is_timestamp(kind):
            return self.type in ("datetime", "timestamp")
        return types.is_date(kind) and self.type == "date"


def unlike(rows: pa.Schema, columns: Iterable[Column]) -> Iterator[str]:
    """The columns of the job that the table does not have, or not with such a type; each with what to do."""
    known = {one.name: one for one in columns}
    for field in rows:
        column = known.get(field.name)
        if column is None:
            yield f"the table has no column {field.name}; add it, or leave it out of the query"
        elif not column.can_have(field.type):
            yield (
                f"the column {field.name} is {column.type} in the table and {type_name(field.type)} in the job, which "
                "MySQL would convert; change the table, or convert it in the query (cast, or to_json for a struct)"
            )


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
    if column.type in ("char", "varchar") and column.length is not None:
        yield pc.greater(pc.utf8_length(values), column.length), f"is too long for {column.length} characters"
        if column.type == "char":
            yield pc.ends_with(values, " "), "ends with a space, which MySQL takes away in char"
    elif column.type in ("binary", "varbinary") and column.length is not None:
        length = pc.binary_length(values)
        yield pc.greater(length, column.length), f"is too long for {column.length} bytes"
        if column.type == "binary":
            yield pc.less(length, column.length), f"has fewer than {column.length} bytes, and MySQL would add some"
    elif column.ends is not None and not pa.types.is_boolean(kind):
        least, largest = (pa.scalar(end, pa.decimal128(20, 0)) for end in column.ends)
        number = values.cast(pa.decimal128(38, 0))
        outside = pc.or_(pc.less(number, least), pc.greater(number, largest))
        yield outside, f"is a number that does not fit {'unsigned ' if column.unsigned else ''}{column.type}"
    elif column.type == "decimal" and column.precision is not None and column.scale is not None:
        reason = f"is a number that does not fit decimal({column.precision},{column.scale}) without rounding"
        yield inexact(values, column.precision, column.scale), reason
        if column.unsigned:
            yield pc.less(values.cast(pa.decimal256(76, 38)), pa.scalar(0, pa.decimal256(76, 38))), "is below 0"
    elif pa.types.is_floating(kind):
        yield pc.invert(pc.is_finite(values)), "is not a finite number, which MySQL cannot have"
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        yield outside_years(values), "is not within the years 1 to 9999"
        if column.time_digits is not None:
            yield finer(values, column.time_digits), f"is a time with more than {column.time_digits} digits of a second"
