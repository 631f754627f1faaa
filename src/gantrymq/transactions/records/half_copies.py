"""Reads the half queue: many records with one read, as values, and copies of one transaction put together.

Apache's brokers write a half message that they check again at the end of the queue, as a copy; ours never do.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from gantrymq.errors import CorruptRecord, RemoteProtocolError
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.protocol.stored_message import AT_QUEUE_OFFSET, FIXED_SIZE, scan
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import HalfFields, read_half
from gantrymq.transactions.table.decisions import Decision, DecisionLog
from gantrymq.transactions.table.open_halves import OpenHalf

log = logging.getLogger("gantrymq.transactions")

HALVES_PER_READ: Final = 1024
HALVES_PER_READ_BYTES: Final = 1 << 20

Identity = tuple[str, str, int, int]
"""(group, UNIQ_KEY, born timestamp, body CRC): equal for all copies of one transaction. A client that sends a message
object again reuses its key, but not the time of birth."""


@dataclass(frozen=True, slots=True)
class HalfCopy:
    """One readable record of the half queue."""

    queue_offset: int
    log_offset: int
    stored_at: int
    identity: Identity
    fields: HalfFields
    size: int
    """bytes in the log"""

    @property
    def is_put_back(self) -> bool:
        """Whether an Apache broker wrote it as a copy. A count of 0 is a fresh start: an operator resumed it."""
        return self.fields.prepared_queue_offset is not None or (self.fields.check_times or "0") != "0"


def copy_of(record: StoredMessage) -> HalfCopy:
    """Raises CorruptRecord when the record is no half message."""
    fields = read_half(record)
    identity = (fields.group, fields.unique_key, record.born_timestamp, record.body_crc)
    return HalfCopy(record.queue_offset, record.log_offset, record.store_timestamp, identity, fields, record.size)


def read_halves(
    store: HalfStore, queue_offsets: Sequence[int], unreadable: Callable[[int, CorruptRecord], None]
) -> Iterator[HalfCopy]:
    """The halves with these queue offsets (in order), in order; ``unreadable`` is called with the others."""
    for first, end in _runs(queue_offsets):
        found = _read_run(store, first, end) if end - first > 1 else {}
        for queue_offset in range(first, end):
            try:
                record = found.get(queue_offset) or _read_one(store, queue_offset)
                if record is None:
                    raise CorruptRecord(-1, "no whole record")
                copy = copy_of(record)
            except CorruptRecord as error:
                unreadable(queue_offset, error)
                continue
            yield copy


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """``[first, end)`` of neighbours, at most HALVES_PER_READ in one."""
    first = end = -1
    for number in numbers:
        if number != end or end - first == HALVES_PER_READ:
            if end > first:
                yield first, end
            first = number
        end = number + 1
    if end > first:
        yield first, end


def _read_run(store: HalfStore, first: int, end: int) -> dict[int, StoredMessage]:
    """What one look at neighbours finds; what it does not is read alone."""
    found: dict[int, StoredMessage] = {}
    offset = first
    while offset < end:
        try:
            result = store.get(HALF, 0, offset, end - offset, HALVES_PER_READ_BYTES)
            for record in scan(result.data, check=False):  # the store has compared the CRCs
                found[record.queue_offset] = record
        except (RemoteProtocolError, CorruptRecord):
            return found
        if result.next_offset <= offset:
            break
        offset = result.next_offset
    return found


class HalfReading:
    """Stored halves as bytes; when they are wanted in order, the following ones are read along."""

    def __init__(self, store: HalfStore) -> None:
        self._store = store
        self._before = -2
        """Queue offset of the record that was wanted before this one."""
        self._ahead: dict[int, bytes] = {}

    def record(self, queue_offset: int) -> bytes:
        """The record; empty when it cannot be had so simply."""
        in_order, self._before = queue_offset == self._before + 1, queue_offset
        found = self._ahead.pop(queue_offset, None)
        if found is None:
            self._ahead = self._read(queue_offset, HALVES_AHEAD if in_order else 1)
            found = self._ahead.pop(queue_offset, b"")
        return found

    def records(self, halves: Sequence[OpenHalf]) -> list[bytes] | None:
        """The records of halves, from memory or from the log; None when one of them cannot be had so simply."""
        found: list[bytes] = []
        at = 0
        while at < len(halves):
            record = halves[at].record
            if record is not None:
                found.append(record)
                at += 1
                continue
            neighbours = self._neighbours(halves, at)
            if not neighbours:
                return None
            found += neighbours
            at += len(neighbours)
        return found

    def _neighbours(self, halves: Sequence[OpenHalf], at: int) -> list[bytes]:
        """As many records from the log as one look finds: of ``halves[at]`` and those that follow it in the queue."""
        first, most = halves[at].queue_offset, len(halves)
        end = at + 1
        while end < most and end - at < HALVES_AHEAD and halves[end].queue_offset == first + end - at:
            end += 1
        try:
            data = self._store.get(HALF, 0, first, end - at, BYTES_AHEAD).data
        except CorruptRecord:
            return []
        found: list[bytes] = []
        place, size_of_data = 0, len(data)
        for half in halves[at:end]:
            if place == size_of_data:
                break
            record = data[place : place + int.from_bytes(data[place : place + 4], "big")]
            if len(record) < FIXED_SIZE or not record.startswith(
                _QUEUE_OFFSET.pack(half.queue_offset), AT_QUEUE_OFFSET
            ):
                return []  # damaged since this process wrote it, or not all of them are there
            found.append(record)
            place += len(record)
        return found

    def _read(self, queue_offset: int, count: int) -> dict[int, bytes]:
        try:
            data = self._store.get(HALF, 0, queue_offset, count, BYTES_AHEAD).data
        except CorruptRecord:
            return {}
        found: dict[int, bytes] = {}
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if size < FIXED_SIZE:
                break  # damaged since this process wrote it
            record = data[at : at + size]
            found[int.from_bytes(record[AT_QUEUE_OFFSET : AT_QUEUE_OFFSET + 8], "big")] = record
            at += size
        return found


_QUEUE_OFFSET: Final = struct.Struct(">q")
HALVES_AHEAD: Final = 512
BYTES_AHEAD: Final = 256 * 1024


def _read_one(store: HalfStore, queue_offset: int) -> StoredMessage | None:
    entry = store.entry(HALF, 0, queue_offset)
    return None if entry is None else store.read(entry.log_offset)


def parked_copies(store: HalfStore, from_log_offset: int) -> Iterator[HalfCopy]:
    """The readable parked messages that lie at or behind a place of the log."""
    low, end = store.queue_range(PARKED, 0)
    high = end
    while low < high:
        middle = (low + high) // 2
        entry = store.entry(PARKED, 0, middle)
        if entry is not None and entry.log_offset >= from_log_offset:
            high = middle
        else:
            low = middle + 1
    for queue_offset in range(low, end):
        entry = store.entry(PARKED, 0, queue_offset)
        record = None if entry is None else store.read(entry.log_offset)
        try:
            if record is not None:
                yield copy_of(replace(record, topic=HALF))
        except CorruptRecord as error:
            log.error("parked message %d cannot be used: %s", queue_offset, error)


@dataclass(slots=True)
class Chain:
    """The copies of one transaction, in order."""

    copies: list[HalfCopy]
    decision: Decision = Decision.NONE

    @property
    def queue_offsets(self) -> list[int]:
        return [copy.queue_offset for copy in self.copies]


def chains_of(copies: Iterable[HalfCopy], decisions: DecisionLog) -> list[Chain]:
    """Copies put together to transactions. A decision about one copy is a decision about all (hole 1)."""
    newest: dict[Identity, Chain] = {}
    chains: list[Chain] = []
    for copy in copies:
        chain = newest.get(copy.identity) if copy.is_put_back else None
        if chain is None:
            chain = newest[copy.identity] = Chain([])
            chains.append(chain)
        chain.copies.append(copy)
    for chain in chains:
        taken = (decisions[offset] for offset in chain.queue_offsets)
        chain.decision = next((decision for decision in taken if decision is not Decision.NONE), Decision.NONE)
        for offset in chain.queue_offsets:
            if decisions[offset] is Decision.NONE and chain.decision is not Decision.NONE:
                decisions[offset] = chain.decision
    return chains
