"""How far a broker has read its log ahead, and what it found: the private file ``<root>/gantry/ahead``.

It is derived and disposable, and only spares a broker that is started again from reading its whole log before it can be
primary. All that it says is a function of the log before a place, and it proves which log that is. So it may be lost,
torn, old, or of another log: then less of it counts, or nothing.

The file grows at its end by blocks, and each one begins where the one before it ended. It is never synced: a block that
a power cut takes is read from the log again. All integers are big-endian:

    from  bytes  field
       0      8  "GMQAHD" 0x00, version 1
       8      4  n, bytes of the block behind this head
      12      4  CRC-32 of them
      16      8  begin: log offset; of the first block, where what is known begins
      24      8  end: log offset; everything from begin to here was looked at
      32      8  log offset of the last record before the end
      40     16  BLAKE2b of everything from that record to the end
      56      8  next op: op messages before this queue offset were looked at; they lie before the end
      64      4  c, number of copies (``store.linked_records``)
      68      4  f, number of final messages
      72    16c  places of the copies, and then what each points at
       .    16f  the same of final messages
       .      .  decisions of half messages, in runs: 8 bytes queue offset, 4 bytes length, and a byte for each half

Two logs with one equal record are equal before it (``following``). So a block counts when its last record is in the
log, and so do all blocks before it.
"""

from __future__ import annotations

import logging
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.runtime.disk import Disk, read_whole
from gantrymq.store.linked_records import Links, Pointers

log = logging.getLogger("gantrymq.broker.replication")

FILE_NAME: Final = "gantry/ahead"
MOST_BYTES: Final = 16 * 1024 * 1024
"""Between the last record and the end of a block: more than a record and the rest of a file of the log. Only where much
of the log is damaged there is more, and then no block ends there."""
DIGEST_BYTES: Final = 16
_MAGIC: Final = b"GMQAHD\x00\x01"
_HEAD: Final = struct.Struct(">8sII")
_FIELDS: Final = struct.Struct(f">qqq{DIGEST_BYTES}sqII")
_RUN: Final = struct.Struct(">qI")

ReadLog = Callable[[int, int], bytes]
"""Bytes of the log: log offset and number."""


@dataclass(frozen=True, slots=True)
class Block:
    """See the table above."""

    begin: int
    end: int
    last: int
    digest: bytes
    next_op: int
    links: Links
    decisions: Sequence[tuple[int, bytes]]


def can_end(last: int, end: int) -> bool:
    """Whether a block may end there, with this last record."""
    return 0 <= last < end <= last + MOST_BYTES


def digest_of(read: ReadLog, last: int, end: int) -> bytes:
    """Of the last record of a block and what is behind it."""
    return blake2b(read(last, end - last), digest_size=DIGEST_BYTES).digest()


def encode_block(block: Block) -> bytes:
    """Its bytes in the file."""
    copies, finals = block.links
    parts = [
        _FIELDS.pack(
            block.begin, block.end, block.last, block.digest, block.next_op, len(copies.places), len(finals.places)
        ),
        *(_packed(numbers) for numbers in (*copies, *finals)),
    ]
    for begin, known in block.decisions:
        parts += (_RUN.pack(begin, len(known)), known)
    content = b"".join(parts)
    return _HEAD.pack(_MAGIC, len(content), zlib.crc32(content)) + content


def decode_blocks(data: bytes) -> Iterator[tuple[Block, int]]:
    """The blocks of a file, and where each one ends in it. Raises RemoteProtocolError at the first one that is torn,
    damaged, of another version, or does not follow the one before it."""
    at, before = 0, None
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise RemoteProtocolError("it ends inside of a block's head")
        magic, size, crc = _HEAD.unpack_from(data, at)
        content = memoryview(data)[at + _HEAD.size : at + _HEAD.size + size]
        if magic != _MAGIC:
            raise RemoteProtocolError("no block begins here, or one of another version")
        if len(content) != size or size < _FIELDS.size or zlib.crc32(content) != crc:
            raise RemoteProtocolError("a block is torn or damaged")
        block = _decoded(content)
        if before is not None and block.begin != before:
            raise RemoteProtocolError(f"a block begins at log offset {block.begin}, and not at {before}")
        before, at = block.end, at + _HEAD.size + size
        yield block, at


def _decoded(content: memoryview) -> Block:
    begin, end, last, digest, next_op, copies, finals = _FIELDS.unpack_from(content)
    at, columns = _FIELDS.size, []
    for count in (copies, copies, finals, finals):
        columns.append(_unpacked(content[at : at + 8 * count]))
        at += 8 * count
    runs = []
    while at < len(content):
        first, length = _RUN.unpack_from(content, at)
        at += _RUN.size
        runs.append((first, bytes(content[at : at + length])))
        at += length
    return Block(begin, end, last, digest, next_op, Links(Pointers(*columns[:2]), Pointers(*columns[2:])), runs)


def _packed(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        numbers = array("q", numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(data: memoryview) -> array[int]:
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


class AheadFile:
    """Reads and writes the file. A failed write is logged, and a later one writes all of it anew."""

    def __init__(self, disk: Disk, path: str, read: ReadLog) -> None:
        self._disk = disk
        self._path = path
        self._read = read
        self._size = 0
        self._fails = False
        self.end = -1
        """Log offset where the last block ends; -1: there is none, and the next one has to say everything."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def load(self, limit: int) -> list[Block]:
        """The blocks that are about this log before a log offset. The rest of the file is cut off. Empty: everything
        has to be read, and the log says why."""
        self._size, self.end = 0, -1
        found: list[tuple[Block, int]] = []
        try:
            data = read_whole(self._disk, self._path)
            found.extend(decode_blocks(data))
        except FileNotFoundError:
            log.info("there is no %s: the log is read ahead from its beginning", self._path)
            return []
        except (RemoteProtocolError, StoreError) as error:
            log.warning("%s cannot be used from block %d on (%s)", self._path, len(found), error)
        while found and not self._fits(found[-1][0], limit):
            found.pop()
        if not found:
            log.warning("%s has nothing about this log: it is read ahead from its beginning", self._path)
            self.discard()
            return []
        self._size, self.end = found[-1][1], found[-1][0].end
        self._shorten()
        return [block for block, _ in found]

    def _fits(self, block: Block, limit: int) -> bool:
        known = can_end(block.last, block.end) and block.end <= limit
        return known and block.digest == digest_of(self._read, block.last, block.end)

    def _shorten(self) -> None:
        try:
            file = self._disk.open(self._path)
            try:
                if file.size() > self._size:
                    file.truncate(self._size)
            finally:
                file.close()
        except (StoreError, OSError) as error:
            self._failed(error)

    def discard(self) -> None:
        """Remove it: the next block has to say everything."""
        self._size, self.end = 0, -1
        try:
            self._disk.remove(self._path)
        except (StoreError, OSError) as error:
            log.warning("%s could not be removed: %s", self._path, error)

    def append(self, block: Block) -> None:
        """One more block, which begins where the last one ends."""
        try:
            self._size += self._write(self._path, self._size, encode_block(block))
            self.end = block.end
        except (StoreError, OSError) as error:
            self._failed(error)

    def replace(self, block: Block) -> None:
        """Write the file anew: this block says everything."""
        try:
            self._disk.make_dirs(self._path.rpartition("/")[0])
            self._size = self._write(self._path + ".new", 0, encode_block(block))
            self._disk.rename(self._path + ".new", self._path)
            self.end = block.end
        except (StoreError, OSError) as error:
            self._failed(error)

    def _write(self, path: str, at: int, data: bytes) -> int:
        file = self._disk.open(path, create=True)
        try:
            file.truncate(at)
            file.write(data, at)
        finally:
            file.close()
        self._fails = False
        return len(data)

    def _failed(self, error: BaseException) -> None:
        self.end = -1
        if not self._fails:
            log.warning("%s was not written, a start may have to read more of the log: %s", self._path, error)
        self._fails = True
