"""Frames: their first nine bytes, what may be in which of them, and frames of this side. Source: RFC 9113, 4 and 6."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from gantrymq.grpc.http2.codes import ConnectionFailed, ErrorCode, Flag, Frame, Setting

HEAD: Final = struct.Struct(">BHBBI")
"""Length (its first byte, the other two), type, flags, stream."""
_WORD: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">HI")
STREAM_BITS: Final = 0x7FFF_FFFF

SIZES: Final[Mapping[int, int]] = {
    Frame.PRIORITY: 5, Frame.RST_STREAM: 4, Frame.PING: 8, Frame.WINDOW_UPDATE: 4,
}  # fmt: skip
"""Frames of one size."""
OF_STREAM: Final = frozenset(
    {Frame.DATA, Frame.HEADERS, Frame.PRIORITY, Frame.RST_STREAM, Frame.CONTINUATION, Frame.PUSH_PROMISE}
)
OF_CONNECTION: Final = frozenset({Frame.SETTINGS, Frame.PING, Frame.GOAWAY})
"""WINDOW_UPDATE is of both."""


def check(kind: int, stream_id: int, length: int) -> None:
    """Raises ConnectionFailed for a frame that has another size, or belongs to something else, than its type says."""
    wanted = SIZES.get(kind)
    if wanted is not None and length != wanted:
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, f"a frame {Frame(kind).name} has {length} bytes")
    if kind in OF_STREAM and not stream_id:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"a frame {Frame(kind).name} names no stream")
    if kind in OF_CONNECTION and stream_id:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"a frame {Frame(kind).name} names a stream")


def content(payload: bytes, flags: int, *, priority: bool = False) -> bytes:
    """What is in a frame of data or headers, without its padding. Raises ConnectionFailed."""
    start, end = 0, len(payload)
    if flags & Flag.PADDED:
        if not payload:
            raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "a padded frame does not say how much padding it has")
        start, end = 1, end - payload[0]
    if priority and flags & Flag.PRIORITY:
        start += 5
    if start > end:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than bytes")
    return payload[start:end]


def number(payload: bytes) -> int:
    """Of a frame with one number of 32 bits."""
    return int(_WORD.unpack(payload)[0])


def pairs(payload: bytes) -> list[tuple[int, int]]:
    """What a SETTINGS frame says. Raises ConnectionFailed."""
    if len(payload) % _SETTING.size:
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, f"settings have {len(payload)} bytes")
    return list(_SETTING.iter_unpack(payload))


def head(length: int, kind: Frame, flags: int, stream_id: int) -> bytes:
    """The first bytes of a frame."""
    return HEAD.pack(length >> 16, length & 0xFFFF, kind, flags, stream_id)


def frame(kind: Frame, flags: int, stream_id: int, payload: bytes) -> bytes:
    return head(len(payload), kind, flags, stream_id) + payload


def settings(values: Mapping[Setting, int]) -> bytes:
    return frame(Frame.SETTINGS, 0, 0, b"".join(_SETTING.pack(name, value) for name, value in values.items()))


def reset(stream_id: int, code: ErrorCode) -> bytes:
    return frame(Frame.RST_STREAM, 0, stream_id, _WORD.pack(code))


def more_room(stream_id: int, size: int) -> bytes:
    """A WINDOW_UPDATE."""
    return frame(Frame.WINDOW_UPDATE, 0, stream_id, _WORD.pack(size))


def go_away(last_stream: int, code: ErrorCode, text: str = "") -> bytes:
    said = text.encode("utf-8", "replace")
    return frame(Frame.GOAWAY, 0, 0, _WORD.pack(last_stream) + _WORD.pack(code) + said)


def headers(stream_id: int, block: bytes, largest: int, *, end: bool) -> bytes:
    """A header block, in as many frames as it needs."""
    flags = Flag.END_STREAM if end else 0
    if len(block) <= largest:
        return frame(Frame.HEADERS, flags | Flag.END_HEADERS, stream_id, block)
    parts = [block[at : at + largest] for at in range(0, len(block), largest)]
    return b"".join(_continued(stream_id, parts, flags))


def _continued(stream_id: int, parts: list[bytes], flags: int) -> Iterable[bytes]:
    for place, part in enumerate(parts):
        kind = Frame.CONTINUATION if place else Frame.HEADERS
        last = Flag.END_HEADERS if place == len(parts) - 1 else 0
        yield frame(kind, last | (0 if place else flags), stream_id, part)
