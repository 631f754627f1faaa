"""The bytes of RocketMQ's default HA protocol. Integers are big-endian.

A replica sends reports: ``int64``, the end of its log. A primary sends frames: ``int64`` log offset, ``int32`` number
of bytes, and these bytes of its log, cut without regard to records. A frame without bytes says that the primary is
alive.
Source: DefaultHAConnection, DefaultHAClient; reference "replication", section 1.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from gantrymq.errors import RemoteProtocolError

_REPORT: Final = struct.Struct(">q")
_HEADER: Final = struct.Struct(">qi")
MAX_DATA_BYTES: Final = 32 * 1024
"""Bytes of the log in one frame. Source: MessageStoreConfig.haTransferBatchSize."""
MAX_TAKEN_BYTES: Final = 64 * 1024 * 1024
"""Of a frame that is read: a primary may be set to send more than by default."""

HEARTBEAT_S: Final = 5.0
"""Between two signs of life. Source: MessageStoreConfig.haSendHeartbeatInterval."""
SILENCE_S: Final = 20.0
"""A peer that says nothing for so long is gone. Source: MessageStoreConfig.haHousekeepingInterval."""


class Frame(NamedTuple):
    """Bytes of the log, and where they belong."""

    place: int
    data: bytes


def encode_report(end: int) -> bytes:
    return _REPORT.pack(end)


def encode_frame(place: int, data: bytes) -> bytes:
    return _HEADER.pack(place, len(data)) + data


class ReportReader:
    """Makes reports of what a replica sends, however it is cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """The reports that are whole now. Raises RemoteProtocolError for an offset that no log has."""
        data = self._rest + data
        whole = len(data) // _REPORT.size * _REPORT.size
        self._rest = data[whole:]
        found = [end for (end,) in _REPORT.iter_unpack(data[:whole])]
        if any(end < 0 for end in found):
            raise RemoteProtocolError(f"a replica reports the log offset {min(found)}; none is negative")
        return found


class FrameReader:
    """Makes frames of what a primary sends, however it is cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. Raises RemoteProtocolError when these are no frames."""
        rest = self._rest
        rest += data
        found: list[Frame] = []
        at = 0
        while at + _HEADER.size <= len(rest):
            place, size = _HEADER.unpack_from(rest, at)
            if not 0 <= size <= MAX_TAKEN_BYTES:
                raise RemoteProtocolError(f"a frame of {size} bytes came; this is not the HA port of a primary")
            begin = at + _HEADER.size
            if begin + size > len(rest):
                break
            found.append(Frame(place, bytes(rest[begin : begin + size])))
            at = begin + size
        del rest[:at]
        return found
