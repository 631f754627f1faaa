"""The types that a decoded body can have, and their names in Spark and Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Scalar(Enum):
    """A type without its parts. The value is its name in Spark."""

    STRING = "string"
    BINARY = "binary"
    INT = "int"
    LONG = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    DATE = "date"
    STRUCT = "struct"
    ARRAY = "array"
    MAP = "map"
    """From strings to something."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type: a scalar, or a struct with fields, or an array or map of another type."""

    scalar: Scalar
    fields: tuple[Field, ...] = ()
    of: Kind | None = None


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind


def ddl_type(kind: Kind) -> str:
    """The type as Spark writes it."""
    if kind.scalar is Scalar.STRUCT:
        return "struct<" + ",".join(f"`{field.name}`:{ddl_type(field.kind)}" for field in kind.fields) + ">"
    if kind.of is None:
        return kind.scalar.value
    return f"map<string,{ddl_type(kind.of)}>" if kind.scalar is Scalar.MAP else f"array<{ddl_type(kind.of)}>"


def arrow_type(kind: Kind) -> pa.DataType:
    """The type that Spark expects in Arrow."""
    import pyarrow as pa

    if kind.scalar is Scalar.STRUCT:
        return pa.struct([pa.field(field.name, arrow_type(field.kind)) for field in kind.fields])
    if kind.of is not None:
        inner = arrow_type(kind.of)
        return pa.map_(pa.string(), inner) if kind.scalar is Scalar.MAP else pa.list_(inner)
    return {
        Scalar.STRING: pa.string(), Scalar.BINARY: pa.binary(), Scalar.INT: pa.int32(), Scalar.LONG: pa.int64(),
        Scalar.FLOAT: pa.float32(), Scalar.DOUBLE: pa.float64(), Scalar.BOOLEAN: pa.bool_(),
        Scalar.TIMESTAMP: pa.timestamp("us", tz="UTC"), Scalar.DATE: pa.date32(),
    }[kind.scalar]  # fmt: skip
