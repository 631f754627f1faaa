"""Bodies become rows of an Arrow column, each with nothing or with the reason why its body is no event."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk, read_whole
from gantrymq.spark.error_reports import without_traceback
from gantrymq.spark.pipelines.formats.column_types import ColumnType, ddl_type
from gantrymq.spark.pipelines.formats.port import Format, plain
from gantrymq.spark.pipelines.formats.registered import KINDS, IndexedProtobuf, RegisteredFormat
from gantrymq.spark.pipelines.job import Allowed, Body
from gantrymq.spark.registry.client import AWAY_MS, Schema, Schemas, SchemaUnknown
from gantrymq.spark.registry.place import Registry, registry_of
from gantrymq.spark.registry.protobuf_files import compiled
from gantrymq.spark.registry.references import avro_text

if TYPE_CHECKING:
    import pyarrow as pa

EVENT, REASON = "event", "event_reason"
"""The columns that are added to those of the messages. One of them is null."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the bodies of one job. Spark sends it to its workers, which make the format from it."""

    name: str
    schema: bytes
    """json: the columns in Spark's JSON. avro, protobuf: the content of the schema file."""
    message: str
    allow: frozenset[Allowed]
    kind: ColumnType
    registry: Registry | None = None
    """Where the schemas of the bodies are; None: each body has the job's own schema, and no header."""
    subject: str | None = None

    @property
    def spark_type(self) -> str:
        return ddl_type(self.kind)

    @property
    def format(self) -> Format:
        """What decodes. It is made once in each process."""
        if self.registry is None:
            return _format(self.name, self.schema, self.message, self.allow)
        return _registered(self.name, self.schema, self.message, self.allow, self.registry, self.subject)

    def add_event(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the columns ``event`` and ``event_reason``."""
        import pyarrow as pa

        form = self.format
        for batch in batches:
            with without_traceback():
                event, reason = event_columns(form, batch.column("body"))
            names = [*batch.schema.names, EVENT, REASON]
            yield pa.RecordBatch.from_arrays([*batch.columns, event, reason], names=names)


def decoder_of(body: Body, environment: Mapping[str, str] | None = None, away_ms: int = AWAY_MS) -> Decoder:
    """The decoder for a job's bodies. ``environment``: where the secrets of a registry are; None: that of this process.
    ``away_ms``: how long a registry may be away.

    Raises ConfigError when the schema or the library is missing or unfit. The columns of JSON are written in Spark's
    own language: a Spark session must be there to read them. A schema that only the registry has is asked for.
    """
    registry = None
    if body.registry is not None:
        registry = registry_of(body.registry, os.environ if environment is None else environment)
    allow, message = frozenset(body.allow), body.message or ""
    schema = _schema(body, registry, away_ms)
    try:
        kind = _format(body.format, schema, message, allow).kind
    except ConfigError as error:
        if body.schema_file is not None or body.subject is None:
            raise
        said = str(error).removeprefix("body.schema_file: ")
        raise ConfigError(f"body.subject: the newest schema of {body.subject} cannot be the job's: {said}") from error
    return Decoder(body.format, schema, message, allow, kind, registry, body.subject)


def _schema(body: Body, registry: Registry | None, away_ms: int) -> bytes:
    """The job's own schema."""
    if body.format == "json":
        from gantrymq.spark.pipelines.formats.json import schema_of

        return schema_of(str(body.schema))
    if body.schema_file is None and registry is not None and body.subject is not None:
        try:
            newest = Schemas(registry, away_ms).newest(body.subject).schema
        except SchemaUnknown as error:
            raise ConfigError(f"body.subject: {error}; register it, or give body.schema_file") from error
        if newest.kind != KINDS[body.format]:
            raise ConfigError(f"body.subject: {body.subject} has schemas of the kind {newest.kind}; set body.format")
        return compiled(newest) if body.format == "protobuf" else avro_text(newest)
    try:
        return read_whole(OsDisk(), str(body.schema_file))
    except FileNotFoundError as error:
        raise ConfigError(f"body.schema_file: there is no file {body.schema_file}") from error


@cache
def _format(name: str, schema: bytes, message: str, allow: frozenset[Allowed]) -> Format:
    """Kept for the life of a worker. Each module needs a library of its own."""
    if name == "json":
        from gantrymq.spark.pipelines.formats.json import JsonFormat

        return JsonFormat.of(schema, allow)
    if name == "avro":
        from gantrymq.spark.pipelines.formats.avro import AvroFormat

        return AvroFormat.of(schema)
    from gantrymq.spark.pipelines.formats.protobuf import ProtobufFormat

    return ProtobufFormat.of(schema, message, allow)


@cache
def _registered(
    name: str, schema: bytes, message: str, allow: frozenset[Allowed], registry: Registry, subject: str | None
) -> Format:
    """Kept as well, with the schemas that were fetched."""
    own = _format(name, schema, message, allow)
    return RegisteredFormat(
        own.kind, name, Schemas(registry), subject, lambda written: written_by(name, schema, message, allow, written)
    )


def written_by(name: str, schema: bytes, message: str, allow: frozenset[Allowed], written: Schema) -> Format:
    """The format for bodies behind the header that were written by a schema of a registry.

    Raises ConfigError for a schema that cannot be read. Its ``problems``, if it has some, are those of single fields.
    """
    if name == "avro":
        from gantrymq.spark.pipelines.formats.avro import AvroFormat

        return AvroFormat.reading(schema, avro_text(written))
    if name == "protobuf":
        from gantrymq.spark.pipelines.formats.protobuf import ProtobufFormat, written_messages

        own = ProtobufFormat.of(schema, message, allow)
        return IndexedProtobuf(own, message, *written_messages(compiled(written), message, own))
    return _format(name, schema, message, allow)


def event_columns(form: Format, bodies: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The columns ``event`` and ``event_reason``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Sessions may have large types, with other offsets.
    bodies = bodies.cast(pa.binary())
    there = bodies.drop_null() if bodies.null_count else bodies
    decoded = form.decode(there)
    event, reasons = decoded.events, decoded.reasons
    texts = pa.nulls(len(event), pa.string())
    if reasons:
        texts = pa.array([plain(reasons[at]) if at in reasons else None for at in range(len(event))], pa.string())
    if bodies.null_count:
        at = iter(range(len(event)))
        places = pa.array([next(at) if one.is_valid else None for one in bodies], pa.int64())
        event = event.take(places)
        texts = pc.if_else(bodies.is_null(), "the message has no body", texts.take(places))
    return event, texts
