"""Messages in the data of a call: each has five bytes before it, which say its length and whether it is compressed."""

from __future__ import annotations

import struct
import zlib
from typing import Final

from gantrymq.grpc.serving.statuses import CallFailed, GrpcStatus

LARGEST_MESSAGE_BYTES: Final = 130 * 1024 * 1024
"""As Apache's proxy: a client may send several messages of 4 MiB in one request."""
HEAD: Final = struct.Struct(">BI")
IDENTITY: Final = "identity"
GZIP: Final = "gzip"
ENCODINGS: Final = (IDENTITY, GZIP)
_GZIP_OF_ZLIB: Final = 31


def framed(message: bytes) -> bytes:
    return HEAD.pack(0, len(message)) + message


class MessageReader:
    """Cuts the data of one call into messages. ``encoding``: what the client says about compressed ones."""

    __slots__ = ("_encoding", "_parts", "size")

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._parts: list[bytes] = []
        self.size = 0
        """Bytes of the message that is not whole yet."""

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now. Raises CallFailed."""
        self._parts.append(data)
        self.size += len(data)
        if not self._is_whole():
            return []
        buffer = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        messages, at = [], 0
        while len(buffer) - at >= HEAD.size:
            compressed, length = HEAD.unpack_from(buffer, at)
            end = at + HEAD.size + length
            if end > len(buffer):
                break
            message = buffer[at + HEAD.size : end]
            messages.append(self._inflated(message) if compressed else message)
            at = end
        rest = buffer[at:]
        self._parts, self.size = [rest] if rest else [], len(rest)
        return messages

    def _is_whole(self) -> bool:
        """Whether the first message is there. Pieces of a large one are joined once, at its end."""
        if len(self._parts[0]) < HEAD.size:
            self._parts = [b"".join(self._parts)]
            if self.size < HEAD.size:
                return False
        length = HEAD.unpack_from(self._parts[0])[1]
        if length > LARGEST_MESSAGE_BYTES:
            raise CallFailed(
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"a message has {length} bytes; the limit is {LARGEST_MESSAGE_BYTES}",
            )
        return bool(self.size - HEAD.size >= length)

    def _inflated(self, message: bytes) -> bytes:
        if self._encoding != GZIP:
            raise CallFailed(GrpcStatus.INTERNAL, "a message is compressed, and grpc-encoding does not say how")
        inflater = zlib.decompressobj(_GZIP_OF_ZLIB)
        try:
            found = inflater.decompress(message, LARGEST_MESSAGE_BYTES + 1)
        except zlib.error as error:
            raise CallFailed(GrpcStatus.INTERNAL, f"a compressed message is not valid: {error}") from error
        if len(found) > LARGEST_MESSAGE_BYTES:
            raise CallFailed(GrpcStatus.RESOURCE_EXHAUSTED, f"a message grows over {LARGEST_MESSAGE_BYTES} bytes")
        if not inflater.eof:
            raise CallFailed(GrpcStatus.INTERNAL, "a compressed message ends too early")
        return found
