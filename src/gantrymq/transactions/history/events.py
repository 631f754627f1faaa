"""What happened to transactions beside what their records say: checks, answers, refusals. Values and their bytes.

An event is appended to a private journal (``broker/transactions/history.py``). All integers are big-endian:

    from  bytes  field
       0      1  bytes of the event
       1      1  kind
       2      1  detail, by kind
       3      1  bytes of the address: 0, 6 (IPv4) or 18 (IPv6)
       4      8  key: the half's queue offset in the upper 48 bits, a check of its log offset in the lower 16;
                 all ones: the event is about the broker
      12      6  ms since 1970
      18      2  number, by kind
      20      a  address and port of whoever was on the other side
    20+a      t  text, UTF-8
     end      4  CRC-32 of all that

A check is 30 bytes (42 with IPv6). Events of one transaction are found by looking for its key and believing what has a
right CRC, so that a torn or foreign piece of a file hides nothing behind it.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zlib import crc32

from gantrymq.errors import LocalProtocolError
from gantrymq.protocol.hosts import host_text, pack_host


class EventKind(enum.IntEnum):
    """What happened. The numbers are stored."""

    STARTED = 1
    """The broker started. Detail: 1 when the one before was stopped in order, 2 when it was not, 0: there was none."""
    STOPPED = 2
    CHECKED = 3
    """A check was sent. Number: how many since the broker started. Detail: 1 when it came before the immunity's end,
    because the producer's connection had closed."""
    ANSWERED_UNKNOWN = 4
    """Detail: 1 when it counts, 0 when no check was outstanding."""
    SAID_UNKNOWN = 5
    """Its producer ended it with UNKNOWN after the local transaction."""
    NOBODY_ONLINE = 6
    """It was due, and no producer of its group was connected."""
    REPEATED = 7
    """The same decision came again. Detail: the resolution."""
    CONFLICT = 8
    """A different decision came after the first one. Detail: the resolution."""
    REFUSED = 9
    """An end was refused. Detail: the resolution; number: the EndRefusal."""
    FAILED = 10
    """A decision could not be stored. Detail: the Decision."""
    JOINED = 11
    """Its send was retried."""
    RESUMED = 12
    """An operator opened it again. Text: who and why."""
    LEFT = 13
    """The connection of the producer that had been asked closed before the answer came."""


class EndRefusal(enum.IntEnum):
    """Why an end was refused. The numbers are stored."""

    OTHER = 0
    WRONG_GROUP = 1
    STRANGER = 2
    TOPIC_GONE = 3


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One thing that happened."""

    kind: EventKind
    time_ms: int
    """By the broker's wall clock."""
    key: int
    """See ``key_of``."""
    detail: int = 0
    number: int = 0
    peer: str = ""
    """``ip:port`` of the peer; empty: there was none."""
    text: str = ""


BROKER: Final = (1 << 64) - 1
"""Key of the events that are about the broker and not about one transaction."""
TEXT_MAX_BYTES: Final = 200
_CHECK_PRIME: Final = 65_521
_HEAD: Final = struct.Struct(">BBBBQHIH")
_CRC: Final = struct.Struct(">I")
_KEY: Final = struct.Struct(">Q")
_KEY_AT: Final = 4
_PORT: Final = struct.Struct(">H")
_PORT_OF_HOST: Final = struct.Struct(">i")
MIN_BYTES: Final = _HEAD.size + _CRC.size
MAX_BYTES: Final = 255
_NUMBER_MAX: Final = (1 << 16) - 1
_KINDS: Final = {int(kind): kind for kind in EventKind}


def key_of(queue_offset: int, log_offset: int) -> int:
    """The key of a half message. Queue offsets are used again when a power cut took the end of a store."""
    return (queue_offset & (1 << 48) - 1) << 16 | log_offset % _CHECK_PRIME


def encode(event: HistoryEvent) -> bytes:
    """An event's bytes; see ``pack``."""
    return pack(event.kind, event.time_ms, event.key, event.detail, event.number, event.peer, event.text)


def pack(kind: int, time_ms: int, key: int, detail: int = 0, number: int = 0, peer: str = "", text: str = "") -> bytes:
    """An event's bytes, without the object: checks are many. A peer that is no numeric address is left out; a long text
    is cut.
    """
    packed = _pack_peer(peer) if peer else b""
    if text:
        packed_text = text.encode(errors="replace")[:TEXT_MAX_BYTES].decode(errors="ignore").encode()
    else:
        packed_text = b""
    head = _HEAD.pack(
        MIN_BYTES + len(packed) + len(packed_text), kind, detail & 0xFF, len(packed), key, time_ms >> 32 & 0xFFFF,
        time_ms & 0xFFFFFFFF, number if number <= _NUMBER_MAX else _NUMBER_MAX,
    )  # fmt: skip
    data = head + packed + packed_text
    return data + _CRC.pack(crc32(data))


def decode(data: bytes, at: int = 0) -> HistoryEvent | None:
    """The event that begins at ``at``; None when none does."""
    if not 0 <= at <= len(data) - MIN_BYTES:
        return None
    size, number_of_kind, detail, peer_bytes, key, high, low, number = _HEAD.unpack_from(data, at)
    end, kind = at + size, _KINDS.get(number_of_kind)
    if kind is None or size < MIN_BYTES + peer_bytes or end > len(data) or peer_bytes not in (0, 6, 18):
        return None
    if crc32(data[at : end - _CRC.size]) != _CRC.unpack_from(data, end - _CRC.size)[0]:
        return None
    peer_end = at + _HEAD.size + peer_bytes
    peer = _peer_text(data[at + _HEAD.size : peer_end]) if peer_bytes else ""
    text = data[peer_end : end - _CRC.size].decode(errors="replace")
    return HistoryEvent(kind, high << 32 | low, key, detail, number, peer, text)


def events_of(key: int, data: bytes, begin_below: int | None = None) -> Iterator[HistoryEvent]:
    """The events with this key in a piece of a journal, in their order: those that begin before ``begin_below``."""
    wanted = _KEY.pack(key)
    stop = len(data) if begin_below is None else begin_below + _KEY_AT + len(wanted) - 1
    at = data.find(wanted, 0, stop)
    while at >= 0:
        event = decode(data, at - _KEY_AT)
        if event is not None and event.key == key:
            yield event
        at = data.find(wanted, at + 1, stop)


def first_event(data: bytes) -> HistoryEvent | None:
    """The first whole event of a piece of a journal."""
    return next((event for at in range(len(data)) if (event := decode(data, at)) is not None), None)


def end_of_last(data: bytes) -> tuple[int, HistoryEvent | None]:
    """(end, event) of the last whole event of a piece of a journal; (0, None) when there is none."""
    at, end, last = 0, 0, None
    while at < len(data):
        event = decode(data, at)
        if event is None:
            at += 1
        else:
            at += data[at]
            end, last = at, event
    return end, last


@lru_cache(maxsize=4096)
def _pack_peer(peer: str) -> bytes:
    try:
        packed = pack_host(peer)
        return packed[:-4] + _PORT.pack(_PORT_OF_HOST.unpack(packed[-4:])[0])
    except (struct.error, LocalProtocolError):
        return b""


def _peer_text(packed: bytes) -> str:
    return host_text(packed[:-2] + _PORT_OF_HOST.pack(_PORT.unpack(packed[-2:])[0]))
