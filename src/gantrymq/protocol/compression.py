"""Compressed bodies: zlib, and LZ4 and ZSTD where their libraries are installed.

The system flag tells the reader which kind was used. LZ4 is the frame format, not the block format.
Source: MessageSysFlag, CompressorFactory; docs/protocol.md#system-flag.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any, Final

from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.message import flags
from gantrymq.message.sizes import MAX_DECOMPRESSED_BYTES

THRESHOLD_BYTES: Final = 4096
"""Default of ``compressMsgBodyOverHowmuch``: bodies of at least this size are compressed by the client."""
LEVEL: Final = 5
SENT_FLAGS: Final = flags.COMPRESSED | flags.COMPRESSION_ZLIB
"""The bits that a client sets in the system flag for a body compressed with zlib (4.9.4 and later)."""

KINDS: Final = {
    "ZLIB": flags.COMPRESSION_ZLIB,
    "LZ4": flags.COMPRESSION_LZ4,
    "ZSTD": flags.COMPRESSION_ZSTD,
}
_LIBRARIES: Final = {flags.COMPRESSION_LZ4: "lz4.frame", flags.COMPRESSION_ZSTD: "zstandard"}
_NAMES: Final = {flag: name for name, flag in KINDS.items()}


class LibraryMissing(RemoteProtocolError):
    """The library that reads a kind of compression is not installed. (Compiled code keeps no ``__cause__``.)"""


def flags_of(name: str) -> int:
    """The bits in the system flag for a kind of compression. Raises ConfigError when the kind is unknown or its library
    is missing."""
    kind = KINDS.get(name.upper())
    if kind is None:
        raise ConfigError(f"unknown compression {name!r}; known: {', '.join(KINDS)}")
    if kind in _LIBRARIES:
        try:
            import_module(_LIBRARIES[kind])
        except ImportError as error:
            raise ConfigError(f"compression {name} needs a library; pip install 'gantrymq[compression]'") from error
    return flags.COMPRESSED | kind


def compress(body: bytes, level: int = LEVEL, sys_flag: int = SENT_FLAGS) -> bytes:
    """Compress ``body`` in the format of ``sys_flag`` (see :func:`flags_of`). ``level`` applies to zlib."""
    kind = sys_flag & flags.COMPRESSION_MASK
    if kind == flags.COMPRESSION_LZ4:
        return bytes(import_module("lz4.frame").compress(body))
    if kind == flags.COMPRESSION_ZSTD:
        return bytes(import_module("zstandard").ZstdCompressor().compress(body))
    return zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int, most: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The body as its producer wrote it; ``body`` itself when it is not compressed according to ``sys_flag``.

    Raises RemoteProtocolError when the bytes do not have the format of the flag or would be more than ``most``, and
    LibraryMissing when a library is needed that is not installed.
    """
    if not sys_flag & flags.COMPRESSED:
        return body
    if sys_flag & flags.COMPRESSION_MASK not in _LIBRARIES and most == MAX_DECOMPRESSED_BYTES:
        plain = _inflated(body)
        if plain is not None:
            return plain
    start, whole = decompressed_start(body, sys_flag, most)
    if not whole:
        raise RemoteProtocolError(f"the body grows over {most} bytes when it is decompressed")
    return start


def decompressed_start(body: bytes, sys_flag: int, most: int) -> tuple[bytes, bool]:
    """The first ``most`` bytes of the body, and whether that is all of it. No more than that is ever decompressed, so
    it costs the same whatever a body grows to. Raises like ``decompress``, but not for a body that is too large.
    """
    if not sys_flag & flags.COMPRESSED:
        return body[:most], len(body) <= most
    kind = sys_flag & flags.COMPRESSION_MASK
    if kind not in _LIBRARIES:
        return _decompress(zlib.decompressobj(), body, "zlib", zlib.error, most)
    name = _NAMES[kind].lower()
    try:
        library = import_module(_LIBRARIES[kind])
    except ImportError as error:
        raise LibraryMissing(
            f"the body is compressed with {_NAMES[kind]}; to read it, pip install 'gantrymq[compression]'"
        ) from error
    if kind == flags.COMPRESSION_LZ4:
        return _decompress(library.LZ4FrameDecompressor(), body, name, RuntimeError, most)
    return _unzstd(library, body, most)


def _inflated(body: bytes) -> bytes | None:
    """A small body, decompressed in one call. None: it is too large for that, or damaged."""
    if len(body) >= _CANNOT_GROW_OVER:
        return None
    try:
        return zlib.decompress(body, bufsize=_FIRST_BUFFER * len(body))
    except zlib.error:
        return None


def _decompress(stream: Any, body: bytes, name: str, failure: type[Exception], most: int) -> tuple[bytes, bool]:
    try:
        plain: bytes = stream.decompress(body, most)
        if not stream.eof and len(plain) >= most:
            # The end may be next; one byte more shows it. (zlib keeps what it has not looked at in a tail.)
            more = stream.decompress(getattr(stream, "unconsumed_tail", b""), 1)
            return plain, stream.eof and not more
    except failure as error:
        raise RemoteProtocolError(f"the body is marked as {name} but cannot be decompressed: {error}") from error
    if stream.eof:
        return plain, True
    raise RemoteProtocolError(f"the body is marked as {name} but its end is missing")


_CANNOT_GROW_OVER: Final = MAX_DECOMPRESSED_BYTES // 1040
"""A body below this size does not reach MAX_DECOMPRESSED_BYTES: deflate makes of a byte at most 1032. It needs no
object that watches the size, which saves a third of the time of a small body."""
_FIRST_BUFFER: Final = 4
"""Times the size of the compressed body; where that is enough, nothing is copied."""
_PIECE: Final = 256 * 1024


def _unzstd(library: Any, body: bytes, most: int) -> tuple[bytes, bool]:
    stream = library.ZstdDecompressor().stream_reader(body)
    pieces: list[bytes] = []
    size = 0
    try:
        while size <= most and (piece := stream.read(min(_PIECE, most + 1 - size))):
            pieces.append(piece)
            size += len(piece)
    except library.ZstdError as error:
        raise RemoteProtocolError(f"the body is marked as zstd but cannot be decompressed: {error}") from error
    return b"".join(pieces)[:most], size <= most
