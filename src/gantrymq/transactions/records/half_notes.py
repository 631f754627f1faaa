"""Notes about open half messages: what a start needs to know of them, so that it need not read them all.

They are private, derived and disposable; the half in the log wins. A note never changes, and there is no need to take
one back: whether a half is still open is said by the decisions. Notes are kept in blocks, one behind the other in a
file that grows. Integers of the head are big-endian:

    from  bytes  field
       0      8  "GMQOPN" 0x00, version 1
       8      4  n, bytes of the notes
      12      4  CRC-32 of all that follows
      16      8  end: halves below this half queue offset are noted in this block or in one before, or are to be read
      24      n  the notes, in the order of the half queue: MessagePack, an array of arrays with the fields of Note

A block is believed when its last note agrees with the log. The log only grows, so what lies before that half is what it
was when the notes were taken.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from gantrymq.errors import RemoteProtocolError
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import NOT_NOTED, OpenHalf

HEAD_BYTES: Final = 24
MAX_BLOCK_BYTES: Final = 1 << 26
"""A larger size cannot be that of a block: 1,000 notes with the longest names take half of it."""


class Note(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One half; the fields of ``OpenHalf`` with these names."""

    queue_offset: int
    log_offset: int
    stored_at: int
    unique_key: str
    group: str
    real_topic: str
    real_queue_id: int
    own_immunity_ms: int
    sender: str = ""
    """Missing in the notes of earlier versions, which ignore it."""
    size: int = 0
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Block:
    """Some notes; see the table above."""

    end: int
    notes: Sequence[Note]


def can_be_noted(half: OpenHalf) -> bool:
    """Whether a note says all of it. Not while it waits for the disk; not when an Apache broker put copies of it back:
    what belongs together is found by reading."""
    return half.state >= State.OPEN and not half.copies and half.own_immunity_ms != NOT_NOTED


def note_of(half: OpenHalf) -> Note:
    return Note(
        half.queue_offset, half.log_offset, half.stored_at, half.unique_key, half.group, half.real_topic,
        half.real_queue_id, half.own_immunity_ms, half.sender, half.size,
    )  # fmt: skip


def open_half(note: Note, timeout_ms: int) -> OpenHalf:
    """The half as it was noted; ``timeout_ms``: the broker's immunity now."""
    own = note.own_immunity_ms
    return OpenHalf(
        note.queue_offset, note.log_offset, note.group, note.unique_key, note.real_topic, note.real_queue_id,
        note.stored_at, own or timeout_ms, State.OPEN, own, sender=note.sender, size=note.size,
    )  # fmt: skip


def encode_block(block: Block) -> bytes:
    """Its bytes in the file."""
    notes = _encode(block.notes)
    behind = _END.pack(block.end) + notes
    return _HEAD.pack(_MAGIC, len(notes), zlib.crc32(behind)) + behind


def size_of(head: bytes) -> int:
    """Bytes of the block that begins with ``head`` (HEAD_BYTES of it); RemoteProtocolError when none does."""
    if len(head) < HEAD_BYTES:
        raise RemoteProtocolError("the notes end inside of a block's head")
    magic, size, _ = _HEAD.unpack_from(head)
    if magic != _MAGIC or size > MAX_BLOCK_BYTES:
        raise RemoteProtocolError("no block of notes begins here, or one of another version")
    return HEAD_BYTES + int(size)


def decode_block(data: bytes) -> Block:
    """The block that ``data`` is, whole and alone; RemoteProtocolError when it is damaged."""
    if len(data) != size_of(data[:HEAD_BYTES]) or _HEAD.unpack_from(data)[2] != zlib.crc32(data[_HEAD.size :]):
        raise RemoteProtocolError("a block of notes is damaged")
    try:
        return Block(_END.unpack_from(data, _HEAD.size)[0], _decode(memoryview(data)[HEAD_BYTES:]))
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"a block of notes cannot be read: {error}") from error


_MAGIC: Final = b"GMQOPN\x00\x01"
_HEAD: Final = struct.Struct(">8sII")
_END: Final = struct.Struct(">q")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Note]).decode
