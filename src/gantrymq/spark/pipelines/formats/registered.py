"""Bodies in the wire format of a schema registry: each says by which schema it was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gantrymq.runtime.clock import SystemClock
from gantrymq.spark.pipelines.formats.avro_cursor import Bodies, Cursor
from gantrymq.spark.pipelines.formats.avro_types import Unfit
from gantrymq.spark.pipelines.formats.column_types import ColumnType, arrow_type
from gantrymq.spark.pipelines.formats.port import Decoded, Format
from gantrymq.spark.registry.client import Schema, Schemas, SchemaUnknown, SchemaUnreadable
from gantrymq.spark.registry.wire import HEADER_BYTES, NoIndexes, headers_of, indexes_read, indexes_written

if TYPE_CHECKING:
    import pyarrow as pa

KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""What the registry calls the formats of jobs."""
_REMEMBERED_S: Final = 60.0
"""A schema that the registry does not have is asked for again after this time."""
_MOST_REMEMBERED: Final = 10_000

MAY_CHANGE: Final = ("does not have the schema", "is not one of the subject")
"""Parts of the reasons that a registry can take back: somebody may register the schema later."""

MakeFormat = Callable[[Schema], Format]
"""The format of the bodies behind the header. Raises Unfit or SchemaUnreadable for a schema that cannot be read
at all."""


@dataclass(frozen=True, slots=True)
class RegisteredFormat:
    """Decodes bodies with headers. It is kept for the life of a process, with what it has learned."""

    kind: ColumnType
    name: str
    """The format of the job."""
    schemas: Schemas
    subject: str | None
    """The only subject whose schemas count; None: those of all."""
    make: MakeFormat
    _known: dict[int, Format | str] = field(default_factory=dict)
    """By id: what reads the bodies, or the reason why nothing does."""
    _unknown: dict[int, tuple[float, str]] = field(default_factory=dict)
    """By id: since when the registry says that there is no such schema, and the reason."""

    def decode(self, bodies: pa.Array) -> Decoded:
        import numpy as np
        import pyarrow as pa

        headers = headers_of(bodies)
        every = Bodies.of(bodies).cursor()
        reasons = dict(headers.reasons)
        parts: list[Any] = [pa.nulls(1, arrow_type(self.kind))]
        places: Any = np.zeros(len(bodies), np.int64)
        count = 1
        for number in np.unique(headers.ids[headers.ids >= 0]):
            rows = np.flatnonzero(headers.ids == number)
            form = self._format(int(number))
            if isinstance(form, str):
                reasons.update(dict.fromkeys(rows.tolist(), form))
                continue
            decoded = form.decode(_behind_header(every.of(rows)))
            parts.append(decoded.events)
            places[rows] = np.arange(count, count + len(rows))
            count += len(rows)
            reasons.update({int(rows[at]): reason for at, reason in decoded.reasons.items()})
        return Decoded(pa.concat_arrays(parts).take(pa.array(places)), reasons)

    def _format(self, number: int) -> Format | str:
        """What reads bodies of the schema with this id. Waits while the registry is away."""
        if number not in self._known:
            now = SystemClock().monotonic()
            since, reason = self._unknown.get(number, (now - _REMEMBERED_S, ""))
            if now - since < _REMEMBERED_S:
                return reason
            try:
                self._known[number] = self._made(number)
            except SchemaUnknown as error:
                if len(self._unknown) >= _MOST_REMEMBERED:
                    self._unknown.clear()
                self._unknown[number] = (now, str(error))
                return str(error)
        return self._known[number]

    def _made(self, number: int) -> Format | str:
        schema = self.schemas.schema(number)
        if self.subject is not None and not self.schemas.is_of(number, self.subject):
            # It may become one of the subject's later, so this is not kept for ever.
            raise SchemaUnknown(f"the schema {number} is not one of the subject {self.subject}")
        if schema.kind != KINDS[self.name]:
            return f"the schema {number} is of the kind {schema.kind}, and body.format is {self.name}"
        try:
            return self.make(schema)
        except (Unfit, SchemaUnreadable) as error:
            return f"the schema {number} cannot be read: {error}"


def _behind_header(bodies: Cursor) -> pa.Array:
    """What follows. Arrow's own ``binary_slice`` fails for some arrays."""
    bodies.at += HEADER_BYTES
    return bodies.binary(bodies.end - bodies.at)


@dataclass(frozen=True, slots=True)
class IndexedProtobuf:
    """Bodies in Protobuf behind the indexes of their message type."""

    inner: Format
    message: str
    names: dict[tuple[int, ...], str]
    """The message types of the writer's file."""
    problems: tuple[str, ...]
    """What of the writer's message type cannot be read."""

    @property
    def kind(self) -> ColumnType:
        return self.inner.kind

    def decode(self, bodies: pa.Array) -> Decoded:
        import pyarrow as pa

        wanted = [path for path, name in self.names.items() if name == self.message]
        written = sorted((one for path in wanted for one in indexes_written(path)), key=len, reverse=True)
        payloads: list[bytes] = []
        reasons: dict[int, str] = {}
        for at, body in enumerate(bodies.to_pylist()):
            length = next((len(one) for one in written if body.startswith(one)), None)
            if length is None or self.problems:
                reasons[at] = self._refused(body)
            payloads.append(b"" if length is None else body[length:])
        decoded = self.inner.decode(pa.array(payloads, pa.binary()))
        if not reasons:
            return decoded
        there = [None if at in reasons else at for at in range(len(payloads))]
        return Decoded(decoded.events.take(pa.array(there, pa.int64())), {**decoded.reasons, **reasons})

    def _refused(self, body: bytes) -> str:
        try:
            path, _ = indexes_read(body)
        except NoIndexes as error:
            return str(error)
        name = self.names.get(path)
        if name is None:
            return f"the body is of the message type {list(path)}, which its schema does not have"
        if name != self.message:
            return f"the body is of the message type {name}, and body.message is {self.message}"
        if self.problems:
            return f"the schema of the body cannot be read: {self.problems[0]}"
        return "the indexes of the message type are written in an unknown way"
