"""The types that a decoded body can have, and their names in Spark and Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

DECIMAL_DIGITS: Final = 38
"""The most digits that a decimal of Spark can have."""
FIRST_MICROS: Final = -62_135_596_800_000_000
LAST_MICROS: Final = 253_402_300_799_999_999
"""The years 1 to 9999, in microseconds since 1970. Other times cannot be read in Python, or by most databases."""
DAY_MICROS: Final = 86_400_000_000


class Scalar(Enum):
    """A type without its parts. The value is its name in Spark."""

    STRING = "string"
    BINARY = "binary"
    BYTE = "tinyint"
    SHORT = "smallint"
    INT = "int"
    LONG = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    LOCAL_TIMESTAMP = "timestamp_ntz"
    DATE = "date"
    STRUCT = "struct"
    ARRAY = "array"
    MAP = "map"
    """From strings to something."""


BITS: Final = {Scalar.BYTE: 8, Scalar.SHORT: 16, Scalar.INT: 32, Scalar.LONG: 64}
"""The whole numbers."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type: a scalar, or a struct with fields, or an array or map of another type."""

    scalar: Scalar
    fields: tuple[Field, ...] = ()
    of: ColumnType | None = None
    precision: int = 0
    """decimal: how many digits there are,"""
    scale: int = 0
    """and how many of them are behind the point."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: ColumnType
    required: bool = False
    """Whether an event without it is none."""


def ddl_type(kind: ColumnType) -> str:
    """The type as Spark writes it."""
    if kind.scalar is Scalar.STRUCT:
        return "struct<" + ",".join(f"{quoted(field.name)}:{ddl_type(field.kind)}" for field in kind.fields) + ">"
    if kind.scalar is Scalar.DECIMAL:
        return f"decimal({kind.precision},{kind.scale})"
    if kind.of is None:
        return kind.scalar.value
    return f"map<string,{ddl_type(kind.of)}>" if kind.scalar is Scalar.MAP else f"array<{ddl_type(kind.of)}>"


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The type that Spark expects in Arrow."""
    import pyarrow as pa

    if kind.scalar is Scalar.STRUCT:
        return pa.struct([pa.field(field.name, arrow_type(field.kind)) for field in kind.fields])
    if kind.of is not None:
        inner = arrow_type(kind.of)
        return pa.map_(pa.string(), inner) if kind.scalar is Scalar.MAP else pa.list_(inner)
    if kind.scalar is Scalar.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return {
        Scalar.STRING: pa.string(), Scalar.BINARY: pa.binary(), Scalar.BYTE: pa.int8(), Scalar.SHORT: pa.int16(),
        Scalar.INT: pa.int32(), Scalar.LONG: pa.int64(), Scalar.FLOAT: pa.float32(), Scalar.DOUBLE: pa.float64(),
        Scalar.BOOLEAN: pa.bool_(), Scalar.TIMESTAMP: pa.timestamp("us", tz="UTC"),
        Scalar.LOCAL_TIMESTAMP: pa.timestamp("us"), Scalar.DATE: pa.date32(),
    }[kind.scalar]  # fmt: skip


def quoted(name: str) -> str:
    """A name as Spark's SQL takes every name."""
    return "`" + name.replace("`", "``") + "`"
