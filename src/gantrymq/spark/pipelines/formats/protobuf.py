"""Bodies in Protobuf. Spark's own decoder would need a jar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.column_types import FIRST_MICROS, LAST_MICROS, ColumnType, Field, Scalar
from gantrymq.spark.pipelines.formats.port import BodyRefused, Decoded, decode_each, fitted
from gantrymq.spark.pipelines.formats.protobuf_resolution import unreadable
from gantrymq.spark.pipelines.job import Allowed
from gantrymq.spark.registry.protobuf_files import file_of, message_paths

if TYPE_CHECKING:
    import pyarrow as pa

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_UNSIGNED_DIGITS: Final = 20
"""Of the largest number with 64 bits. Spark has no unsigned numbers."""


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """Decodes bodies by the library protobuf."""

    kind: ColumnType
    message: Callable[[], Any]
    """The class of the message type."""
    _rounds: bool
    """Whether the nanoseconds of a timestamp are cut off."""

    @classmethod
    def of(cls, descriptors: bytes, message: str, allow: frozenset[Allowed]) -> ProtobufFormat:
        """The format of a message type in a descriptor set. Raises ConfigError when its values cannot be columns."""
        made = message_type(descriptors, message)
        return cls(_kind(made.DESCRIPTOR, ()), made, "rounding" in allow)

    def decode(self, bodies: pa.Array) -> Decoded:
        from google.protobuf.message import DecodeError

        return fitted(decode_each(bodies.to_pylist(), partial(self._read, DecodeError)), self.kind)

    def _read(self, refusal: type[Exception], body: bytes) -> Any:
        message = self.message()
        try:
            message.ParseFromString(body)
            return self._values(message)
        except refusal as error:
            raise BodyRefused(f"the body is not Protobuf of the message type: {error}") from None
        except UnicodeDecodeError as error:
            raise BodyRefused(f"the body is not Protobuf of the message type: a text is not UTF-8 ({error})") from None

    def _values(self, message: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in message.DESCRIPTOR.fields:
            value = getattr(message, field.name)
            if _is_map(field):
                single = field.message_type.fields_by_name["value"]
                values[field.name] = [(_text(key), self._value(single, value[key])) for key in value]
            elif field.is_repeated:
                values[field.name] = [self._value(field, one) for one in value]
            elif field.has_presence and not message.HasField(field.name):
                values[field.name] = None
            else:
                values[field.name] = self._value(field, value)
        return values

    def _value(self, field: Any, value: Any) -> Any:
        if field.cpp_type == field.CPPTYPE_ENUM:
            known = field.enum_type.values_by_number.get(value)
            return known.name if known else str(value)
        if field.cpp_type != field.CPPTYPE_MESSAGE:
            return value
        if field.message_type.full_name == _TIMESTAMP:
            return self._micros(field.name, value)
        return self._values(value)

    def _micros(self, name: str, value: Any) -> int:
        micros, rest = divmod(value.nanos, 1000)
        micros += value.seconds * 1_000_000
        if not FIRST_MICROS <= micros <= LAST_MICROS or not 0 <= value.nanos < 1_000_000_000:
            said = f"{value.seconds} s and {value.nanos} ns"
            raise BodyRefused(f"the column {name} is {said} after 1970, which is not within the years 1 to 9999")
        if rest and not self._rounds:
            raise BodyRefused(
                f"the column {name} has {value.nanos} ns, and a timestamp of Spark has microseconds; body.allow = "
                '["rounding"] cuts the rest off'
            )
        return micros


def written_messages(
    descriptors: bytes, message: str, own: ProtobufFormat
) -> tuple[dict[tuple[int, ...], str], tuple[str, ...]]:
    """The message types of a writer's schema, and what of the job's one cannot be read in it."""
    names = message_paths(file_of(descriptors))
    if message not in names.values():
        return names, ()
    writer = message_type(descriptors, message)
    return names, tuple(unreadable(writer.DESCRIPTOR, own.message().DESCRIPTOR))


def _text(key: Any) -> str:
    """A key of a map: texts, whole numbers, or true and false."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def message_type(descriptors: bytes, message: str) -> Any:
    """The class of a message type in a descriptor set. Raises ConfigError when there is none."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        raise ConfigError("bodies in Protobuf need protobuf; run: pip install 'gantrymq[pipelines]'") from error
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(descriptors)
        for file in files.file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except (DecodeError, TypeError) as error:
        raise ConfigError(
            "body.schema_file is not a descriptor set with its imports; write it by "
            f"protoc --include_imports --descriptor_set_out=FILE: {error}"
        ) from error
    except KeyError as error:
        names = [f"{file.package}.{one.name}".lstrip(".") for file in files.file for one in file.message_type]
        raise ConfigError(f"body.message: there is no message {message}; the file has {', '.join(names)}") from error


def _kind(descriptor: Any, outer: tuple[str, ...]) -> ColumnType:
    if descriptor.full_name in outer:
        raise ConfigError(f"body.message: {descriptor.full_name} contains itself, which a column cannot")
    if not descriptor.fields:
        raise ConfigError(f"body.message: {descriptor.full_name} has no fields, and so no columns")
    outer = (*outer, descriptor.full_name)
    return ColumnType(Scalar.STRUCT, fields=tuple(Field(one.name, _field(one, outer)) for one in descriptor.fields))


def _field(field: Any, outer: tuple[str, ...]) -> ColumnType:
    if _is_map(field):
        return ColumnType(Scalar.MAP, of=_single(field.message_type.fields_by_name["value"], outer))
    single = _single(field, outer)
    return ColumnType(Scalar.ARRAY, of=single) if field.is_repeated else single


def _single(field: Any, outer: tuple[str, ...]) -> ColumnType:
    scalars = {
        field.CPPTYPE_INT32: Scalar.INT, field.CPPTYPE_INT64: Scalar.LONG, field.CPPTYPE_UINT32: Scalar.LONG,
        field.CPPTYPE_DOUBLE: Scalar.DOUBLE, field.CPPTYPE_FLOAT: Scalar.FLOAT, field.CPPTYPE_BOOL: Scalar.BOOLEAN,
        field.CPPTYPE_ENUM: Scalar.STRING,
    }  # fmt: skip
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == _TIMESTAMP:
            return ColumnType(Scalar.TIMESTAMP)
        return _kind(field.message_type, outer)
    if field.cpp_type == field.CPPTYPE_STRING:
        return ColumnType(Scalar.BINARY if field.type == field.TYPE_BYTES else Scalar.STRING)
    if field.cpp_type == field.CPPTYPE_UINT64:
        return ColumnType(Scalar.DECIMAL, precision=_UNSIGNED_DIGITS)
    return ColumnType(scalars[field.cpp_type])


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry
