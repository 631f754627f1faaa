"""Bodies in JSON: one object, whose values have exactly the types of the columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, Required, TypedDict, cast

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.column_types import BITS, FIRST_MICROS, LAST_MICROS, ColumnType, Field, Scalar
from gantrymq.spark.pipelines.formats.converting import Convert, in_list, in_map, in_struct
from gantrymq.spark.pipelines.formats.port import BodyRefused, Decoded, decode_each, fitted
from gantrymq.spark.pipelines.job import Allowed

if TYPE_CHECKING:
    import pyarrow as pa

_SPARK: Final = {
    "string": Scalar.STRING, "binary": Scalar.BINARY, "byte": Scalar.BYTE, "short": Scalar.SHORT,
    "integer": Scalar.INT, "long": Scalar.LONG, "float": Scalar.FLOAT, "double": Scalar.DOUBLE,
    "boolean": Scalar.BOOLEAN, "timestamp": Scalar.TIMESTAMP, "timestamp_ntz": Scalar.LOCAL_TIMESTAMP,
    "date": Scalar.DATE,
}  # fmt: skip
"""The names in the JSON of Spark's types."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_LARGEST_FLOAT: Final = 3.4028234663852886e38
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def schema_of(ddl: str) -> bytes:
    """The columns in Spark's JSON. Raises ConfigError for a text that is not DDL. Needs a Spark session."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        return StructType.fromDDL(ddl).json().encode()
    except PySparkException as error:
        said = " ".join(str(error).split("JVM stacktrace")[0].split())[:300]
        raise ConfigError(f"body.schema: {ddl!r} is not a list of columns such as 'id string': {said}") from error


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """Decodes bodies by msgspec, which checks types while it reads."""

    kind: ColumnType
    _decoder: msgspec.json.Decoder[Any]
    _convert: Convert | None
    """What is left to do with a decoded value."""
    _nested: bool
    """Whether there are objects within the object, whose names can be there twice as well."""
    _names: str
    """A pattern for the names of columns, as they are before their values."""
    _written_otherwise: str
    """A pattern for what can be a part of such a name, in other characters."""
    _replaces: bool
    """Whether bytes that are not UTF-8 are replaced."""

    @classmethod
    def of(cls, schema: bytes, allow: frozenset[Allowed]) -> JsonFormat:
        """The format for columns in Spark's JSON. Raises ConfigError for types that JSON cannot have."""
        kind = _kind(msgspec.json.decode(schema), "")
        decoder = msgspec.json.Decoder(
            _annotation(kind, allow), dec_hook=_hook("rounding" in allow), float_hook=Decimal
        )
        nested = any(field.kind.fields or field.kind.of is not None for field in kind.fields)
        names = [field.name for field in kind.fields]
        otherwise = r"\\u00[2-7]" if all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in names) else r"\\"
        quoted = "|".join(re.escape(msgspec.json.encode(name).decode()) for name in names)
        convert = _as_written(kind) if "any_as_text" in allow else None
        return cls(kind, decoder, convert, nested, rf"(?:{quoted})\s*:", otherwise, "replaced_bytes" in allow)

    def decode(self, bodies: pa.Array) -> Decoded:
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = bodies.to_pylist()
        try:
            bodies.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [one.decode(errors="replace").encode() for one in texts] if self._replaces else texts
            decoded = decode_each(texts, self._read_utf8)
        else:
            decoded = decode_each(texts, self._read)
        # A name that is twice in an object: one of the values would disappear. msgspec does not say so.
        counts = pc.count_substring_regex(bodies, self._names).to_pylist()
        escaped = pc.match_substring_regex(bodies, self._written_otherwise).to_pylist()
        for at, value in enumerate(decoded.values):
            suspect = value is not None and (self._nested or counts[at] > len(value) or escaped[at])
            if suspect and (name := _repeated_name(texts[at])) is not None:
                decoded.values[at] = None
                decoded.reasons[at] = f"the body has two values for the name {name}"
        return fitted(decoded, self.kind)

    def _read(self, body: bytes) -> Any:
        try:
            value = self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise BodyRefused(explained_value(str(error))) from None
        except msgspec.DecodeError as error:
            raise BodyRefused(explained_text(body, str(error))) from None
        except RecursionError:
            raise BodyRefused("the body has objects or lists within each other, too many to read") from None
        return value if self._convert is None else self._convert(value)

    def _read_utf8(self, body: bytes) -> Any:
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise BodyRefused(f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}") from None
        return self._read(body)


def _kind(spark: Any, place: str) -> ColumnType:
    """The type that Spark's JSON describes. ``place``: the column, for errors."""
    if isinstance(spark, dict):
        match spark["type"]:
            case "struct" if spark["fields"]:
                return ColumnType(Scalar.STRUCT, fields=tuple(_fields(spark["fields"], place)))
            case "array":
                return ColumnType(Scalar.ARRAY, of=_kind(spark["elementType"], place))
            case "map" if spark["keyType"] == "string":
                return ColumnType(Scalar.MAP, of=_kind(spark["valueType"], place))
    elif spark in _SPARK:
        return ColumnType(_SPARK[spark])
    elif decimal := _DECIMAL.fullmatch(spark):
        return ColumnType(Scalar.DECIMAL, precision=int(decimal.group(1)), scale=int(decimal.group(2)))
    has = f"the column {place} has the type {spark['type'] if isinstance(spark, dict) else spark}"
    raise ConfigError(
        f"body.schema: {has if place else 'it has no column'}; a body in JSON can have string, bigint, int, smallint, "
        "tinyint, double, float, decimal, boolean, date, timestamp, timestamp_ntz, binary, array, a map from string, "
        "or a struct with fields"
    )


def _fields(spark: list[Mapping[str, Any]], place: str) -> Iterator[Field]:
    for one in spark:
        name = one["name"]
        yield Field(name, _kind(one["type"], f"{place}.{name}".lstrip(".")), required=not one["nullable"])


class _Time(int):
    """Microseconds since 1970 UTC."""


class _LocalTime(int):
    """Microseconds since 1970 of a time without a zone."""


class _Exact(Decimal):
    """A decimal; its subclasses are of one precision and scale."""

    context: Context
    unit: Decimal


def _annotation(kind: ColumnType, allow: frozenset[Allowed]) -> Any:
    """The type that msgspec reads for this kind."""
    match kind.scalar:
        case Scalar.STRUCT:
            fields: dict[str, Any] = {}
            for one in kind.fields:
                value = _or_null(_annotation(one.kind, allow), required=one.required)
                fields[one.name] = Required[value] if one.required else NotRequired[value]
            return cast("Any", TypedDict)("Event", fields, total=False)
        case Scalar.ARRAY | Scalar.MAP:
            inner: Any = _or_null(_annotation(cast("ColumnType", kind.of), allow), required=False)
            return list[inner] if kind.scalar is Scalar.ARRAY else dict[str, inner]
        case Scalar.STRING:
            return msgspec.Raw if "any_as_text" in allow else str
        case Scalar.DECIMAL:
            context = Context(prec=kind.precision, rounding=ROUND_HALF_UP, traps=[InvalidOperation])
            context.traps[Inexact] = "rounding" not in allow
            return type("Exact", (_Exact,), {"context": context, "unit": Decimal(1).scaleb(-kind.scale)})
        case Scalar.BYTE | Scalar.SHORT | Scalar.INT | Scalar.LONG:
            half = 1 << (BITS[kind.scalar] - 1)
            return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
    return {
        Scalar.BINARY: bytes, Scalar.BOOLEAN: bool, Scalar.DATE: date, Scalar.DOUBLE: float,
        Scalar.FLOAT: Annotated[float, msgspec.Meta(ge=-_LARGEST_FLOAT, le=_LARGEST_FLOAT)],
        Scalar.TIMESTAMP: _Time, Scalar.LOCAL_TIMESTAMP: _LocalTime,
    }[kind.scalar]  # fmt: skip


def _or_null(annotation: Any, *, required: bool) -> Any:
    """msgspec takes null for a ``Raw`` by itself."""
    return annotation if required or annotation is msgspec.Raw else annotation | None


def _hook(rounds: bool) -> Callable[[Any, Any], Any]:
    """What reads the types that msgspec does not have. Its ValueErrors become errors that name the column."""

    def read(kind: Any, value: Any) -> Any:
        if issubclass(kind, _Exact):
            return _decimal(kind, value)
        return kind(_micros(value, rounds, local=kind is _LocalTime))

    return read


def _decimal(kind: type[_Exact], value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise ValueError("it must be a number, or a text with one")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError("it must be a number, or a text with one")
    try:
        return kind(Decimal(value).quantize(kind.unit, context=kind.context))
    except Inexact:
        digits = -int(kind.unit.as_tuple().exponent)
        raise ValueError(f"{str(value)[:80]} has more digits behind the point than {digits}") from None
    except InvalidOperation:
        raise ValueError(f"{str(value)[:80]} has more digits than the column") from None


def _micros(value: Any, rounds: bool, *, local: bool) -> int:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("it must be a time as text, such as 2026-01-31T12:00:00Z")
    day, minute, second, fraction, zone = match.groups()
    if local and zone:
        raise ValueError("it must be a time without a zone, such as 2026-01-31T12:00:00")
    fraction = (fraction or "").ljust(6, "0")
    if fraction[6:].strip("0") and not rounds:
        raise ValueError("it has more than 6 digits behind the point of the seconds")
    text = f"{day}T{minute}{second or ':00'}.{fraction[:6]}{(zone or 'Z').upper()}"
    micros = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise ValueError("it is not within the years 1 to 9999")
    return micros


def _as_written(kind: ColumnType) -> Convert | None:
    """Texts instead of ``msgspec.Raw``."""
    if kind.scalar is Scalar.STRUCT:
        return in_struct({one.name: _as_written(one.kind) for one in kind.fields})
    if kind.of is not None:
        inner = _as_written(kind.of)
        return in_list(inner) if kind.scalar is Scalar.ARRAY else in_map(inner)
    return _text if kind.scalar is Scalar.STRING else None


def _text(raw: Any) -> str | None:
    written = bytes(raw)
    if not written.startswith(b'"'):
        return None if written == b"null" else written.decode()
    try:
        return msgspec.json.decode(written, type=str)
    except msgspec.DecodeError as error:
        raise BodyRefused(explained_text(written, str(error))) from None


def _repeated_name(body: bytes) -> str | None:
    """A name that is twice in one object of a body."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            found.append(next(name for at, name in enumerate(names) if name in names[:at]))

    try:
        # Numbers stay texts: Python refuses those with more than 4,300 digits.
        json.loads(body, object_pairs_hook=look, parse_int=str, parse_float=str)
    except RecursionError:
        return "of a value that is too deep to look at"
    return found[0] if found else None


_PLACE: Final = re.compile(r"(.*?)(?: - at `\$\.?(.*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(?: (<=|>=) (\S+))?(?:, got `(\w+)`)?")
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_AT_BYTE: Final = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_WORDS: Final = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "object": "an object",
    "array": "a list", "null": "null", "date": "a date such as 2026-01-31", "bytes": "a text of Base64",
}  # fmt: skip


def explained_value(said: str) -> str:
    """Why a value does not have the type of its column."""
    match = _PLACE.fullmatch(said)
    text, place = (match.group(1), match.group(2)) if match else (said, None)
    column = f"the column {place}" if place else "the body"
    if missing := _MISSING.fullmatch(text):
        inside = f" of {place}" if place else ""
        return f"the column {missing.group(1)}{inside} is missing"
    expected = _EXPECTED.fullmatch(text)
    if expected is None:
        return f"{column} is not valid: {text[:1].lower()}{text[1:]}"
    kind, _, bound, got = expected.groups()
    if bound is not None:
        return f"{column} is out of range: {'more' if '<' in text else 'less'} than {bound}"
    wanted = next((_WORDS[one] for one in kind.split(" | ") if one in _WORDS and one != "null"), kind)
    return f"{column} must be {wanted}, and is {_WORDS.get(got, got)}"


def explained_text(body: bytes, said: str) -> str:
    """Why a body is not JSON."""
    match = _AT_BYTE.fullmatch(said)
    why, at = (match.group(1), int(match.group(2))) if match else (said, None)
    if not body.strip():
        return "the body is empty"
    if b"\0" in body:
        return f"the body is not JSON: byte {body.index(0)} is NUL"
    if why == "trailing characters" and at is not None:
        return f"the body must be one JSON object, and something follows it at byte {at - 1}"  # it counts that one
    if at is not None and body[at : at + 1] == b"'":
        return f"the body is not JSON: a text begins with a single quote at byte {at}; JSON has double quotes"
    if at is None:
        return "the body is not JSON: it ends too early, or has half of a surrogate pair"
    return f"the body is not JSON: {why} near byte {at}"
