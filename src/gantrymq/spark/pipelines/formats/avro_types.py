"""Avro schemas as trees: each type once, with what its logical type means for a column. No I/O."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.column_types import (
    DECIMAL_DIGITS,
    FIRST_MICROS,
    LAST_MICROS,
    ColumnType,
    Field,
    Scalar,
)
from gantrymq.spark.pipelines.formats.port import BodyRefused

PRIMITIVES: Final = {
    "string": Scalar.STRING, "bytes": Scalar.BINARY, "int": Scalar.INT, "long": Scalar.LONG, "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE, "boolean": Scalar.BOOLEAN,
}  # fmt: skip
TIMES: Final = {
    "timestamp-millis": (Scalar.TIMESTAMP, 1000), "timestamp-micros": (Scalar.TIMESTAMP, 1),
    "local-timestamp-millis": (Scalar.LOCAL_TIMESTAMP, 1000), "local-timestamp-micros": (Scalar.LOCAL_TIMESTAMP, 1),
}  # fmt: skip
"""Logical types of a long: what they become, and how many microseconds one is."""
UNIX_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_WIDE: Final = Context(prec=DECIMAL_DIGITS)


class Unfit(ConfigError):
    """A schema is none, or its values cannot be columns. The text does not say whose schema it is."""

    what_to_do = "Change the schema, or the job that names it."


@dataclass(frozen=True, slots=True)
class Logical:
    """What the raw value of a type means. Those that Spark's own reader leaves as they are have none of these."""

    name: str
    kind: ColumnType
    convert: Callable[[Any], Any]
    """From the raw value. Raises BodyRefused for one that has no meaning."""


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a record."""

    name: str
    type: Type
    aliases: tuple[str, ...]
    default: Any = msgspec.UNSET
    """In JSON."""


@dataclass(slots=True, eq=False)
class Type:
    """A type of a schema. A record can be within itself, so two types are equal only if they are the same object."""

    name: str
    """Of a primitive type, or record, enum, fixed, array, map, union."""
    full: str = ""
    """record, enum, fixed: the full name."""
    aliases: tuple[str, ...] = ()
    fields: tuple[Member, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """enum: the symbol for one that a reader does not know."""
    size: int = 0
    members: tuple[Type, ...] = ()
    """union: its types. array, map: the type of what is in it."""
    logical: Logical | None = None

    @property
    def shown(self) -> str:
        """The type in a sentence."""
        if self.name == "union":
            return "a union of " + ", ".join(one.shown for one in self.members)
        return f"{self.logical.name} ({self.name})" if self.logical else self.full or self.name


def tree_of(schema: bytes) -> Type:
    """The schema in a text. Raises Unfit for one that is not Avro."""
    try:
        return _Names({}).type(msgspec.json.decode(schema), "")
    except (msgspec.DecodeError, KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Unfit(f"this is not an Avro schema: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Names:
    """The types that a schema has named so far: each may be used again by its full name."""

    known: dict[str, Type] = field(default_factory=dict)

    def type(self, schema: Any, namespace: str) -> Type:
        if isinstance(schema, list):
            return Type("union", members=tuple(self.type(one, namespace) for one in schema))
        if isinstance(schema, str):
            if schema in PRIMITIVES or schema == "null":
                return Type(schema)
            full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            found = self.known.get(full) or self.known.get(schema)
            if found is None:
                raise Unfit(f"a column cannot have the type {schema}")
            return found
        name = schema["type"]
        if not isinstance(name, str):
            return self.type(name, namespace)
        if name in ("record", "error", "enum", "fixed"):
            return self._named("record" if name == "error" else name, schema, namespace)
        if name in ("array", "map"):
            return Type(name, members=(self.type(schema["items" if name == "array" else "values"], namespace),))
        if name not in PRIMITIVES and name != "null":
            return self.type(name, namespace)
        return Type(name, logical=_logical(schema))

    def _named(self, name: str, schema: Mapping[str, Any], namespace: str) -> Type:
        # An empty namespace is none, and not that of the type around it.
        own = schema.get("namespace", namespace) or ""
        full = schema["name"] if "." in schema["name"] else f"{own}.{schema['name']}"
        full = full.lstrip(".")
        namespace = full.rpartition(".")[0]
        made = Type(name, full=full, aliases=tuple(schema.get("aliases", ())))
        # Before its fields are read: they may name it.
        self.known[full] = made
        if name == "enum":
            made.symbols, made.default = tuple(schema["symbols"]), schema.get("default")
        elif name == "fixed":
            made.size, made.logical = schema["size"], _logical(schema)
        else:
            made.fields = tuple(
                Member(
                    one["name"],
                    self.type(one["type"], namespace),
                    tuple(one.get("aliases", ())),
                    one.get("default", msgspec.UNSET),
                )
                for one in schema["fields"]
            )
        return made


def is_recursive(one: Type, outer: tuple[Type, ...] = ()) -> bool:
    """Whether a record is within itself: then a few bytes can be values within each other without an end."""
    if one in outer:
        return True
    if one.name == "record":
        return any(is_recursive(field.type, (*outer, one)) for field in one.fields)
    return any(is_recursive(member, outer) for member in one.members)


def takes_no_bytes(one: Type, outer: tuple[Type, ...] = ()) -> bool:
    """Whether a value can have no bytes at all: a list of those can be endless in a few bytes."""
    if one.name == "record" and one not in outer:
        return all(takes_no_bytes(field.type, (*outer, one)) for field in one.fields)
    return one.name == "null" or (one.name == "fixed" and one.size == 0)


def has_endless_lists(one: Type, outer: tuple[Type, ...] = ()) -> bool:
    """Whether there is a list of values that have no bytes."""
    if one.name == "array" and takes_no_bytes(one.members[0]):
        return True
    if one.name == "record":
        return one not in outer and any(has_endless_lists(field.type, (*outer, one)) for field in one.fields)
    return any(has_endless_lists(member, outer) for member in one.members)


def kind_of(one: Type, outer: tuple[Type, ...] = ()) -> ColumnType:
    """The column for a type of the job's own schema. Raises Unfit where there is none. ``outer``: the records around
    it."""
    if one.logical is not None:
        return one.logical.kind
    match one.name:
        case "union":
            return _union_kind(one, outer)
        case "array":
            return ColumnType(Scalar.ARRAY, of=kind_of(one.members[0], outer))
        case "map":
            return ColumnType(Scalar.MAP, of=kind_of(one.members[0], outer))
        case "enum":
            return ColumnType(Scalar.STRING)
        case "fixed":
            return ColumnType(Scalar.BINARY)
        case "null":
            raise Unfit("a column cannot have the type null")
        case "record":
            if one in outer:
                raise Unfit(f"the record {one.full} contains itself, which a column cannot")
            if not one.fields:
                raise Unfit(f"the record {one.full} has no fields, and so no columns")
            fields = (Field(field.name, kind_of(field.type, (*outer, one))) for field in one.fields)
            return ColumnType(Scalar.STRUCT, fields=tuple(fields))
    return ColumnType(PRIMITIVES[one.name])


def _union_kind(one: Type, outer: tuple[Type, ...]) -> ColumnType:
    """One type and null is that type. Others are a struct of ``member0``, ``member1`` and so on, as in Spark."""
    members = not_null(one)
    if not members:
        raise Unfit("a column cannot have the type null")
    if (single := single_of(members)) is not None:
        return kind_of(single, outer)
    names = {member.name for member in members if member.logical is None}
    if {"int", "long"} <= names or {"float", "double"} <= names:
        raise Unfit("a union cannot have int and long, or float and double, and others")
    return ColumnType(
        Scalar.STRUCT, fields=tuple(Field(f"member{at}", kind_of(m, outer)) for at, m in enumerate(members))
    )


def not_null(union: Type) -> list[Type]:
    return [member for member in union.members if member.name != "null"]


def single_of(members: list[Type]) -> Type | None:
    """The type that a union of these is as a column; None for a struct of several."""
    if len(members) == 1:
        return members[0]
    names = {member.name for member in members if member.logical is None}
    if len(members) == 2 and names in ({"int", "long"}, {"float", "double"}):
        return next(member for member in members if member.name in ("long", "double"))
    return None


def _logical(schema: Mapping[str, Any]) -> Logical | None:
    """None for those that Spark's own reader leaves as they are: times of a day, durations, and unknown ones."""
    base, name = schema["type"], schema.get("logicalType")
    if name == "decimal" and base in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > DECIMAL_DIGITS:
            raise Unfit(f"a decimal has {precision} digits, and a column {DECIMAL_DIGITS} at most")
        if not 0 <= scale <= precision or precision < 1:
            raise Unfit(f"a decimal cannot have the precision {precision} and the scale {scale}")
        kind = ColumnType(Scalar.DECIMAL, precision=precision, scale=scale)
        return Logical(f"decimal({precision},{scale})", kind, partial(_decimal, precision, scale))
    if name in TIMES and base == "long":
        scalar, factor = TIMES[name]
        return Logical(name, ColumnType(scalar), partial(_micros, factor))
    if name == "date" and base == "int":
        return Logical(name, ColumnType(Scalar.DATE), _date)
    if name == "uuid" and base == "fixed":
        return Logical(name, ColumnType(Scalar.STRING), _uuid)
    return None


def _decimal(precision: int, scale: int, value: bytes) -> Decimal:
    unscaled = int.from_bytes(value, signed=True)
    if abs(unscaled) >= 10**precision:
        raise BodyRefused(f"the body has a decimal with more than the {precision} digits of its schema")
    return Decimal(unscaled).scaleb(-scale, _WIDE)


def _micros(factor: int, value: int) -> int:
    micros = value * factor
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise BodyRefused(f"the body has the timestamp {value}, which is not within the years 1 to 9999")
    return micros


def _uuid(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _date(value: int) -> datetime.date:
    try:
        return datetime.date.fromordinal(UNIX_EPOCH_DAY + value)
    except (ValueError, OverflowError):
        raise BodyRefused(f"the body has the date {value}, which is not within the years 1 to 9999") from None
