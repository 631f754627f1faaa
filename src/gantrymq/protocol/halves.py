"""The bodies of SEND_HALVES and END_HALVES, the requests about many half messages. Big-endian integers without gaps.

| body                   | item                                                              |
|------------------------|-------------------------------------------------------------------|
| SEND_HALVES            | as in a batch, see ``protocol.batch``                             |
| answer to SEND_HALVES  | half queue offset 8, log offset 8                                 |
| END_HALVES             | half queue offset 8, log offset 8, length of UNIQ_KEY 2, UNIQ_KEY |
| answer to END_HALVES   | response code 2                                                   |
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.transaction import HalfEnd

_PLACE: Final = struct.Struct(">qq")
_END: Final = struct.Struct(">qqH")


def encode_places(places: Sequence[tuple[int, int]]) -> bytes:
    """Half queue offset and log offset of each half message."""
    pack = _PLACE.pack
    return b"".join([pack(queue_offset, log_offset) for queue_offset, log_offset in places])


def decode_places(body: bytes) -> list[tuple[int, int]]:
    """Raises RemoteProtocolError when the body does not consist of whole items."""
    if len(body) % _PLACE.size:
        raise RemoteProtocolError(f"{len(body)} bytes are no list of places; each has {_PLACE.size}")
    return list(_PLACE.iter_unpack(body))


def encode_ends(ends: Sequence[HalfEnd]) -> bytes:
    """The body of END_HALVES."""
    parts: list[bytes] = []
    for queue_offset, log_offset, unique_key in ends:
        key = unique_key.encode()
        parts.append(_END.pack(queue_offset, log_offset, len(key)))
        parts.append(key)
    return b"".join(parts)


def decode_ends(body: bytes, most: int | None = None) -> list[HalfEnd]:
    """The first ``most``, or all. Raises RemoteProtocolError when the body does not consist of whole items."""
    alike = _alike(body, most)
    if alike is not None:
        return alike
    ends: list[HalfEnd] = []
    position, size = 0, len(body)
    while position < size and len(ends) != most:
        try:
            queue_offset, log_offset, length = _END.unpack_from(body, position)
            start = position + _END.size
            position = start + length
            if position > size:
                raise RemoteProtocolError(f"the UNIQ_KEY at byte {start} of a list of ends is cut off")
            ends.append(HalfEnd(queue_offset, log_offset, body[start:position].decode()))
        except struct.error as error:
            raise RemoteProtocolError(f"the item at byte {position} of a list of ends is cut off") from error
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"the UNIQ_KEY at byte {start} of a list of ends is not UTF-8") from error
    return ends


def _alike(body: bytes, most: int | None) -> list[HalfEnd] | None:
    """``decode_ends`` where all keys have one length, as nearly always, in half the time; None: look at each."""
    if len(body) < _END.size:
        return None
    length: int = _END.unpack_from(body)[2]
    if len(body) % (_END.size + length):
        return None
    items = list(islice(struct.Struct(f">qqH{length}s").iter_unpack(body), most))
    if any([length_of_key != length for _, _, length_of_key, _ in items]):
        return None
    try:
        return [HalfEnd(queue_offset, log_offset, key.decode()) for queue_offset, log_offset, _, key in items]
    except UnicodeDecodeError:
        return None


def encode_codes(codes: Sequence[int]) -> bytes:
    """One response code for each end."""
    return struct.pack(f">{len(codes)}H", *codes)


def decode_codes(body: bytes) -> tuple[int, ...]:
    """Raises RemoteProtocolError when the body does not consist of whole codes."""
    if len(body) % 2:
        raise RemoteProtocolError(f"{len(body)} bytes are no list of response codes")
    return struct.unpack(f">{len(body) // 2}H", body)
