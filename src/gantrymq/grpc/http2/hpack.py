"""Header blocks: read with all that the format has, and written without a table. Source: RFC 7541.

Names and values are texts here, a character for each byte. They are made once for each entry of the table, since a
client sends the same ones with every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.grpc.http2.codes import ConnectionFailed, ErrorCode
from gantrymq.grpc.http2.huffman import decode

Header = tuple[str, str]

TABLE_BYTES: Final = 4_096
"""Of the table that a client fills."""
ENTRY_BYTES: Final = 32
"""What an entry counts beside its name and value."""
FORGET_TABLE: Final = b"\x20"
"""At the beginning of a block: the table of this side is empty from now on. It is empty anyway."""
_MOST_OF_NUMBER: Final = 5
"""Bytes of a number behind its first one; no length needs more."""

STATIC: Final[tuple[Header, ...]] = (
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
)  # fmt: skip
"""Appendix A; the first one has the number 1."""


_SIZED: Final = tuple((header, len(header[0]) + len(header[1]) + ENTRY_BYTES) for header in STATIC)
"""The same with what each counts."""
_STATIC_ENTRIES: Final = len(STATIC)


class HeaderDecoder:
    """Reads the header blocks of one connection, in their order. Each error ends the connection, because the tables of
    both sides differ from then on."""

    __slots__ = ("_entries", "_list_bytes", "_most", "_size")

    def __init__(self, list_bytes: int) -> None:
        """``list_bytes``: the most that the headers of one block may have together, ENTRY_BYTES for each included."""
        self._list_bytes = list_bytes
        self._entries: list[tuple[Header, int]] = []
        """Each with what it counts; the newest one is the last."""
        self._size = 0
        self._most = TABLE_BYTES

    def decode(self, block: bytes) -> list[Header]:
        """Raises ConnectionFailed."""
        headers: list[Header] = []
        room, at, end, entries = self._list_bytes, 0, len(block), self._entries
        last = _STATIC_ENTRIES + len(entries)
        try:
            while at < end:
                first = block[at]
                if first >= 0x80:  # a header of the table, as most are
                    number = first & 0x7F
                    if _STATIC_ENTRIES < number <= last and number < 0x7F:
                        header, size = entries[_STATIC_ENTRIES - number]
                        at += 1
                    else:
                        number, at = _number(block, at, 0x7F)
                        header, size = self._entry(number)
                elif first >= 0x40:  # a new one, for the table
                    header, at = self._literal(block, at, 0x3F)
                    size = self._add(header)
                    last = _STATIC_ENTRIES + len(entries)
                elif first >= 0x20:
                    if headers:
                        raise _invalid("the size of the table changes behind a header")
                    at = self._resize(block, at)
                    last = _STATIC_ENTRIES + len(entries)
                    continue
                else:  # a new one, which the table does not keep
                    header, at = self._literal(block, at, 0x0F)
                    size = len(header[0]) + len(header[1]) + ENTRY_BYTES
                room -= size
                if room < 0:
                    raise ConnectionFailed(
                        ErrorCode.ENHANCE_YOUR_CALM, f"the headers of a call have more than {self._list_bytes} bytes"
                    )
                headers.append(header)
        except IndexError:
            raise _invalid("a header block ends too early") from None
        except ValueError as error:
            raise _invalid(str(error)) from None
        return headers

    def _entry(self, number: int) -> tuple[Header, int]:
        if 0 < number <= _STATIC_ENTRIES:
            return _SIZED[number - 1]
        number -= _STATIC_ENTRIES
        if not 0 < number <= len(self._entries):
            raise _invalid("a header names an entry that the table does not have")
        return self._entries[-number]

    def _literal(self, block: bytes, at: int, mask: int) -> tuple[Header, int]:
        number, at = _number(block, at, mask)
        if number:
            name = self._entry(number)[0][0]
        else:
            name, at = _text(block, at)
        value, at = _text(block, at)
        return (name, value), at

    def _add(self, header: Header) -> int:
        """What it counts."""
        size = len(header[0]) + len(header[1]) + ENTRY_BYTES
        if self._size + size > self._most:
            self._shrink(self._most - size)
        if size <= self._most:
            self._entries.append((header, size))
            self._size += size
        return size

    def _resize(self, block: bytes, at: int) -> int:
        """The client keeps a table of another size; the place behind what says so."""
        number, at = _number(block, at, 0x1F)
        if number > TABLE_BYTES:
            raise _invalid(f"a table of {number} bytes; {TABLE_BYTES} are allowed")
        self._most = number
        self._shrink(number)
        return at

    def _shrink(self, most: int) -> None:
        """Drop the oldest entries, until the others have ``most`` bytes."""
        entries = self._entries
        dropped = 0
        while self._size > most and dropped < len(entries):
            self._size -= entries[dropped][1]
            dropped += 1
        if dropped:
            del entries[:dropped]


def _number(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number whose first bits are in the byte at ``at``, and the place behind it."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * _MOST_OF_NUMBER, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise _invalid("a number has too many bytes")


def _text(block: bytes, at: int) -> tuple[str, int]:
    first = block[at]
    length, at = (first, at + 1) if first < 0x7F else _number(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise _invalid("a text is longer than its block")
    data = block[at:end]
    return (decode(data) if first & 0x80 else data).decode("latin-1"), end


def _invalid(text: str) -> ConnectionFailed:
    return ConnectionFailed(ErrorCode.COMPRESSION_ERROR, text)


def encode(headers: Iterable[Header]) -> bytes:
    """A block that neither uses nor changes a table."""
    parts = []
    for header in headers:
        if header in STATIC:
            parts.append(bytes((0x80 | STATIC.index(header) + 1,)))
            continue
        parts.append(b"\x00")
        for text in header:
            data = text.encode("latin-1")
            parts += (_prefixed(len(data)), data)
    return b"".join(parts)


def _prefixed(length: int) -> bytes:
    """The length of a text that is not compressed."""
    if length < 0x7F:
        return bytes((length,))
    out, rest = bytearray((0x7F,)), length - 0x7F
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
