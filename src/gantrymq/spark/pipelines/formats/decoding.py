"""Bodies become rows of an Arrow column, each with nothing or with the reason why its body is no event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import OsDisk, read_whole
from gantrymq.spark.pipelines.formats.kinds import Kind, ddl_type
from gantrymq.spark.pipelines.formats.port import Format
from gantrymq.spark.pipelines.job import Allowed, Body
from gantrymq.spark.pipelines.reasons import plain

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
    kind: Kind

    @property
    def spark_type(self) -> str:
        return ddl_type(self.kind)

    def add_event(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches with the columns ``event`` and ``event_reason``."""
        import pyarrow as pa

        form = _format(self.name, self.schema, self.message, self.allow)
        for batch in batches:
            event, reason = _columns(form, batch.column("body"))
            names = [*batch.schema.names, EVENT, REASON]
            yield pa.RecordBatch.from_arrays([*batch.columns, event, reason], names=names)


def decoder_of(body: Body) -> Decoder:
    """The decoder for a job's bodies. Raises ConfigError when the schema or the library is missing or unfit.

    The columns of JSON are written in Spark's own language: a Spark session must be there to read them.
    """
    if body.format == "json":
        from gantrymq.spark.pipelines.formats.json import schema_of

        schema = schema_of(str(body.schema))
    else:
        try:
            schema = read_whole(OsDisk(), str(body.schema_file))
        except FileNotFoundError as error:
            raise ConfigError(f"body.schema_file: there is no file {body.schema_file}") from error
    allow, message = frozenset(body.allow), body.message or ""
    return Decoder(body.format, schema, message, allow, _format(body.format, schema, message, allow).kind)


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


def _columns(form: Format, bodies: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The columns ``event`` and ``event_reason``."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
