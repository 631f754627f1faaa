"""Confluent's wire format: what is before a body that was written with a schema of a registry. No I/O.

    byte 0       magic: 0
    bytes 1-4    id of the schema, big-endian
    Protobuf:    indexes of the message type in its file: their number, then each of them, as zigzag varints;
                 one byte 0 stands for the indexes [0]
    the rest     the value

Source: Confluent's documentation, "Wire format"; ``confluent_kafka.schema_registry.serde``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

HEADER_BYTES: Final = 5
MOST_INDEXES: Final = 64
"""Message types within each other. More are no header, but other bytes."""


class NoIndexes(ValueError):
    """Bytes that name no message type. The text is the reason for a dead letter."""


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def indexes_written(path: tuple[int, ...]) -> frozenset[bytes]:
    """The ways to write the indexes of a message type."""
    whole = b"".join(_zigzag(one) for one in (len(path), *path))
    return frozenset({whole, b"\0"}) if path == (0,) else frozenset({whole})


def indexes_read(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes before a value in Protobuf, and how many bytes they take. Raises NoIndexes."""
    count, at = _varint(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_INDEXES:
        raise NoIndexes(f"the body names its message type by {count} indexes, which is no message type")
    path: list[int] = []
    for _ in range(count):
        one, at = _varint(payload, at)
        path.append(one)
    return tuple(path), at


def _zigzag(number: int) -> bytes:
    number = number << 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            break
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise NoIndexes("the body ends in the indexes of its message type, or they are no numbers")


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of some bodies."""

    ids: Any
    """A numpy array: the id of the schema of each body; -1 where there is no header."""
    reasons: dict[int, str]
    """Why there is no header, by the index of the body."""


def headers_of(bodies: pa.Array) -> Headers:
    """The headers of bodies, none of which is null."""
    import numpy as np

    _, offsets, values = bodies.buffers()
    data = np.zeros(1, np.uint8) if values is None or not values.size else np.frombuffer(values, np.uint8)
    places = np.frombuffer(offsets, np.int32, len(bodies) + 1, 4 * bodies.offset).astype(np.int64)
    begin, length = places[:-1], np.diff(places)
    block = data.take(begin[:, None] + np.arange(HEADER_BYTES), mode="clip").astype(np.int64)
    ids = (block[:, 1] << 24) | (block[:, 2] << 16) | (block[:, 3] << 8) | block[:, 4]
    bad = np.flatnonzero((length < HEADER_BYTES) | (block[:, 0] != 0))
    ids[bad] = -1
    return Headers(ids, {int(at): _no_header(int(length[at]), int(block[at, 0])) for at in bad})


def _no_header(length: int, first: int) -> str:
    text = "the body is not in the wire format of a schema registry: "
    if length and first:
        return f"{text}it begins with the byte 0x{first:02x}, and not with 0"
    return f"{text}it has {length} bytes, and the id of a schema alone takes {HEADER_BYTES}"
