"""The table of transactions from what is on the disk.

Evidence, strongest first; what has none is open and will be checked:

1. an op message names the half (ours says how it ended, Apache's only that it did);
2. a final message points at it by its prepared offset: the broker died between final and op message;
3. a parked copy lies behind it in the log;
4. one of these holds for another copy of the same transaction (Apache's brokers put checked halves back as copies).

The committed offsets of CID_RMQ_SYS_TRANS are no evidence: they are written now and then and not tied to the log, so
after a power cut they may be newer than what is left of it (hole 12). Looking at every half without an op costs a read
each, but no transaction is passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from gantrymq.errors import CorruptRecord, invariant
from gantrymq.message import flags
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.stored_message import scan
from gantrymq.transactions.check_policy import immunity_ms
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.decisions import Coverage, Decision, DecisionLog
from gantrymq.transactions.half import HalfFields, final_properties, parse_op, read_half
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.states import State
from gantrymq.transactions.table import OpenHalf, TransactionTable

log = logging.getLogger("gantrymq.transactions")

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

    @property
    def is_put_back(self) -> bool:
        """Whether an Apache broker wrote it as a copy. A count of 0 is a fresh start: an operator resumed it."""
        return self.fields.prepared_queue_offset is not None or (self.fields.check_times or "0") != "0"


@dataclass(slots=True)
class Chain:
    """The copies of one transaction, in order."""

    copies: list[HalfCopy]
    decision: Decision = Decision.NONE

    @property
    def queue_offsets(self) -> list[int]:
        return [copy.queue_offset for copy in self.copies]


@dataclass(slots=True)
class Rebuilt:
    """What a store says about its transactions."""

    table: TransactionTable
    missing_ops: list[tuple[list[int], Decision]] = field(default_factory=list)
    """(half queue offsets, decision) of transactions that ended without an op message: the caller appends it."""
    quarantined: int = 0
    from_file: bool = False
    """Whether the private file of decisions was of use."""


def rebuild(store: HalfStore, config: TransactionConfig, saved: tuple[DecisionLog, Coverage] | None = None) -> Rebuilt:
    """Read what the store holds. ``saved``: the private file of decisions, used only when it fits the store."""
    half_min, half_max = store.queue_range(HALF, 0)
    if saved is None or not _fits(store, *saved):
        decisions, coverage = DecisionLog(half_min), Coverage(next_op=0, log_position=0)
    else:
        decisions, coverage = saved
    decisions.forget_below(half_min)
    result = Rebuilt(TransactionTable(decisions), from_file=saved is not None and decisions is saved[0])
    open_before = decisions.undecided(half_max)
    _apply_ops(store, decisions, coverage.next_op, (half_min, half_max))
    chains = _chains(store, open_before, result)
    _spread_decisions(chains, decisions)
    _find_parked(store, chains, result)
    _find_final_messages(store, chains, coverage.log_position, result)
    _spread_decisions(chains, decisions)
    for chain in chains:
        if chain.decision is Decision.NONE:
            result.table.add(_open_half(chain, config))
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


def _records(store: HalfStore, topic: str, queue_offsets: Iterable[int]) -> Iterator[tuple[int, StoredMessage | None]]:
    """(queue offset, record); None for a record that cannot be read."""
    for queue_offset in queue_offsets:
        entry = store.entry(topic, 0, queue_offset)
        yield queue_offset, None if entry is None else store.read(entry.log_offset)


def _apply_ops(store: HalfStore, decisions: DecisionLog, from_op: int, halves: tuple[int, int]) -> None:
    half_min, half_max = halves
    for op in _ops(store, from_op):
        for half in parse_op(op.body):
            # The first decision wins, and an op that names what is not there (any more) changes nothing.
            if half_min <= half < half_max and decisions[half] is Decision.NONE:
                decisions[half] = Decision.of_op(op.flag)


def _ops(store: HalfStore, from_op: int) -> Iterator[StoredMessage]:
    """All op messages from one on, many with one read of the log."""
    first, end = store.queue_range(OP, 0)
    offset = max(from_op, first)
    while offset < end:
        found = store.get(OP, 0, offset, OPS_PER_READ, OPS_PER_READ_BYTES)
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


def _read_halves(store: HalfStore, queue_offsets: Iterable[int], result: Rebuilt) -> Iterator[HalfCopy]:
    for queue_offset, record in _records(store, HALF, queue_offsets):
        try:
            if record is None:
                raise CorruptRecord(-1, "no whole record")
            yield _copy_of(queue_offset, record)
        except CorruptRecord as error:
            log.error(
                "half message %d is quarantined, it will be neither checked nor delivered: %s", queue_offset, error
            )
            result.table.decisions[queue_offset] = Decision.QUARANTINED
            result.quarantined += 1


def _copy_of(queue_offset: int, record: StoredMessage) -> HalfCopy:
    fields = read_half(record)
    identity = (fields.group, fields.unique_key, record.born_timestamp, record.body_crc)
    return HalfCopy(queue_offset, record.log_offset, record.store_timestamp, identity, fields)


def _chains(store: HalfStore, open_before: list[int], result: Rebuilt) -> list[Chain]:
    """Copies put together to transactions. ``open_before``: halves without a decision before the ops were read."""
    decisions = result.table.decisions
    ended = [offset for offset in open_before if decisions[offset] is not Decision.NONE]
    undecided = (offset for offset in open_before if decisions[offset] is Decision.NONE)
    copies = list(_read_halves(store, undecided, result))
    # Only where an Apache broker was at work can an undecided half have a copy that was decided; finding that costs a
    # look at every half that ended since.
    if copies and (any(copy.is_put_back for copy in copies) or any(decisions[n] is Decision.SETTLED for n in ended)):
        identities = {copy.identity for copy in copies}
        relatives = _read_halves(store, ended, result)
        copies.extend(copy for copy in relatives if copy.identity in identities)
        copies.sort(key=lambda copy: copy.queue_offset)
    newest: dict[Identity, Chain] = {}
    chains: list[Chain] = []
    for copy in copies:
        chain = newest.get(copy.identity) if copy.is_put_back else None
        if chain is None:
            chain = newest[copy.identity] = Chain([])
            chains.append(chain)
        chain.copies.append(copy)
    return chains


def _spread_decisions(chains: list[Chain], decisions: DecisionLog) -> None:
    """A decision about one copy is a decision about all (hole 1)."""
    for chain in chains:
        if chain.decision is Decision.NONE:
            taken = (decisions[offset] for offset in chain.queue_offsets)
            chain.decision = next((decision for decision in taken if decision is not Decision.NONE), Decision.NONE)
        if chain.decision is not Decision.NONE:
            for offset in chain.queue_offsets:
                if decisions[offset] is Decision.NONE:
                    decisions[offset] = chain.decision


def _find_parked(store: HalfStore, chains: list[Chain], result: Rebuilt) -> None:
    """Halves with a parked copy behind them: discarded by an Apache broker, or torn from their op message."""
    still_open: dict[Identity, list[Chain]] = {}
    for chain in chains:
        if chain.decision is Decision.NONE:
            still_open.setdefault(chain.copies[0].identity, []).append(chain)
    if not still_open:
        return
    for parked in _parked_copies(store):
        # A resumed half has the same identity and lies behind the parked copy it came from: that copy is not its end.
        candidates = still_open.get(parked.identity, ())
        before = [chain for chain in candidates if chain.copies[-1].log_offset < parked.log_offset]
        if before and before[-1].decision is Decision.NONE:
            before[-1].decision = Decision.PARKED
            result.missing_ops.append((before[-1].queue_offsets, Decision.PARKED))


def _parked_copies(store: HalfStore) -> Iterator[HalfCopy]:
    for queue_offset, record in _records(store, PARKED, range(*store.queue_range(PARKED, 0))):
        try:
            if record is not None:
                yield _copy_of(queue_offset, replace(record, topic=HALF))
        except CorruptRecord as error:
            log.error("parked message %d is of no use: %s", queue_offset, error)


def _find_final_messages(store: HalfStore, chains: list[Chain], log_position: int, result: Rebuilt) -> None:
    """Commits whose op message did not make it to the disk (holes 3, 4, 30, 31)."""
    by_place = {copy.log_offset: chain for chain in chains if chain.decision is Decision.NONE for copy in chain.copies}
    if not by_place:
        return
    start = max(log_position, min(by_place), store.min_log_offset)
    for record in store.scan(start):
        if flags.transaction_type(record.sys_flag) != flags.COMMITTED:
            continue
        chain = by_place.get(record.prepared_transaction_offset)
        if chain is not None and chain.decision is Decision.NONE and _is_final_of(record, chain):
            chain.decision = Decision.COMMITTED
            result.missing_ops.append((chain.queue_offsets, Decision.COMMITTED))


def _is_final_of(record: StoredMessage, chain: Chain) -> bool:
    """The prepared offset alone is no proof; topic, body and key must be the half's. The queue may be another one: the
    topic may have had fewer queues by then."""
    first = chain.copies[0]
    return (
        record.topic == first.fields.real_topic
        and record.body_crc == first.identity[3]
        and first.fields.unique_key in final_properties(record.properties_text)
    )


def _open_half(chain: Chain, config: TransactionConfig) -> OpenHalf:
    first = chain.copies[0]
    fields = first.fields
    half = OpenHalf(
        first.queue_offset, first.log_offset, fields.group, fields.unique_key, fields.real_topic, fields.real_queue_id,
        first.stored_at, immunity_ms(fields.immunity_text, config.timeout_ms), State.OPEN,
    )  # fmt: skip
    half.copies = tuple((copy.queue_offset, copy.log_offset) for copy in chain.copies[1:])
    return half
