"""Bodies in Avro, as ``fastavro``'s ``schemaless_writer`` writes them. Spark's own decoder would need a jar.

Many bodies at once are read by ``avro_columns``. What is left over goes through the library, one body after the other.
It decodes without the logical types: it would round decimals, and raise errors for times that Python does not have.
What they mean is done here, and a value that has no meaning is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.formats.avro_columns import Columns, columns_of
from gantrymq.spark.pipelines.formats.avro_resolution import resolve
from gantrymq.spark.pipelines.formats.avro_types import Unfit, has_endless_lists, is_recursive, kind_of, tree_of
from gantrymq.spark.pipelines.formats.avro_values import convert_of
from gantrymq.spark.pipelines.formats.column_types import ColumnType
from gantrymq.spark.pipelines.formats.converting import Convert
from gantrymq.spark.pipelines.formats.port import BodyRefused, Decoded, decode_each, fitted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """Decodes bodies of one schema to events of the job's own."""

    kind: ColumnType
    _schema: Any
    """The writer's, without logical types."""
    _convert: Convert | None
    _columns: Columns | None
    _reader: Callable[..., Any]
    problems: tuple[str, ...] = ()
    """What of the writer's schema cannot be read."""

    @classmethod
    def of(cls, schema: bytes) -> AvroFormat:
        """The format of the job's own schema. Raises ConfigError for one whose values cannot be columns."""
        try:
            return cls.reading(schema, schema)
        except Unfit as error:
            raise ConfigError(f"body.schema_file: {error}") from error

    @classmethod
    def reading(cls, schema: bytes, written: bytes) -> AvroFormat:
        """The format for bodies that were written by another schema. Raises Unfit for one that is none."""
        reader = tree_of(schema)
        if reader.name != "record":
            raise Unfit("it must be a record, whose fields become the columns of events")
        writer = reader if written == schema else tree_of(written)
        if has_endless_lists(writer):
            raise Unfit("it has a list of values without bytes, which could be endless in a short body")
        resolution = resolve(writer, reader)
        plan = resolution.plan
        read = _reader(recursive=is_recursive(writer))
        return cls(kind_of(reader), _parsed(written), convert_of(plan), columns_of(plan), read, resolution.problems)

    def decode(self, bodies: pa.Array) -> Decoded:
        if self._columns is None:
            return self.decode_each(bodies)
        import numpy as np
        import pyarrow as pa

        events, wrong = self._columns.decode(bodies)
        if not wrong.any():
            return Decoded(events)
        # The loop reads what is left over, or says why it cannot.
        rows = np.flatnonzero(wrong)
        rest = self.decode_each(bodies.take(pa.array(rows)))
        places = np.arange(len(events))
        places[rows] = len(events) + np.arange(len(rows))
        reasons = {int(rows[at]): reason for at, reason in rest.reasons.items()}
        return Decoded(pa.concat_arrays([events, rest.events]).take(pa.array(places)), reasons)

    def decode_each(self, bodies: pa.Array) -> Decoded:
        """One body after the other."""
        read = partial(_read, self._reader, self._schema, self._convert)
        return fitted(decode_each(bodies.to_pylist(), read), self.kind)


def _reader(*, recursive: bool) -> Callable[..., Any]:
    """The library's function. That in C ends the process when records are within each other some thousand times, so
    schemas with which they can be have the same one in Python, which raises RecursionError."""
    try:
        import fastavro
        from fastavro import _read_py
    except ImportError as error:
        raise ConfigError("bodies in Avro need fastavro; run: pip install 'gantrymq[pipelines]'") from error
    return _read_py.schemaless_reader if recursive else fastavro.schemaless_reader


def _read(reader: Callable[..., Any], schema: Any, convert: Convert | None, body: bytes) -> Any:
    stream = BytesIO(body)
    try:
        value = reader(stream, schema, None, return_named_type=True)
    except RecursionError:
        raise BodyRefused("the body has records within each other, too many to read") from None
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


def _parsed(schema: bytes) -> Any:
    """The schema for fastavro, without its logical types."""
    _reader(recursive=False)
    import fastavro

    try:
        fastavro.parse_schema(msgspec.json.decode(schema))
        return fastavro.parse_schema(_without_logical_types(msgspec.json.decode(schema)))
    except (fastavro.schema.SchemaParseException, KeyError, ValueError, TypeError, RecursionError) as error:
        raise Unfit(f"this is not an Avro schema: {error}") from error


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
