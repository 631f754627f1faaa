"""Where the half messages of an attempt lie, in the form in which tasks write it down for those who end them.

A piece is one message in the topic of places: the half messages of some requests, as compressed MessagePack. So neither
the driver nor the control topic has to hold the places of all rows of a batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.sizes import MAX_DECOMPRESSED_BYTES
from gantrymq.spark.sink.ids import KEY_CHARACTERS, unique_keys

if TYPE_CHECKING:
    import numpy.typing as npt

ROWS_IN_PIECE: Final = 50_000
"""A row takes 20 bytes before the compression, and a message may have 4 MiB."""
ENDS_IN_REQUEST: Final = 1_000
_PLACE: Final = np.dtype([("queue_offset", ">i8"), ("log_offset", ">i8")])
_END: Final = np.dtype([("queue_offset", ">i8"), ("log_offset", ">i8"), ("size", ">u2"), ("key", f"S{KEY_CHARACTERS}")])
"""An item of END_HALVES (``protocol.halves``)."""


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """The half messages of one request."""

    topic: str
    broker: str
    rows: bytes
    """The row of each, 4 bytes, big-endian."""
    places: bytes
    """The answer to SEND_HALVES."""

    @property
    def count(self) -> int:
        return len(self.rows) // 4


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Some half messages of one attempt."""

    prefix: str
    """Of their ids; see ``sink.ids``."""
    stored: tuple[Stored, ...]


def stored_of(topic: str, broker: str, rows: npt.NDArray[np.uint32], places: bytes) -> Stored:
    """Raises RemoteProtocolError when the broker's answer has not one place for each row."""
    if len(places) != len(rows) * _PLACE.itemsize:
        raise RemoteProtocolError(
            f"the broker {broker} answered with {len(places)} bytes of places for {len(rows)} half messages"
        )
    return Stored(topic, broker, rows.astype(">u4").tobytes(), places)


def encode_piece(piece: Piece) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(piece), 1)


def decode_piece(body: bytes) -> Piece:
    """Raises RemoteProtocolError when the body is no piece."""
    try:
        plain = zlib.decompressobj().decompress(body, MAX_DECOMPRESSED_BYTES)
        return msgspec.msgpack.decode(plain, type=Piece)
    except (zlib.error, msgspec.DecodeError) as error:
        raise RemoteProtocolError(f"a message in the topic of places cannot be read: {error}") from error


def ends_of(piece: Piece) -> Iterator[tuple[str, str, bytes, int]]:
    """(topic, broker, body of END_HALVES, number of half messages) for each request that ends half messages of a piece.

    Requests that follow each other go to one broker as long as possible.
    """
    together: list[Stored] = []
    for stored in piece.stored:
        if together and (
            stored.broker != together[0].broker
            or stored.topic != together[0].topic
            or sum([one.count for one in together]) + stored.count > ENDS_IN_REQUEST
        ):
            yield _ends(piece.prefix, together)
            together = []
        together.append(stored)
    if together:
        yield _ends(piece.prefix, together)


def _ends(prefix: str, stored: list[Stored]) -> tuple[str, str, bytes, int]:
    places = np.frombuffer(b"".join([one.places for one in stored]), dtype=_PLACE)
    rows = np.frombuffer(b"".join([one.rows for one in stored]), dtype=">u4").astype(np.uint32)
    ends: Any = np.empty(len(rows), dtype=_END)
    ends["queue_offset"], ends["log_offset"] = places["queue_offset"], places["log_offset"]
    ends["size"] = KEY_CHARACTERS
    ends["key"] = unique_keys(prefix, rows)
    return stored[0].topic, stored[0].broker, ends.tobytes(), len(rows)
