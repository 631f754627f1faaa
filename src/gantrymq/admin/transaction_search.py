"""Finds the transactions of one broker: halves, op messages, parked copies and final messages, put together.

``gantrymq.transactions.history.diagnosis`` says what state a transaction is in and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.admin.brokers import Brokers
from gantrymq.admin.checks import checks_of
from gantrymq.admin.consumers import Consumers
from gantrymq.admin.messages import FOREVER_MS, Messages
from gantrymq.admin.queue_records import QueueRecords, Read
from gantrymq.errors import RemoteProtocolError, RequestRejected
from gantrymq.message import flags
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.pull import OffsetAnswer, SearchOffset
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.transactions.history.diagnosis import Surroundings, Transaction, diagnose
from gantrymq.transactions.history.evidence import FinalRecord, HalfRecord, OpRecord
from gantrymq.transactions.records.half import parse_op
from gantrymq.transactions.rules.states import State

OPS_SEARCHED_MAX: Final = 100_000
"""Op messages looked through for the one of a transaction; they are stored soon after its half."""
VERIFIED_MAX: Final = 500
"""Copies that are looked up one by one for a list; each takes some questions."""
LATE_OP_MS: Final = 60_000
"""How long after a half was parked an op for it is still looked for."""
CLOCK_SLACK_MS: Final = 2_000
"""The op of a half is never older than the half by more than this, whatever the index of times rounds to."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which undecided transactions are looked for. None: all."""

    state: State | None = None
    """Open or parked."""
    group: str | None = None
    topic: str | None = None
    transaction_id: str | None = None
    """A UNIQ_KEY, or the offset message id of a record."""
    count: int | None = None
    """How many of each state, the ones first that were stored first."""

    def takes(self, half: HalfRecord) -> bool:
        """Whether a half, or a parked copy, belongs to it."""
        return (
            self.group in (None, half.group)
            and self.topic in (None, half.real_topic)
            and self.transaction_id in (None, half.unique_key, half.message_id)
        )


EVERYTHING: Final = Wanted()


@dataclass(slots=True)
class _Ops:
    """The op messages read so far, by the half they name."""

    by_half: dict[int, OpRecord] = field(default_factory=dict)

    def add(self, record: StoredMessage) -> None:
        for half in parse_op(record.body):
            self.by_half.setdefault(half, OpRecord.of(record))


class TransactionSearch:
    """Every method raises Unreachable, TimedOut or RequestRejected."""

    def __init__(self, asking: Asking, brokers: Brokers, consumers: Consumers, messages: Messages) -> None:
        self._asking = asking
        self._brokers = brokers
        self._consumers = consumers
        self._messages = messages
        self._records = QueueRecords(asking)

    async def undecided(
        self, name: str, address: str, read: Read | None, at_most: int | None = None, wanted: Wanted = EVERYTHING
    ) -> list[Transaction]:
        """The open and the parked transactions of one broker. ``at_most``: halves, and parked ones, that are read.
        ``wanted``: which ones, and how many; the questions that are asked one by one end when there are enough.
        """
        found: list[Transaction] = []
        if wanted.state is not State.PARKED:
            found = await self._open(name, address, read, at_most, wanted)
        if wanted.state is State.OPEN:
            return found
        return found + await self._parked(name, address, read, at_most, wanted, found)

    async def _open(
        self, name: str, address: str, read: Read | None, at_most: int | None, wanted: Wanted
    ) -> list[Transaction]:
        start = await self._records.settled_below(address, HALF, name)
        halves = await self._halves(address, MessageQueue(HALF, name, 0), start, read, at_most)
        halves = [half for half in halves if wanted.takes(half)]
        ops = _Ops()
        ops_start = await self._records.settled_below(address, OP, name)
        async for record in self._records.of_queue(address, MessageQueue(OP, name, 0), ops_start, read):
            ops.add(record)
        if wanted.count is not None and not any(half.put_back for half in halves):
            undecided_halves = [half for half in halves if half.queue_offset not in ops.by_half]
            first = set(islice(dict.fromkeys(half.identity for half in undecided_halves), wanted.count))
            halves = [half for half in halves if half.identity in first]
        around = await self.surroundings(address, {half.group for half in halves})
        undecided = [half.queue_offset for half in halves if half.queue_offset not in ops.by_half]
        around = replace(around, progress=await checks_of(self._asking, address, undecided))
        found = [s for s in diagnose(halves, ops.by_half, (), (), around) if s.state is State.OPEN]
        # Where a copy is all that is left in the queue, the half that was ended may lie behind the broker's progress.
        for transaction in [transaction for transaction in found if transaction.half.put_back][:VERIFIED_MAX]:
            transactions = await self._by_index(name, address, transaction.transaction_id)
            if any(s.half.identity == transaction.half.identity and s.state is not State.OPEN for s in transactions):
                found.remove(transaction)
        return found

    async def _parked(
        self,
        name: str,
        address: str,
        read: Read | None,
        at_most: int | None,
        wanted: Wanted,
        known: Sequence[Transaction],
    ) -> list[Transaction]:
        """What became of a parked one stands behind the broker's progress, so each is looked up by its key: as many as
        are wanted. ``known``: those that are open."""
        parked = await self._halves(address, MessageQueue(PARKED, name, 0), 0, read, at_most)
        by_key: dict[str, list[HalfRecord]] = {}
        for half in parked:
            if wanted.takes(half):
                by_key.setdefault(half.unique_key, []).append(half)
        open_ones = {transaction.half.identity for transaction in known}
        found: list[Transaction] = []
        for key, copies in by_key.items():
            if wanted.count is not None and len(found) >= wanted.count:
                break
            transactions = await self._by_index(name, address, key)
            if not transactions:
                around = await self.surroundings(address, {half.group for half in copies})
                transactions = diagnose((), {}, copies, (), around)
            identities = {half.identity for half in copies} - open_ones
            found += [s for s in transactions if s.state is State.PARKED and s.half.identity in identities]
        return found

    async def find(self, name: str, address: str, transaction_id: str) -> list[Transaction]:
        """The transactions with this id, whatever became of them."""
        transactions = await self._by_index(name, address, transaction_id)
        if transactions:
            return transactions
        # The index may be off or behind: look among the undecided ones.
        return await self.undecided(name, address, None, wanted=Wanted(transaction_id=transaction_id))

    async def _by_index(self, name: str, address: str, transaction_id: str) -> list[Transaction]:
        """The transactions with this id that the index knows."""
        halves = await self.by_key(address, HALF, transaction_id)
        parked = await self.by_key(address, PARKED, transaction_id)
        if not halves and not parked:
            halves, parked = await self._by_half_id(address, transaction_id)
        if not halves and not parked:
            return []
        ops = await self.ops_of(address, name, halves, parked)
        finals: list[FinalRecord] = []
        for topic, key in {(half.real_topic, half.unique_key) for half in (*halves, *parked)}:
            for record in await self._messages.query_broker(address, topic, key, unique=True):
                if record.topic == topic and record.sys_flag & flags.TRANSACTION_MASK == flags.COMMITTED:
                    finals.append(FinalRecord.of(record))
        around = await self.surroundings(address, {half.group for half in (*halves, *parked)})
        undecided = [half.queue_offset for half in halves if half.queue_offset not in ops]
        around = replace(around, progress=await checks_of(self._asking, address, undecided))
        return diagnose(halves, ops, parked, finals, around, all_finals=True)

    async def by_key(self, address: str, topic: str, key: str) -> list[HalfRecord]:
        records = await self._messages.query_broker(address, topic, key, unique=True)
        found = [half for record in records if record.topic == topic and (half := HalfRecord.of(record)) is not None]
        return [half for half in found if half.unique_key == key]

    async def _by_half_id(self, address: str, message_id: str) -> tuple[list[HalfRecord], list[HalfRecord]]:
        """Halves and parked copies of the transaction one of whose records has this offset message id."""
        try:
            _, log_offset = parse_offset_message_id(message_id)
            record = await self._records.at(address, log_offset)
        except RemoteProtocolError:
            return [], []
        half = HalfRecord.of(record) if record is not None and record.topic in (HALF, PARKED) else None
        if half is None or record is None or half.message_id != message_id.upper():
            return [], []
        found = [
            [copy for copy in await self.by_key(address, topic, half.unique_key) if copy.identity == half.identity]
            for topic in (HALF, PARKED)
        ]
        if not any(found):
            found = [[half], []] if record.topic == HALF else [[], [half]]
        return found[0], found[1]

    async def ops_of(
        self, address: str, name: str, halves: list[HalfRecord], parked: list[HalfRecord]
    ) -> dict[int, OpRecord]:
        """The ops that name these halves: read from the oldest half's time on until all are found."""
        wanted = {half.queue_offset for half in halves}
        if not wanted:
            return {}
        # Nothing is expected behind a parked copy, unless an operator resumed it.
        last_half_ms = max(half.stored_ms for half in halves)
        parked_ms = max((half.stored_ms for half in parked), default=0)
        until_ms = parked_ms + LATE_OP_MS if parked_ms > last_half_ms else FOREVER_MS
        header = SearchOffset(
            topic=OP, queue_id=0, timestamp=min(half.stored_ms for half in halves) - CLOCK_SLACK_MS, bname=name
        )
        answer = await self._asking.ask(
            address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, what="search in the op queue"
        )
        ops = _Ops()
        count = 0
        async for record in self._records.of_queue(
            address, MessageQueue(OP, name, 0), answer.header(OffsetAnswer).offset, None
        ):
            ops.add(record)
            count += 1
            if wanted <= ops.by_half.keys() or count >= OPS_SEARCHED_MAX or record.store_timestamp > until_ms:
                break
        return {half: op for half, op in ops.by_half.items() if half in wanted}

    async def _halves(
        self, address: str, queue: MessageQueue, start: int, read: Read | None, at_most: int | None
    ) -> list[HalfRecord]:
        return [
            half
            async for record in self._records.of_queue(address, queue, start, read, at_most)
            if (half := HalfRecord.of(record)) is not None
        ]

    async def surroundings(self, address: str, groups: Iterable[str]) -> Surroundings:
        """What the broker tells of its settings and of the producers of these groups, as far as it does."""
        now_ms = self._asking.endpoint.clock.wall_ms()
        java = self._asking.endpoint.speaks_java(address)
        try:
            config = await self._brokers.config(address)
        except RequestRejected:
            config = {}
        producers: dict[str, int] | None
        try:
            producers = {group: await self._consumers.producers_of(address, group) for group in sorted(set(groups))}
        except RequestRejected:
            producers = None
        default = Surroundings(now_ms)
        return Surroundings(
            now_ms=now_ms,
            timeout_ms=_number(config, "transactionTimeOut", default.timeout_ms),
            interval_ms=_number(config, "transactionCheckInterval", default.interval_ms),
            check_max=_number(config, "transactionCheckMax", default.check_max),
            producers=producers,
            rewrites_halves=java,
        )


def _number(config: dict[str, str], key: str, default: int) -> int:
    text = config.get(key, "")
    return int(text) if text.isdecimal() else default
