"""The bytes of RocketMQ's AutoSwitch HA protocol, which brokers of one group speak. Integers are big-endian.

| from    | bytes                                                                              | when           |
|---------|------------------------------------------------------------------------------------|----------------|
| replica | ``int32`` 1, ``int16`` 0, ``int16`` 0, ``int64`` who it is                           | first          |
| primary | ``int32`` 1, ``int32`` n, ``int64`` end of its log, ``int32`` epoch, n more bytes      | the answer     |
| replica | ``int32`` 2, ``int64`` end of its log                                               | a report       |
| primary | ``int32`` 2, ``int32`` n, ``int64`` log offset, ``int32`` epoch, ``int64`` start of the  | log, or n is 0 |
|         | epoch, ``int64`` confirmed offset, n bytes of the log                                |                |

It says three things more than the default protocol: who a replica is, in which epoch a primary is one, and how far the
log is confirmed, so that a replica shows nothing that may vanish. A replica is known by the identity of its disk.
Under Apache's controller the n more bytes of the answer are a list of epochs: for each, ``int32`` epoch and ``int64``
log offset at which it began. In a group of ours there are none: both sides find the last common record by their bytes,
see ``following.py``.
Source: AutoSwitchHAClient, AutoSwitchHAConnection; reference "replication", section 2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq.broker.replication.frames import MAX_TAKEN_BYTES, Frame
from gantrymq.errors import RemoteProtocolError

HANDSHAKE, TRANSFER = 1, 2
_STATE: Final = struct.Struct(">i")
_HELLO: Final = struct.Struct(">ihhq")
_WELCOME: Final = struct.Struct(">iiqi")
_REPORT: Final = struct.Struct(">iq")
_EPOCH: Final = struct.Struct(">iq")
_DATA: Final = struct.Struct(">iiqiqq")


class Hello(NamedTuple):
    """A replica says who it is."""

    disk: int


class Welcome(NamedTuple):
    """A primary answers."""

    end: int
    """Of its log."""
    epoch: int
    epochs: tuple[tuple[int, int], ...] = ()
    """Each with the log offset at which it began."""


class Confirmed(NamedTuple):
    """Beside each frame."""

    epoch: int
    start: int
    """Log offset at which the epoch began."""
    position: int
    """Everything before this log offset is on each member of the in-sync set."""


def encode_hello(disk: int) -> bytes:
    return _HELLO.pack(HANDSHAKE, 0, 0, disk)


def encode_welcome(end: int, epoch: int, epochs: Sequence[tuple[int, int]] = ()) -> bytes:
    listed = b"".join(_EPOCH.pack(*entry) for entry in epochs)
    return _WELCOME.pack(HANDSHAKE, len(listed), end, epoch) + listed


def encode_report(end: int) -> bytes:
    return _REPORT.pack(TRANSFER, end)


def encode_data(place: int, data: bytes, epoch: int, start: int, confirmed: int) -> bytes:
    """``start``: log offset at which the epoch began."""
    return _DATA.pack(TRANSFER, len(data), place, epoch, start, confirmed) + data


class ReplicaReader:
    """Makes a greeting and reports of what a replica sends, however it is cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Hello | int]:
        """What is whole now; an ``int`` is a report. Raises RemoteProtocolError when these bytes are something else."""
        rest = self._rest + data
        found: list[Hello | int] = []
        at = 0
        while at + _STATE.size <= len(rest):
            (state,) = _STATE.unpack_from(rest, at)
            size = _size(state, _HELLO.size, _REPORT.size)
            if at + size > len(rest):
                break
            if state == HANDSHAKE:
                found.append(Hello(_HELLO.unpack_from(rest, at)[3]))
            else:
                end = _REPORT.unpack_from(rest, at)[1]
                if end < 0:
                    raise RemoteProtocolError(f"a replica reports the log offset {end}; none is negative")
                found.append(end)
            at += size
        self._rest = rest[at:]
        return found


class PrimaryReader:
    """Makes the answer and frames of what a primary sends, however it is cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Welcome | tuple[Frame, Confirmed]]:
        """What is whole now. Raises RemoteProtocolError when these bytes are something else."""
        rest = self._rest
        rest += data
        found: list[Welcome | tuple[Frame, Confirmed]] = []
        at = 0
        while at + _STATE.size <= len(rest):
            (state,) = _STATE.unpack_from(rest, at)
            head = _size(state, _WELCOME.size, _DATA.size)
            if at + head > len(rest):
                break
            fields = (_WELCOME if state == HANDSHAKE else _DATA).unpack_from(rest, at)
            size = fields[1]
            if not 0 <= size <= MAX_TAKEN_BYTES:
                raise RemoteProtocolError(f"a frame of {size} bytes came; this is not the HA port of a primary")
            begin = at + head
            if begin + size > len(rest):
                break
            if state == HANDSHAKE:
                if size % _EPOCH.size:
                    raise RemoteProtocolError(f"a list of epochs of {size} bytes came; an entry has {_EPOCH.size}")
                epochs = tuple((epoch, start) for epoch, start in _EPOCH.iter_unpack(rest[begin : begin + size]))
                found.append(Welcome(fields[2], fields[3], epochs))
            else:
                frame = Frame(fields[2], bytes(rest[begin : begin + size]))
                found.append((frame, Confirmed(fields[3], fields[4], fields[5])))
            at = begin + size
        del rest[:at]
        return found


def _size(state: int, handshake: int, transfer: int) -> int:
    if state == HANDSHAKE:
        return handshake
    if state == TRANSFER:
        return transfer
    raise RemoteProtocolError(
        f"a message of kind {state} came: the other side does not belong to a group that elects its primary. All "
        "brokers of one name need the same etcdAddr"
    )
