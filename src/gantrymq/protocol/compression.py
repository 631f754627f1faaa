"""Compressed bodies: senders write zlib, readers learn the kind from the system flag. Source: MessageSysFlag."""

from __future__ import annotations

import zlib
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.message import flags

THRESHOLD_BYTES: Final = 4096
"""Default of ``compressMsgBodyOverHowmuch``: bodies of at least this size are compressed by the client."""
LEVEL: Final = 5
SENT_FLAGS: Final = flags.COMPRESSED | flags.COMPRESSION_ZLIB
"""What a client sets in the system flag when it compressed (4.9.4 and later)."""
MAX_BYTES: Final = 64 * 1024 * 1024
"""No body may grow beyond this: 16 times the default message limit. A few bytes of zlib can claim gigabytes."""


def compress(body: bytes, level: int = LEVEL) -> bytes:
    """``body`` in zlib format; send it with :data:`SENT_FLAGS`."""
    return zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """The body as its producer gave it; ``body`` itself when ``sys_flag`` says it is not compressed.

    Raises RemoteProtocolError when the bytes are not what the flag says, or grow over MAX_BYTES.
    """
    if not sys_flag & flags.COMPRESSED:
        return body
    kind = sys_flag & flags.COMPRESSION_MASK
    if kind == flags.COMPRESSION_LZ4:
        raise RemoteProtocolError("the body is compressed with LZ4, which this version cannot read; send it with ZLIB")
    if kind == flags.COMPRESSION_ZSTD:
        raise RemoteProtocolError("the body is compressed with ZSTD, which this version cannot read; send it with ZLIB")
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, MAX_BYTES)
    except zlib.error as error:
        raise RemoteProtocolError(f"the body is marked as zlib but cannot be decompressed: {error}") from error
    if stream.unconsumed_tail:
        raise RemoteProtocolError(f"the body grows over {MAX_BYTES} bytes when it is decompressed")
    if not stream.eof:
        raise RemoteProtocolError("the body is marked as zlib but its end is missing")
    return plain
