"""Bodies in Avro and Protobuf. The workers decode them with Python libraries, because Spark's own decoders need a jar.

A decoder turns bytes into values for the columns of an event. Its Spark type and its Arrow type are made from the same
schema, so they always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk, read_whole
from gantrymq.spark.pipelines.body_types import Field, Kind, Scalar, arrow_type, ddl_type
from gantrymq.spark.pipelines.job import Body

if TYPE_CHECKING:
    import pyarrow as pa

_AVRO: Final = {
    "string": Scalar.STRING, "bytes": Scalar.BINARY, "int": Scalar.INT, "long": Scalar.LONG, "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE, "boolean": Scalar.BOOLEAN, "fixed": Scalar.BINARY, "enum": Scalar.STRING,
}  # fmt: skip
_AVRO_LOGICAL: Final = {
    "timestamp-millis": Scalar.TIMESTAMP, "timestamp-micros": Scalar.TIMESTAMP, "date": Scalar.DATE,
    "uuid": Scalar.STRING,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the bodies of one job. Spark sends it to its workers."""

    body: Body
    schema: bytes
    """The content of the schema file."""
    kind: Kind

    @property
    def spark_type(self) -> str:
        return ddl_type(self.kind)

    def add_event(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the column ``event``, which is null where the body cannot be decoded."""
        import pyarrow as pa

        decode = _function_of(self.body.format, self.schema, self.body.message or "")
        kind = arrow_type(self.kind)
        for batch in batches:
            values = [None if body is None else decode(body) for body in batch.column("body").to_pylist()]
            event = pa.array(values, kind)
            yield pa.RecordBatch.from_arrays([*batch.columns, event], names=[*batch.schema.names, "event"])


def decoder_of(body: Body) -> Decoder:
    """The decoder for a job's bodies. Raises ConfigError when the schema file or the library is missing or unfit."""
    path = str(body.schema_file)
    try:
        schema = read_whole(OsDisk(), path)
    except FileNotFoundError as error:
        raise ConfigError(f"body.schema_file: there is no file {path}") from error
    if body.format == "avro":
        return Decoder(body, schema, _avro_kind(_avro_schema(schema, path)))
    descriptor = _message_type(schema, str(body.message)).DESCRIPTOR
    return Decoder(body, schema, _protobuf_kind(descriptor, ()))


@cache
def _function_of(form: str, schema: bytes, message: str) -> Callable[[bytes], Any]:
    """What decodes one body; None for a body of another format. Kept for the life of a worker."""
    if form == "avro":
        return _avro_function(_avro_schema(schema, "the schema"))
    return _protobuf_function(_message_type(schema, message))


def _avro_schema(schema: bytes, path: str) -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise ConfigError("bodies in Avro need fastavro; run: pip install 'gantrymq[pipelines]'") from error
    try:
        parsed = fastavro.parse_schema(msgspec.json.decode(schema))
    except (msgspec.DecodeError, fastavro.schema.SchemaParseException, KeyError, ValueError) as error:
        raise ConfigError(f"body.schema_file: {path} is not an Avro schema: {error}") from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ConfigError(f"body.schema_file: {path} must be a record, whose fields become the columns of events")
    return parsed


def _avro_kind(schema: Any) -> Kind:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise ConfigError("body.schema_file: a union must be of null and one type; a column has one type")
        return _avro_kind(others[0])
    name = schema if isinstance(schema, str) else schema["type"]
    if isinstance(schema, dict):
        if schema.get("logicalType") in _AVRO_LOGICAL:
            return Kind(_AVRO_LOGICAL[schema["logicalType"]])
        if schema.get("logicalType"):
            raise ConfigError(f"body.schema_file: the logical type {schema['logicalType']} is not supported")
        if name == "record":
            return Kind(
                Scalar.STRUCT, fields=tuple(Field(one["name"], _avro_kind(one["type"])) for one in schema["fields"])
            )
        if name == "array":
            return Kind(Scalar.ARRAY, of=_avro_kind(schema["items"]))
        if name == "map":
            return Kind(Scalar.MAP, of=_avro_kind(schema["values"]))
    if not isinstance(name, str):
        return _avro_kind(name)
    if name not in _AVRO:
        raise ConfigError(f"body.schema_file: the type {name} is not supported here; write the record where it is used")
    return Kind(_AVRO[name])


def _avro_function(schema: Any) -> Callable[[bytes], Any]:
    from io import BytesIO

    import fastavro

    def decode(body: bytes) -> Any:
        stream = BytesIO(body)
        try:
            value = fastavro.schemaless_reader(stream, schema, None)
        # Any bytes may arrive, and fastavro has no common class for what it raises then.
        except Exception:  # noqa: BLE001
            return None
        return None if stream.read(1) else _plain(value)

    return decode


def _plain(value: Any) -> Any:
    """UUIDs as texts, also in lists and maps."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value) if type(value).__name__ == "UUID" else value


def _message_type(descriptors: bytes, message: str) -> Any:
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


def _protobuf_kind(descriptor: Any, outer: tuple[str, ...]) -> Kind:
    if descriptor.full_name in outer:
        raise ConfigError(f"body.message: {descriptor.full_name} contains itself, which a column cannot")
    outer = (*outer, descriptor.full_name)
    return Kind(Scalar.STRUCT, fields=tuple(Field(one.name, _protobuf_field(one, outer)) for one in descriptor.fields))


def _protobuf_field(field: Any, outer: tuple[str, ...]) -> Kind:
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        return Kind(Scalar.MAP, of=_protobuf_single(value, outer))
    single = _protobuf_single(field, outer)
    return Kind(Scalar.ARRAY, of=single) if field.is_repeated else single


def _protobuf_single(field: Any, outer: tuple[str, ...]) -> Kind:
    scalars = {
        field.CPPTYPE_INT32: Scalar.INT, field.CPPTYPE_INT64: Scalar.LONG, field.CPPTYPE_UINT32: Scalar.LONG,
        field.CPPTYPE_UINT64: Scalar.LONG, field.CPPTYPE_DOUBLE: Scalar.DOUBLE, field.CPPTYPE_FLOAT: Scalar.FLOAT,
        field.CPPTYPE_BOOL: Scalar.BOOLEAN, field.CPPTYPE_ENUM: Scalar.STRING,
    }  # fmt: skip
    if field.cpp_type == field.CPPTYPE_MESSAGE:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return Kind(Scalar.TIMESTAMP)
        return _protobuf_kind(field.message_type, outer)
    if field.cpp_type == field.CPPTYPE_STRING:
        return Kind(Scalar.BINARY if field.type == field.TYPE_BYTES else Scalar.STRING)
    return Kind(scalars[field.cpp_type])


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _protobuf_function(kind: Any) -> Callable[[bytes], Any]:
    from google.protobuf.message import DecodeError

    def decode(body: bytes) -> Any:
        message = kind()
        try:
            message.ParseFromString(body)
        except DecodeError:
            return None
        return _protobuf_values(message)

    return decode


def _protobuf_values(message: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            single = field.message_type.fields_by_name["value"]
            values[field.name] = [(str(key), _protobuf_value(single, value[key])) for key in value]
        elif field.is_repeated:
            values[field.name] = [_protobuf_value(field, one) for one in value]
        elif field.has_presence and not message.HasField(field.name):
            values[field.name] = None
        else:
            values[field.name] = _protobuf_value(field, value)
    return values


def _protobuf_value(field: Any, value: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.cpp_type == field.CPPTYPE_UINT64 and value > (1 << 63) - 1:
        return value - (1 << 64)  # Spark has no unsigned numbers; Java reads the same bits in the same way
    if field.cpp_type != field.CPPTYPE_MESSAGE:
        return value
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return value.ToMicroseconds()
    return _protobuf_values(value)
