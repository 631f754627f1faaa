"""Length-prefixed frames: splits a byte stream into headers and bodies.

| Size | Field |
|---|---|
| 4 | number of bytes that follow this field |
| 4 | serialization of the header in bits 31..24, length of the header in bits 23..0 |
| n | header |
| rest | body |

Source: NettyEncoder, NettyDecoder; docs/protocol.md#frames.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message.sizes import MAX_FRAME_BYTES

_PREFIX: Final = Struct(">II")
_HEADER_LENGTH: Final = 0xFFFFFF

Frame = tuple[int, bytes, bytes]
"""Serialization number, header bytes, body bytes."""


class FrameSplitter:
    """Collects the bytes of one direction of one connection, and returns whole frames.

    After RemoteProtocolError the splitter must not be used again, because it cannot tell where the next frame begins.
    """

    __slots__ = ("_max", "_need", "_parts", "_size")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        # The chunks of an incomplete frame, their total size, and the size of the complete frame. The chunks are joined
        # only when the frame is complete, so that the work is linear in its size.
        self._parts: list[bytes] = []
        self._size = 0
        self._need = 8

    @property
    def pending_bytes(self) -> int:
        """The number of bytes received of an incomplete frame."""
        return self._size

    def feed(self, data: bytes) -> list[Frame]:
        """All frames that ``data`` completes, in order. Raises RemoteProtocolError for an invalid length."""
        frames: list[Frame] = []
        if self._parts:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._need:
                return frames
            data = self._complete(frames)
        unpack, limit = _PREFIX.unpack_from, self._max
        start, end = 0, len(data)
        need = 8
        while end - start >= 8:
            length, word = unpack(data, start)
            header_length = word & _HEADER_LENGTH
            if not header_length + 4 <= length <= limit:
                raise RemoteProtocolError(_explain(length, header_length, limit))
            stop = start + 4 + length
            if stop > end:
                need = 4 + length
                break
            body_start = start + 8 + header_length
            frames.append((word >> 24, data[start + 8 : body_start], data[body_start:stop]))
            start = stop
        self._size = end - start
        self._need = need
        if self._size:
            self._parts = [data[start:] if start else data]
        return frames

    def _complete(self, frames: list[Frame]) -> bytes:
        """Add the frame of which the last chunk has come, and return the bytes behind it.

        A large answer comes in many chunks. Its body is joined alone: cut out of a joined frame it would be copied
        twice. If the header is not in the first chunk, the chunks are returned as one.
        """
        parts, self._parts = self._parts, []
        first, last = parts[0], parts[-1]
        if len(first) < 8:
            return b"".join(parts)
        word = _PREFIX.unpack_from(first)[1]
        body_start = 8 + (word & _HEADER_LENGTH)
        if len(first) < body_start:
            return b"".join(parts)
        cut = len(last) - (self._size - self._need)
        parts[0], parts[-1] = first[body_start:], last[:cut]
        frames.append((word >> 24, first[8:body_start], b"".join(parts)))
        return last[cut:]


def _explain(length: int, header_length: int, limit: int) -> str:
    if length > limit:
        return (
            f"frame of {length} bytes announced; at most {limit} are accepted. "
            "Either the peer does not speak the RocketMQ remoting protocol or its message is too large"
        )
    return f"frame of {length} bytes announces a header of {header_length} bytes; is the peer a RocketMQ client?"


def before_body(frame: bytes, size: int) -> bytes:
    """The beginning of a frame: ``frame`` has no body yet, and ``size`` bytes of body are sent right behind it.

    Raises LocalProtocolError like ``join_frame``.
    """
    length = len(frame) - 4 + size
    if length > MAX_FRAME_BYTES:
        raise _too_large(length)
    return length.to_bytes(4, "big") + frame[4:]


def join_frame(serialization: int, header: bytes, body: bytes) -> bytes:
    """One whole frame. Raises LocalProtocolError when it is larger than peers accept."""
    length = 4 + len(header) + len(body)
    if length > MAX_FRAME_BYTES:
        raise _too_large(length)
    return b"".join((_PREFIX.pack(length, serialization << 24 | len(header)), header, body))


def _too_large(length: int) -> LocalProtocolError:
    return LocalProtocolError(f"a frame of {length} bytes cannot be sent; the limit is {MAX_FRAME_BYTES}")
