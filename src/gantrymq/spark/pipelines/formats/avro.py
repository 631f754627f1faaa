"""Bodies in Avro, as ``fastavro``'s ``schemaless_writer`` writes them. Spark's own decoder would need a jar.

The library decodes without the logical types: it would round decimals, and raise errors for times that Python does not
have. What they mean is done here, and a value that has no meaning is refused.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.converting import Convert, in_list, in_map, in_struct
from gantrymq.spark.pipelines.formats.kinds import (
    DECIMAL_DIGITS,
    FIRST_MICROS,
    LAST_MICROS,
    Field,
    Kind,
    Scalar,
)
from gantrymq.spark.pipelines.formats.port import BodyRefused, Decoded, decode_each
from gantrymq.spark.pipelines.reasons import shown

if TYPE_CHECKING:
    import pyarrow as pa

_PRIMITIVES: Final = {
    "string": Scalar.STRING, "bytes": Scalar.BINARY, "int": Scalar.INT, "long": Scalar.LONG, "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE, "boolean": Scalar.BOOLEAN,
}  # fmt: skip
_PYTHON: Final = {
    "string": str, "bytes": bytes, "int": int, "long": int, "float": float, "double": float, "boolean": bool,
    "array": list, "map": dict, "enum": str, "fixed": bytes, "record": dict,
}  # fmt: skip
"""What fastavro returns for a type."""
_TIMES: Final = {
    "timestamp-millis": (Scalar.TIMESTAMP, 1000), "timestamp-micros": (Scalar.TIMESTAMP, 1),
    "local-timestamp-millis": (Scalar.LOCAL_TIMESTAMP, 1000), "local-timestamp-micros": (Scalar.LOCAL_TIMESTAMP, 1),
}  # fmt: skip
"""Logical types of a long: what they become, and how many microseconds one is."""
_UNIX_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_WIDE: Final = Context(prec=DECIMAL_DIGITS)


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Decodes bodies by fastavro."""

    kind: Kind
    _schema: Any
    """Without logical types."""
    _convert: Convert | None

    @classmethod
    def of(cls, schema: bytes) -> AvroFormat:
        """The format of a schema file. Raises ConfigError for a schema whose values cannot be columns."""
        tree, parsed = _parsed(schema)
        known = _Types({})
        column = known.column(tree, "", ())
        if column.kind.scalar is not Scalar.STRUCT or not isinstance(tree, dict):
            raise ConfigError("body.schema_file: it must be a record, whose fields become the columns of events")
        return cls(column.kind, parsed, column.convert)

    def decode(self, bodies: pa.Array) -> Decoded:
        return decode_each(bodies.to_pylist(), partial(_read, _reader(), self._schema, self._convert))


def _reader() -> Callable[..., Any]:
    try:
        import fastavro
    except ImportError as error:
        raise ConfigError("bodies in Avro need fastavro; run: pip install 'gantrymq[pipelines]'") from error
    return fastavro.schemaless_reader


def _read(reader: Callable[..., Any], schema: Any, convert: Convert | None, body: bytes) -> Any:
    stream = BytesIO(body)
    try:
        value = reader(stream, schema, None, return_named_type=True, return_named_type_override=True)
    except EOFError:
        raise BodyRefused("the body is not Avro of the schema: it ends too early") from None
    except UnicodeDecodeError as error:
        raise BodyRefused(f"the body is not Avro of the schema: a text is not UTF-8 ({error})") from None
    # Any bytes may arrive, and fastavro has no common class for what it raises then.
    except Exception as error:  # noqa: BLE001
        raise BodyRefused(f"the body is not Avro of the schema: {type(error).__name__}: {error}") from None
    if stream.tell() < len(body):
        raise BodyRefused(f"the body must be one Avro record, and {len(body) - stream.tell()} bytes follow it")
    return value if convert is None else convert(value)


def _parsed(schema: bytes) -> tuple[Any, Any]:
    """The schema as it is written, and for fastavro without its logical types."""
    _reader()
    import fastavro

    try:
        tree = msgspec.json.decode(schema)
        fastavro.parse_schema(msgspec.json.decode(schema))
        return tree, fastavro.parse_schema(_without_logical_types(tree))
    except (msgspec.DecodeError, fastavro.schema.SchemaParseException, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"body.schema_file: this is not an Avro schema: {error}") from error


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: _without_logical_types(schema[name]) for name in ("type", "items", "values") if name in schema}
    if "fields" in schema:
        # Only their types: "type" may be a key of a default as well.
        parts["fields"] = [{**one, "type": _without_logical_types(one["type"])} for one in schema["fields"]]
    return {name: value for name, value in {**schema, **parts}.items() if name != "logicalType"}


@dataclass(frozen=True, slots=True)
class _Column:
    """What a type of the schema becomes."""

    kind: Kind
    convert: Convert | None = None
    avro: str = ""
    """The type's name: one of Avro, or the full name of a record, enum or fixed."""
    python: type = object


@dataclass(frozen=True, slots=True)
class _Types:
    """The types that a schema has named so far, by their full names: each may be used again by its name."""

    named: dict[str, tuple[Mapping[str, Any], str]]
    """With the namespace in which they were defined."""

    def column(self, schema: Any, namespace: str, outer: tuple[str, ...]) -> _Column:
        """``outer``: the records in which this type is."""
        if isinstance(schema, list):
            return self._union(schema, namespace, outer)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _Column(Kind(_PRIMITIVES[schema]), avro=schema, python=_PYTHON[schema])
            return self._again(schema, namespace, outer)
        name = schema["type"]
        if not isinstance(name, str) or name not in _PYTHON:
            return self.column(name, namespace, outer)
        if name in ("record", "enum", "fixed"):
            full = schema["name"] if "." in schema["name"] else f"{schema.get('namespace', namespace)}.{schema['name']}"
            namespace = full.rpartition(".")[0]
            self.named[full.lstrip(".")] = (schema, namespace)
            return self._named(schema, full.lstrip("."), namespace, outer)
        if name == "array":
            inner = self.column(schema["items"], namespace, outer)
            return _Column(Kind(Scalar.ARRAY, of=inner.kind), in_list(inner.convert), name, list)
        if name == "map":
            inner = self.column(schema["values"], namespace, outer)
            return _Column(Kind(Scalar.MAP, of=inner.kind), in_map(inner.convert), name, dict)
        return _logical(schema) or _Column(Kind(_PRIMITIVES[name]), avro=name, python=_PYTHON[name])

    def _again(self, name: str, namespace: str, outer: tuple[str, ...]) -> _Column:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self.named else name
        if full not in self.named:
            raise ConfigError(f"body.schema_file: a column cannot have the type {name}")
        return self._named(self.named[full][0], full, self.named[full][1], outer)

    def _named(self, schema: Mapping[str, Any], full: str, namespace: str, outer: tuple[str, ...]) -> _Column:
        if schema["type"] == "enum":
            return _Column(Kind(Scalar.STRING), avro=full, python=str)
        if schema["type"] == "fixed":
            return _logical(schema, full) or _Column(Kind(Scalar.BINARY), avro=full, python=bytes)
        if full in outer:
            raise ConfigError(f"body.schema_file: the record {full} contains itself, which a column cannot")
        if not schema["fields"]:
            raise ConfigError(f"body.schema_file: the record {full} has no fields, and so no columns")
        columns = {one["name"]: self.column(one["type"], namespace, (*outer, full)) for one in schema["fields"]}
        kind = Kind(Scalar.STRUCT, fields=tuple(Field(name, one.kind) for name, one in columns.items()))
        return _Column(kind, in_struct({name: one.convert for name, one in columns.items()}), full, dict)

    def _union(self, schema: list[Any], namespace: str, outer: tuple[str, ...]) -> _Column:
        """One type and null is that type. Others are a struct of ``member0``, ``member1`` and so on, as in Spark."""
        members = [self.column(one, namespace, outer) for one in schema if one != "null"]
        if not members:
            raise ConfigError("body.schema_file: a column cannot have the type null")
        names = {one.avro for one in members}
        if len(members) == 1:
            return members[0]
        if names in ({"int", "long"}, {"float", "double"}):
            return next(one for one in members if one.avro in ("long", "double"))
        if {"int", "long"} <= names or {"float", "double"} <= names:
            raise ConfigError("body.schema_file: a union cannot have int and long, or float and double, and others")
        fields = tuple(Field(f"member{at}", one.kind) for at, one in enumerate(members))
        return _Column(Kind(Scalar.STRUCT, fields=fields), partial(_member, members), "union", dict)


def _member(members: list[_Column], value: Any) -> dict[str, Any]:
    """The struct of a union. fastavro says which record, enum or fixed a value is where there are several."""
    name, inner = value if isinstance(value, tuple) else (None, value)
    for at, one in enumerate(members):
        if one.avro == name or (name is None and type(inner) is one.python):
            return {f"member{at}": inner if one.convert is None else one.convert(inner)}
    raise BodyRefused(f"the body has a value that no type of the union has: {shown(value)}")


def _logical(schema: Mapping[str, Any], name: str = "") -> _Column | None:
    """A logical type; None for those that Spark's own reader leaves as they are: times of a day, durations."""
    base, logical = schema["type"], schema.get("logicalType")
    column = partial(_Column, avro=name or base, python=_PYTHON[base])
    if logical == "decimal" and base in ("bytes", "fixed"):
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > DECIMAL_DIGITS:
            raise ConfigError(
                f"body.schema_file: a decimal has {precision} digits, and a column {DECIMAL_DIGITS} at most"
            )
        return column(Kind(Scalar.DECIMAL, precision=precision, scale=scale), partial(_decimal, precision, scale))
    if logical in _TIMES and base == "long":
        scalar, factor = _TIMES[logical]
        return column(Kind(scalar), partial(_micros, factor))
    if logical == "date" and base == "int":
        return column(Kind(Scalar.DATE), _date)
    if logical == "uuid" and base == "fixed":
        return column(Kind(Scalar.STRING), _uuid)
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
        return datetime.date.fromordinal(_UNIX_EPOCH_DAY + value)
    except (ValueError, OverflowError):
        raise BodyRefused(f"the body has the date {value}, which is not within the years 1 to 9999") from None
