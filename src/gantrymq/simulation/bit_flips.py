"""Bits that flip on a disk: where they may flip, whose bytes they are, and whether a checksum covers them.

RocketMQ's format covers the body of a log record, its position and the lengths of its parts. Times, flags, addresses
and properties have no checksum. A flip there cannot be noticed by any broker, and excuses whatever happens to its
transaction. A flip of covered bytes excuses only that the record is lost.

A record's queue and its offset there are not flipped, although the format does not cover them either: a record that
seems to belong to another position of a queue takes it from the right record, and no history could say who is to
blame.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from gantrymq.errors import CorruptRecord
from gantrymq.message.flags import COMMITTED, TRANSACTION_MASK
from gantrymq.message.sizes import SMALLEST_RECORD_BYTES
from gantrymq.message.system_topics import HALF, OP
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.files.checkpoint import read_mark
from gantrymq.store.log.records import Parsed, body_place, parse
from gantrymq.store.queues.consume_queue import ENTRY, ENTRY_BYTES
from gantrymq.transactions.records.half import parse_op

LOG = "/store/commitlog"
QUEUES = "/store/consumequeue"
MARK = "/store/gantry/mark"
DERIVED = (MARK, "/store/gantry/decisions", "/store/checkpoint")
"""Files that say nothing the log does not say: a flip in them excuses nothing."""
_INT = Struct(">i")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of the log, with the transactions that it belongs to."""

    path: str
    at: int
    """In the file."""
    size: int
    place: int
    """Log offset."""
    kind: str
    """``half``, ``op``, ``final`` or ``plain``."""
    transactions: tuple[str, ...]
    covered: tuple[tuple[int, int], ...]
    """Ranges of the file, start and end, where no bit can turn over unnoticed."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit that turned over."""

    path: str
    at: int
    bit: int
    record: str
    transactions: tuple[str, ...]
    covered: bool


def turn_over(disk: SimDisk, flip: Flip) -> None:
    """Do it, on the platters and in the page cache: the bytes were read again since."""
    for data in disk.bytes_of(flip.path):
        if flip.at < len(data):
            data[flip.at] ^= 1 << flip.bit


def records_of(disk: SimDisk, topics: frozenset[str]) -> list[LogRecord]:
    """The intact records of the log that belong to a transaction, or to an ordinary message of ``topics``."""
    found: list[LogRecord] = []
    halves: dict[int, str] = {}
    for name in disk.list(LOG):
        path = f"{LOG}/{name}"
        data = bytes(disk.bytes_of(path)[0])
        for at, parsed in _walk(data, int(name)):
            body = data[slice(*_body(data, at, parsed[4]))]
            if parsed[1] == HALF:
                halves[parsed[3]] = body.decode()
            named, kind = _transactions(parsed[1], parsed[4], body, halves, topics)
            if named:
                covered = _covered(data, at, parsed[0], parsed[4])
                found.append(LogRecord(path, at, parsed[0], int(name) + at, kind, named, covered))
    return found


def _walk(data: bytes, base: int) -> Iterator[tuple[int, Parsed]]:
    at = 0
    while at + SMALLEST_RECORD_BYTES <= len(data):
        (size,) = _INT.unpack_from(data, at)
        if size < SMALLEST_RECORD_BYTES or at + size > len(data):
            return
        with contextlib.suppress(CorruptRecord):  # flipped before
            yield at, parse(data, at, base + at)
        at += size


def _body(data: bytes, at: int, sys_flag: int) -> tuple[int, int]:
    start = body_place(data, at, sys_flag)
    return start + 4, start + 4 + int(_INT.unpack_from(data, start)[0])


def _transactions(
    topic: str, sys_flag: int, body: bytes, halves: dict[int, str], topics: frozenset[str]
) -> tuple[tuple[str, ...], str]:
    if topic == HALF:
        return (body.decode(),), "half"
    if topic == OP:
        return tuple(halves[offset] for offset in parse_op(body) if offset in halves), "op"
    if topic in topics:
        return (body.decode(),), "final" if sys_flag & TRANSACTION_MASK == COMMITTED else "plain"
    return (), ""


def _covered(data: bytes, at: int, size: int, sys_flag: int) -> tuple[tuple[int, int], ...]:
    """Size, magic and checksum; the own place; the body with its length; the lengths of topic and properties."""
    start, end = _body(data, at, sys_flag)
    topic = data[end]
    properties = end + 1 + topic
    return ((at, at + 12), (at + 28, at + 36), (start - 4, end), (end, end + 1), (properties, properties + 2))


def durable_end(disk: SimDisk) -> int:
    """Up to which log offset the next start will know that all is durable: before it, damage is no torn tail.

    Also when the power is cut before that start: so it is what the platters say, and not the page cache. A note of it
    that a power cut has torn says nothing.
    """
    return read_mark(bytes(disk.bytes_of(MARK)[1]))[0] if disk.exists(MARK) else 0


def flip_in_log(disk: SimDisk, records: list[LogRecord], rng: random.Random, before: int) -> Flip | None:
    """Somewhere in one of the records that end before a log offset; mostly where it can be noticed."""
    there = [record for record in records if record.place + record.size <= before and disk.exists(record.path)]
    if not there:
        return None
    record = rng.choice(there)
    covered = rng.random() < 0.75
    spots = [at for low, high in record.covered for at in range(low, high)]
    if not covered:
        known = {*spots, *range(record.at + 12, record.at + 16), *range(record.at + 20, record.at + 28)}
        spots = sorted(set(range(record.at, record.at + record.size)) - known)
    return Flip(record.path, rng.choice(spots), rng.randrange(8), record.kind, record.transactions, covered)


def flip_in_queue(disk: SimDisk, records: list[LogRecord], rng: random.Random) -> Flip | None:
    """In an entry of a queue: as good as one in the record it leads to."""
    by_place = {record.place: record for record in records}
    entries = [
        (path, at, by_place[place])
        for path in _files_below(disk, QUEUES)
        for at, place in _entries(bytes(disk.bytes_of(path)[0]))
        if place in by_place
    ]
    if not entries:
        return None
    path, at, record = rng.choice(entries)
    return Flip(path, at + rng.randrange(12), rng.randrange(8), record.kind, record.transactions, True)


def _entries(data: bytes) -> Iterator[tuple[int, int]]:
    for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        place, size, _tags = ENTRY.unpack_from(data, at)
        if size:
            yield at, place


def flip_in_unsynced(before: SimDisk, after: SimDisk, records: list[LogRecord], rng: random.Random) -> Flip | None:
    """In bytes of the log that were not synced when the power went off, and are there all the same: a sector that was
    being written when it happened. ``records``: of the disk ``before``."""
    spots = [
        (path, at)
        for path in (f"{LOG}/{name}" for name in after.list(LOG))
        for low, high in before.unsynced_of(path)
        for at in range(low, high)
    ]
    if not spots:
        return None
    path, at = rng.choice(spots)
    for record in records:
        if record.path == path and record.at <= at < record.at + record.size:
            covered = any(low <= at < high for low, high in record.covered)
            return Flip(path, at, rng.randrange(8), record.kind, record.transactions, covered)
    return Flip(path, at, rng.randrange(8), "unsynced", (), True)


def flip_in_derived(disk: SimDisk, rng: random.Random) -> Flip | None:
    """In a file that only makes the next start quicker."""
    there = [path for path in DERIVED if disk.exists(path) and disk.bytes_of(path)[0]]
    if not there:
        return None
    path = rng.choice(there)
    return Flip(path, rng.randrange(len(disk.bytes_of(path)[0])), rng.randrange(8), "derived", (), True)


def _files_below(disk: SimDisk, path: str) -> list[str]:
    if not disk.is_dir(path):
        return [path] if disk.exists(path) else []
    return [file for name in disk.list(path) for file in _files_below(disk, f"{path}/{name}")]
