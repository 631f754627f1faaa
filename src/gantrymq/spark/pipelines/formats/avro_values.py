"""Follows a plan of ``avro_resolution`` for one value, as fastavro has read it by the writer's schema."""

from __future__ import annotations

import struct
from typing import Any, Final

from gantrymq.spark.pipelines.formats.avro_resolution import (
    Choice,
    Fields,
    Impossible,
    InMember,
    Leaf,
    Many,
    Null,
    Plan,
    Skip,
)
from gantrymq.spark.pipelines.formats.avro_types import Type
from gantrymq.spark.pipelines.formats.column_types import Scalar
from gantrymq.spark.pipelines.formats.converting import Convert
from gantrymq.spark.pipelines.formats.port import BodyRefused, shown

_PYTHON: Final = {
    "string": str, "bytes": bytes, "int": int, "long": int, "float": float, "double": float, "boolean": bool,
    "array": list, "map": dict, "null": type(None),
}  # fmt: skip
"""What fastavro returns for a type without a name."""


def convert_of(plan: Plan) -> Convert | None:
    """From the writer's value to the column's; None where they are the same."""
    match plan:
        case Leaf():
            return _leaf(plan)
        case Fields():
            return _record(plan)
        case Many():
            return _many(plan)
        case Choice():
            return _choice(plan)
        case InMember(at=at, of=of):
            inner = convert_of(of)
            name = f"member{at}"
            return lambda value: {name: value if inner is None else inner(value)}
        case Impossible(reason=reason):
            return _refusing(f"the schema of the body cannot be read: {reason}")
        case Null() | Skip():
            return None


def _refusing(reason: str) -> Convert:
    def refuse(value: Any) -> Any:
        raise BodyRefused(reason)

    return refuse


def _leaf(plan: Leaf) -> Convert | None:
    writer, reader = plan.writer, plan.reader
    promoted = _promoted(writer, reader)
    logical = reader.logical.convert if reader.logical is not None else None
    if promoted is None or logical is None:
        return promoted or logical
    return lambda value: logical(promoted(value))


def _promoted(writer: Type, reader: Type) -> Convert | None:
    if writer.name == "enum":
        return _symbol(reader) if set(writer.symbols) - set(reader.symbols) else None
    match writer.name, reader.name:
        case (("int" | "long"), ("float" | "double")):
            return _whole_as_double if reader.name == "double" else _whole_as_float
        case "string", "bytes":
            return lambda value: value.encode()
        case "bytes", "string":
            return _as_text
    return None


def _symbol(reader: Type) -> Convert:
    known, default = frozenset(reader.symbols), reader.default

    def symbol(value: str) -> str:
        if value in known:
            return value
        if default is None:
            raise BodyRefused(f"the body has the symbol {shown(value)}, which the enum {reader.full} does not have")
        return default

    return symbol


def _whole_as_double(value: int) -> float:
    return _exact(value, float(value), "double")


def _whole_as_float(value: int) -> float:
    (single,) = struct.unpack("<f", struct.pack("<f", float(value)))
    return _exact(value, single, "float")


def _exact(value: int, found: float, name: str) -> float:
    """The specification allows these promotions, and would round: no body is changed here."""
    if int(found) != value:
        raise BodyRefused(f"the body has the number {value}, which {name} of the job's schema cannot have exactly")
    return found


def _as_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BodyRefused(f"the body has bytes that are no text in UTF-8 ({error})") from None


def _record(plan: Fields) -> Convert | None:
    fields = [(name, column, convert_of(inner)) for name, column, inner in plan.fields if column]
    if len(fields) == len(plan.fields) == len(plan.kind.fields) and all(
        name == column and convert is None for name, column, convert in fields
    ):
        return None
    defaults = dict(plan.defaults)

    def record(value: Any) -> Any:
        made = {column: value[name] if convert is None else convert(value[name]) for name, column, convert in fields}
        return {**made, **defaults} if defaults else made

    return record


def _many(plan: Many) -> Convert | None:
    inner = convert_of(plan.of)
    if inner is None:
        return None
    if plan.kind.scalar is Scalar.MAP:
        return lambda values: {name: inner(value) for name, value in values.items()}
    return lambda values: [inner(value) for value in values]


def _choice(plan: Choice) -> Convert | None:
    converts = [convert_of(branch) for branch in plan.branches]
    named = {one.full: convert for one, convert in zip(plan.writers, converts, strict=True) if one.full}
    plain: dict[type, Convert | None] = {}
    for one, convert in zip(plan.writers, converts, strict=True):
        # Of int and long, or float and double, one of both is taken: nobody can tell whose value it was.
        if not one.full and (_PYTHON[one.name] not in plain or one.name in ("long", "double")):
            plain[_PYTHON[one.name]] = convert
    if not named and not any(plain.values()):
        return None

    def choose(value: Any) -> Any:
        # fastavro says which record, enum or fixed a value is.
        try:
            if type(value) is tuple:
                name, value = value
                convert = named[name]
            else:
                convert = plain[type(value)]
        except KeyError:
            raise BodyRefused(f"the body has a value that no type of the union has: {shown(value)}") from None
        return value if convert is None else convert(value)

    return choose
