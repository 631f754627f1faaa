"""Columns of any Spark query in the wire format of a schema registry: the bodies of the source, and those for the sink.

The package must be installed where the executors are, as for the source.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from gantrymq.errors import ConfigError
from gantrymq.spark.error_reports import without_traceback
from gantrymq.spark.pipelines.describe.job_rules import body_problems
from gantrymq.spark.pipelines.formats.avro import AvroFormat
from gantrymq.spark.pipelines.formats.decoding import EVENT, Decoder, decoder_of, event_columns
from gantrymq.spark.pipelines.formats.port import shown
from gantrymq.spark.pipelines.formats.registered import KINDS
from gantrymq.spark.pipelines.job import Allowed, Body
from gantrymq.spark.registry.client import Schemas
from gantrymq.spark.registry.place import registry_of
from gantrymq.spark.registry.protobuf_files import compiled, file_of, message_paths
from gantrymq.spark.registry.references import avro_text
from gantrymq.spark.registry.wire import header, indexes_written

if TYPE_CHECKING:
    from pyspark.sql import Column

Format = Literal["avro", "protobuf", "json"]


def from_registry(
    column: Column | str,
    registry: str,
    *,
    format: Format = "avro",
    subject: str | None = None,
    schema: str | None = None,
    schema_file: str | None = None,
    message: str | None = None,
    allow: Sequence[Allowed] = (),
    environment: Mapping[str, str] | None = None,
) -> Column:
    """A struct of ``event``, the columns, and ``reason``, why a body is no event. One of both is null.

    The options are those of ``[body]`` in a job file, and a body is read as strictly. Raises ConfigError.
    """
    from pyspark.sql.functions import arrow_udf

    body = Body(
        format=format, registry=registry, subject=subject, schema=schema, schema_file=schema_file, message=message,
        allow=tuple(allow),
    )  # fmt: skip
    if problems := list(body_problems(body)):
        raise ConfigError("; ".join(f"{one.key}: {one.text}" for one in problems))
    decoder = decoder_of(body, environment)
    kind = f"struct<{EVENT}:{decoder.spark_type},reason:string>"
    decoding = _Decoding(decoder)

    def decode(bodies: pa.Array) -> pa.Array:
        return decoding.decoded(bodies)

    return arrow_udf(decode, kind)(column)


@dataclass(frozen=True, slots=True)
class _Decoding:
    decoder: Decoder

    def decoded(self, bodies: pa.Array) -> pa.Array:
        with without_traceback():
            event, reason = event_columns(self.decoder.format, bodies)
        return pa.StructArray.from_arrays([event, reason], names=[EVENT, "reason"])


def to_registry(
    column: Column | str,
    registry: str,
    subject: str,
    *,
    format: Format = "avro",
    message: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Column:
    """Bodies for the sink, by the newest schema of a subject. Nothing is registered.

    avro: ``column`` is a struct, which must fit the schema exactly. json, protobuf: it has the values already, as
    ``to_json`` and ``to_protobuf`` make them, and gets the header. ``message``: protobuf, the full name of the type.
    """
    from pyspark.sql import functions as f

    newest = Schemas(registry_of(registry, os.environ if environment is None else environment)).newest(subject).schema
    if newest.kind != KINDS[format]:
        raise ConfigError(f"the subject {subject} has schemas of the kind {newest.kind}, and the format is {format}")
    before = header(newest.id)
    if format == "avro":
        encoding = _Encoding(before, avro_text(newest), subject)

        def encode(rows: pa.Array) -> pa.Array:
            with without_traceback():
                return encoding.encoded(rows)

        return f.arrow_udf(encode, "binary")(column)
    if format == "protobuf":
        names = message_paths(file_of(compiled(newest)))
        path = next((path for path, name in names.items() if name == message), None)
        if path is None:
            raise ConfigError(f"the subject {subject} has no message {message}; it has {', '.join(names.values())}")
        before += min(indexes_written(path), key=len)
    values = f.col(column) if isinstance(column, str) else column
    return f.concat(f.lit(before), values.cast("binary"))


class RowUnwritable(ConfigError):
    """A row does not fit the schema of a subject. Nothing of its task was written."""

    what_to_do = "Change the columns of the query, or the schema."


@dataclass(frozen=True, slots=True)
class _Encoding:
    before: bytes
    schema: bytes
    subject: str

    def encoded(self, rows: pa.Array) -> pa.Array:
        import fastavro
        import msgspec

        form = AvroFormat.of(self.schema)
        known = [one.name for one in form.kind.fields]
        if more := [field.name for field in rows.type if field.name not in known]:
            raise RowUnwritable(f"the newest schema of {self.subject} has no field {', '.join(more)}; remove it")
        parsed = fastavro.parse_schema(msgspec.json.decode(self.schema))
        made: list[bytes | None] = []
        for value in rows.to_pylist():
            stream = BytesIO()
            try:
                if value is not None:
                    fastavro.schemaless_writer(stream, parsed, value, strict_allow_default=True)
            # fastavro has no common class for what it raises.
            except Exception as error:
                raise RowUnwritable(
                    f"a row does not fit the newest schema of {self.subject}: {error}; {shown(value)}"
                ) from error
            made.append(None if value is None else stream.getvalue())
        payloads = pa.array(made, pa.binary())
        self._check(form, rows, payloads)
        return pa.array([None if one is None else self.before + one for one in made], pa.binary())

    def _check(self, form: AvroFormat, rows: pa.Array, payloads: pa.Array) -> None:
        """Raise RowUnwritable where a value was changed: fastavro cuts times to milliseconds, for example."""
        written = form.decode(payloads.drop_null()).events
        there = rows.drop_null()
        for field in rows.type:
            if pa.types.is_nested(field.type):
                continue
            before, after = there.field(field.name), written.field(field.name)
            if not pa.types.is_nested(after.type) and before.cast(after.type, safe=False) != after:
                raise RowUnwritable(
                    f"the newest schema of {self.subject} cannot have a value of the column {field.name} as it is; "
                    "round it before, or register a schema with another type"
                )
