"""The table of transactions from what is on the disk.

Evidence, strongest first; what has none is open and will be checked:

1. an op message names the half (ours says how it ended, Apache's only that it did);
2. a final message points at it by its prepared offset: the broker died between final and op message;
3. a parked copy lies behind it in the log;
4. one of these holds for another copy of the same transaction (Apache's brokers put checked halves back as copies).

The committed offsets of CID_RMQ_SYS_TRANS are no evidence: they are written now and then and not tied to the log, so
after a power cut they may be newer than what is left of it (hole 12). So every half without an op is looked at, and no
transaction is passed over; private notes say what there is to see, where an Apache broker was not at work.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gantrymq.errors import CorruptRecord, invariant
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP
from gantrymq.protocol.stored_message import scan
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import final_properties, parse_op
from gantrymq.transactions.records.half_copies import HalfCopy, chains_of, copy_of, parked_copies, read_halves
from gantrymq.transactions.records.half_notes import Block, open_half
from gantrymq.transactions.rules.check_policy import immunity_ms
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Coverage, Decision, DecisionLog
from gantrymq.transactions.table.open_halves import NOT_NOTED, OpenHalf, TransactionTable

log = logging.getLogger("gantrymq.transactions")


@dataclass(slots=True)
class Rebuilt:
    """What a store says about its transactions."""

    table: TransactionTable
    missing_ops: list[tuple[list[int], Decision]] = field(default_factory=list)
    """(half queue offsets, decision) of transactions that ended without an op message: the caller appends it."""
    quarantined: int = 0
    from_file: bool = False
    """Whether the private file of decisions was of use."""
    read: int = 0
    """Half messages that were read from the log, not counting single ones that prove a block of notes."""

    def quarantine(self, queue_offset: int, error: CorruptRecord) -> None:
        log.error("half message %d is quarantined, it will be neither checked nor delivered: %s", queue_offset, error)
        self.table.decisions[queue_offset] = Decision.QUARANTINED
        self.quarantined += 1

    def ended(self, half: OpenHalf, decision: Decision) -> None:
        """Evidence without an op message was found."""
        self.missing_ops.append((half.queue_offsets(), decision))
        self.table.end(half, decision)


def rebuild(
    store: HalfStore,
    config: TransactionConfig,
    saved: tuple[DecisionLog, Coverage] | None = None,
    notes: Iterable[Block] = (),
    *,
    resolved: bool = True,
) -> Rebuilt:
    """Read what the store holds. ``saved``: the private file of decisions, used only when it fits the store; or those
    that were read ahead, which are not ``resolved``: nobody has looked yet for other copies of what they end.

    ``notes``: the private notes. Each block is taken before it is believed; when the next one is taken, it was.
    """
    half_min, half_max = store.queue_range(HALF, 0)
    if saved is None or not _fits(store, *saved):
        decisions, coverage = DecisionLog(half_min), Coverage(next_op=0, log_position=0)
    else:
        decisions, coverage = saved
    decisions.forget_below(half_min)
    result = Rebuilt(TransactionTable(decisions), from_file=saved is not None and decisions is saved[0])
    open_before = decisions.undecided(half_max) if resolved else range(half_min, half_max)
    apply_ops(store, decisions, coverage.next_op, (half_min, half_max))
    open_now = decisions.undecided(half_max)

    def ended() -> list[int]:
        return sorted(set(open_before).difference(open_now)) if len(open_before) > len(open_now) else []

    # Only where an Apache broker was at work can an undecided half have a copy that was decided; finding that costs a
    # look at every half that ended since.
    if resolved:
        relatives = any(decisions[offset] is Decision.SETTLED for offset in ended())
    else:
        relatives = decisions.has(Decision.SETTLED)
    if open_now and (relatives or not _add_single_halves(store, config, open_now, notes, result)):
        _add_chains(store, config, open_now, ended(), result)
    _find_parked(store, coverage.log_position, result)
    _find_final_messages(store, coverage.log_position, result)
    return result


def _fits(store: HalfStore, decisions: DecisionLog, coverage: Coverage) -> bool:
    """Whether the file was made from this store, and the store still holds all the file speaks of."""
    reasons = (
        coverage.next_half > store.queue_range(HALF, 0)[1],
        coverage.next_op > store.queue_range(OP, 0)[1],
        coverage.log_position > store.max_log_offset,
        not _same_entry(store, HALF, coverage.next_half - 1, coverage.last_half_log_offset),
        not _same_entry(store, OP, coverage.next_op - 1, coverage.last_op_log_offset),
    )
    if any(reasons):
        log.warning("the file of decisions does not fit the store (it lost its tail, or was replaced): reading all")
    return not any(reasons)


def _same_entry(store: HalfStore, topic: str, queue_offset: int, log_offset: int) -> bool:
    if log_offset < 0 or queue_offset < store.queue_range(topic, 0)[0]:
        return True
    entry = store.entry(topic, 0, queue_offset)
    return entry is not None and entry.log_offset == log_offset


def apply_ops(
    store: HalfStore, decisions: DecisionLog, from_op: int, halves: tuple[int, int], most: int | None = None,
    decided: list[int] | None = None,
) -> int:  # fmt: skip
    """Note what the ops say, from one on, and at most so many. ``halves``: those that the store has. ``decided``: gets
    the half messages that had no decision before. Returns the first op that was not read."""
    half_min, half_max = halves
    end = store.queue_range(OP, 0)[1]
    begin = max(from_op, store.queue_range(OP, 0)[0])
    until = end if most is None else min(end, begin + most)
    for op in _ops(store, begin, until):
        for half in parse_op(op.body):
            # The first decision wins, and an op that names what is not there (any more) changes nothing.
            if half_min <= half < half_max and decisions[half] is Decision.NONE:
                decisions[half] = Decision.of_op(op.flag)
                if decided is not None:
                    decided.append(half)
    return max(until, begin)


def _ops(store: HalfStore, offset: int, end: int) -> Iterator[StoredMessage]:
    """The op messages in a range, many with one read of the log."""
    while offset < end:
        found = store.get(OP, 0, offset, min(OPS_PER_READ, end - offset), OPS_PER_READ_BYTES)
        unreadable = found.next_offset - offset - found.count
        if unreadable:
            log.error(
                "%d op message(s) between %d and %d cannot be read: the halves they settled will be checked again",
                unreadable, offset, found.next_offset,
            )  # fmt: skip
        yield from scan(found.data, check=False)
        invariant(found.next_offset > offset, "reading a queue makes progress")
        offset = found.next_offset


OPS_PER_READ: Final = 4096
OPS_PER_READ_BYTES: Final = 1 << 20


# ---- open halves


def _add_single_halves(
    store: HalfStore, config: TransactionConfig, offsets: Sequence[int], notes: Iterable[Block], result: Rebuilt
) -> bool:
    """Fill the table, when every half is a transaction of its own; False when a copy was met: then it is of no use."""
    for half in _single_halves(store, config, offsets, notes, result):
        if half.own_immunity_ms == NOT_NOTED:
            result.table = TransactionTable(result.table.decisions)
            result.quarantined = result.read = 0
            return False
        result.table.add(half)
    return True


def _single_halves(
    store: HalfStore, config: TransactionConfig, offsets: Sequence[int], notes: Iterable[Block], result: Rebuilt
) -> Iterator[OpenHalf]:
    """All halves with these offsets, as far as they can be read, in order: noted ones and others."""
    done = 0
    timeout_ms = config.timeout_ms
    for block in notes:
        if not _is_about(block, store):
            log.warning("private notes about half messages do not fit the log: reading what they were about")
            break
        noted = {note.queue_offset: note for note in block.notes}
        until = bisect_left(offsets, block.end, done)
        for offset in offsets[done:until]:
            note = noted.get(offset)
            if note is not None:
                yield open_half(note, timeout_ms)
            else:
                yield from _from_log(store, config, (offset,), result)
        done = until
    yield from _from_log(store, config, offsets[done:], result)


def _is_about(block: Block, store: HalfStore) -> bool:
    """Whether the notes were taken from this log, and it still has all they speak of."""
    first, end = store.queue_range(HALF, 0)
    if block.end > end or not block.notes:
        return False
    note = block.notes[-1]
    if note.queue_offset < first:
        return True  # retention removed what they are about
    entry = store.entry(HALF, 0, note.queue_offset)
    record = store.read(note.log_offset) if entry is not None and entry.log_offset == note.log_offset else None
    if record is None or note.queue_offset >= block.end:
        return False
    try:
        fields = copy_of(record).fields
    except CorruptRecord:
        return False
    found = (record.store_timestamp, fields.unique_key, fields.group, fields.real_topic, fields.real_queue_id)
    return found == (note.stored_at, note.unique_key, note.group, note.real_topic, note.real_queue_id)


def _from_log(
    store: HalfStore, config: TransactionConfig, offsets: Sequence[int], result: Rebuilt
) -> Iterator[OpenHalf]:
    for copy in read_halves(store, offsets, result.quarantine):
        result.read += 1
        yield _open_half(copy, config)


def _open_half(copy: HalfCopy, config: TransactionConfig) -> OpenHalf:
    fields = copy.fields
    own = immunity_ms(fields.immunity_text, 0)
    return OpenHalf(
        copy.queue_offset, copy.log_offset, fields.group, fields.unique_key, fields.real_topic, fields.real_queue_id,
        copy.stored_at, own or config.timeout_ms, State.OPEN, NOT_NOTED if copy.is_put_back else own,
        sender=fields.sender, size=copy.size,
    )  # fmt: skip


def _add_chains(
    store: HalfStore, config: TransactionConfig, open_now: Sequence[int], ended: Sequence[int], result: Rebuilt
) -> None:
    """Fill the table where copies have to be put together; ``ended``: halves that got an op since the last start."""
    decisions = result.table.decisions
    copies = list(read_halves(store, open_now, result.quarantine))
    identities = {copy.identity for copy in copies}
    relatives = read_halves(store, ended, lambda _offset, _error: None)
    copies.extend(copy for copy in relatives if copy.identity in identities)
    copies.sort(key=lambda copy: copy.queue_offset)
    result.read += len(copies)
    for chain in chains_of(copies, decisions):
        if chain.decision is Decision.NONE:
            half = _open_half(chain.copies[0], config)
            half.copies = tuple((copy.queue_offset, copy.log_offset) for copy in chain.copies[1:])
            result.table.add(half)


# ---- evidence without an op message


def _find_parked(store: HalfStore, log_position: int, result: Rebuilt) -> None:
    """Halves with a parked copy behind them: discarded by an Apache broker, or torn from their op message.

    Parked messages below ``log_position`` were taken into account when the file of decisions was written.
    """
    parked = list(parked_copies(store, log_position)) if len(result.table) else []
    if not parked:
        return
    wanted = {copy.identity[:2] for copy in parked}
    candidates: dict[tuple[str, str], list[OpenHalf]] = {}
    for half in result.table:
        if (half.group, half.unique_key) in wanted:
            candidates.setdefault((half.group, half.unique_key), []).append(half)
    for copy in parked:
        # A resumed half has the same identity and lies behind the parked copy it came from: that copy is not its end.
        before = [half for half in candidates.get(copy.identity[:2], ()) if half.newest()[1] < copy.log_offset]
        same = next((half for half in reversed(before) if _is_copy_of(copy, half, store)), None)
        if same is not None and same.queue_offset in result.table:
            result.ended(same, Decision.PARKED)


def _is_copy_of(copy: HalfCopy, half: OpenHalf, store: HalfStore) -> bool:
    record = store.read(half.log_offset)
    return record is not None and copy_of(record).identity == copy.identity


def _find_final_messages(store: HalfStore, log_position: int, result: Rebuilt) -> None:
    """Commits whose op message did not make it to the disk (holes 3, 4, 30, 31)."""
    oldest = result.table.oldest()
    if oldest is None or log_position >= store.max_log_offset:
        return
    by_place = {half.log_offset: half for half in result.table}
    by_place.update((log_offset, half) for half in result.table for _, log_offset in half.copies)
    for prepared, place in store.finals(max(log_position, oldest.log_offset)):
        half = by_place.get(prepared)
        if half is None or half.queue_offset not in result.table:
            continue
        record = store.read(place)
        if record is not None and _is_final_of(record, half, store):
            result.ended(half, Decision.COMMITTED)


def _is_final_of(record: StoredMessage, half: OpenHalf, store: HalfStore) -> bool:
    """The prepared offset alone is no proof; topic, body and key must be the half's. The queue may be another one: the
    topic may have had fewer queues by then."""
    first = store.read(half.log_offset) if record.topic == half.real_topic else None
    return (
        first is not None
        and record.body_crc == first.body_crc
        and half.unique_key in final_properties(record.properties_text)
    )
