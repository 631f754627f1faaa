"""Transactions from outside: halves, op messages and parked copies are read as the tools of RocketMQ read them, and a
decision is sent as a producer of the group sends it. This works with Apache's brokers, too.

``gantrymq.transactions.history.diagnosis`` says what state a transaction is in and why; this module only fetches.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.admin.brokers import Brokers
from gantrymq.admin.checks import checks_of
from gantrymq.admin.consumers import Consumers
from gantrymq.admin.messages import FOREVER_MS, Messages
from gantrymq.errors import ConfigError, RemoteProtocolError, RequestRejected
from gantrymq.message import flags
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import HALF, OP, PARKED, TRANSACTION_GROUP
from gantrymq.message.transaction import OPERATOR_CLIENT, OPERATOR_REMARK, Resolution
from gantrymq.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from gantrymq.protocol.bodies.progress import ConsumeQueueEntries
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.consumer import QueryConsumerOffset, UnregisterClient
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer, SearchOffset, ViewMessage
from gantrymq.protocol.headers.tools import QueryConsumeQueue, ResumeCheck
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import decode_record, scan
from gantrymq.transactions.history.diagnosis import Surroundings, Transaction, diagnose
from gantrymq.transactions.history.evidence import FinalRecord, HalfRecord, OpRecord
from gantrymq.transactions.records.half import parse_op
from gantrymq.transactions.rules.states import State

PULL_COUNT: Final = 1_000
"""Records asked for at once; Apache's brokers give 32."""
ENTRIES_AT_ONCE: Final = 500
VIEWS_AT_ONCE: Final = 32
OPS_SEARCHED_MAX: Final = 100_000
"""Op messages looked through for the one of a transaction; they are stored soon after its half."""
VERIFIED_MAX: Final = 500
"""Copies that are looked up one by one for a list; each takes some questions."""
LATE_OP_MS: Final = 60_000
"""How long after a half was parked an op for it is still looked for."""
OPS_STORED_WITHIN_S: Final = 10.0
OP_LOOK_AGAIN_S: Final = 0.5
CLOCK_SLACK_MS: Final = 2_000
"""The op of a half is never older than the half by more than this, whatever the index of times rounds to."""

Read = Callable[[int], None]
"""Called with the number of records that were read since the last call."""


@dataclass(frozen=True, slots=True)
class Place:
    """A transaction and the broker that keeps it."""

    broker: str
    address: str
    transaction: Transaction
    java: bool = False
    """An Apache broker keeps it."""


@dataclass(slots=True)
class _Ops:
    """The op messages read so far, by the half they name."""

    by_half: dict[int, OpRecord] = field(default_factory=dict)

    def add(self, record: StoredMessage) -> None:
        for half in parse_op(record.body):
            self.by_half.setdefault(half, OpRecord.of(record))


class Transactions:
    """Finds transactions, and ends them in the name of a person."""

    def __init__(self, asking: Asking, brokers: Brokers, consumers: Consumers, messages: Messages) -> None:
        self._asking = asking
        self._brokers = brokers
        self._consumers = consumers
        self._messages = messages

    async def undecided(self, broker: str | None = None, read: Read | None = None) -> list[Place]:
        """The open and the parked transactions of the masters (or of one), oldest first."""
        found: list[Place] = []
        for name, address in (await self._asking.chosen(broker)).items():
            transactions = await self._undecided_at(name, address, read)
            found += [
                Place(name, address, transaction, self._asking.endpoint.speaks_java(address))
                for transaction in transactions
            ]
        return sorted(found, key=lambda place: place.transaction.half.born_ms)

    async def find(self, transaction_id: str, broker: str | None = None) -> list[Place]:
        """Every transaction with this id (UNIQ_KEY, or the offset message id of its half), whatever became of it.

        A client that sends a message object again reuses its id, so there may be several.
        """
        found: list[Place] = []
        for name, address in (await self._asking.chosen(broker)).items():
            transactions = await self._find_at(name, address, transaction_id)
            found += [
                Place(name, address, transaction, self._asking.endpoint.speaks_java(address))
                for transaction in transactions
            ]
        return found

    async def end(self, place: Place, resolution: Resolution, why: str) -> None:
        """Commit or roll back an open transaction. Raises RequestRejected when the broker refuses, TimedOut when it did
        not answer in time: then look again before trying again.
        """
        transaction = place.transaction
        if transaction.state is not State.OPEN:
            raise ConfigError(
                f"transaction {transaction.transaction_id} is {transaction.state.text}; only an open one can be ended"
            )
        # Our broker hears members of the group only; an Apache broker hears everybody, and would ask us.
        if place.java:
            await self._end(place, transaction.half, resolution, why)
            await self._settle_copies(place, why)
            return
        try:
            await self._join(place)
            await self._end(place, transaction.half, resolution, why)
        finally:
            self._leave(place)

    async def _end(self, place: Place, half: HalfRecord, resolution: Resolution, why: str) -> None:
        header = EndTransaction(
            producer_group=half.group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=int(resolution),
            from_transaction_check=True,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            topic=half.real_topic,
            bname=place.broker,
        )
        await self._asking.ask(
            place.address, RequestCode.END_TRANSACTION, header, timeout_ms=10_000, remark=OPERATOR_REMARK + why,
            what=f"{resolution.name} of transaction {half.unique_key}",
        )  # fmt: skip

    async def _settle_copies(self, place: Place, why: str) -> None:
        """An Apache broker may have put the half back while it was being ended, would check the copy, and in the end
        commit it once more. 5.x stores op messages up to three seconds late and makes copies until then. So each copy
        is settled by a rollback, which delivers nothing, until the ops of all are stored and there are no more.
        """
        clock, ended = self._asking.endpoint.clock, place.transaction.half
        deadline = clock.monotonic() + OPS_STORED_WITHIN_S
        done = {ended.queue_offset}
        while clock.monotonic() < deadline:
            copies = [
                half
                for half in await self._by_key(place.address, HALF, ended.unique_key)
                if half.identity == ended.identity and half.put_back and half.log_offset > ended.log_offset
            ]
            ops = await self._ops_of(place.address, place.broker, [ended, *copies], [])
            left = [copy for copy in copies if copy.queue_offset not in ops and copy.queue_offset not in done]
            for copy in left:
                await self._end(place, copy, Resolution.ROLLBACK, why)
                done.add(copy.queue_offset)
            if not left and done <= ops.keys():
                return
            await clock.sleep(OP_LOOK_AGAIN_S)

    async def resume(self, place: Place, why: str) -> None:
        """Have a parked transaction checked again, as if it were new."""
        transaction = place.transaction
        if transaction.state is not State.PARKED:
            raise ConfigError(
                f"transaction {transaction.transaction_id} is {transaction.state.text}; "
                "only a parked one can be resumed"
            )
        await self._asking.ask(
            place.address, RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id=transaction.half.message_id),
            timeout_ms=10_000, remark=OPERATOR_REMARK + why,
            what=f"resumption of transaction {transaction.transaction_id}",
        )  # fmt: skip

    async def _join(self, place: Place) -> None:
        """Be a producer of the group for a moment: one that is not asked, because it knows nothing."""
        await self._asking.endpoint.channel(place.address, self._asking.endpoint.config.call_timeout_ms)
        beat = HeartbeatData(
            client_id=self._asking.endpoint.client_id + OPERATOR_CLIENT,
            producer_data_set=[ProducerData(group_name=place.transaction.group)],
        )
        await self._asking.ask(place.address, RequestCode.HEART_BEAT, None, beat.encode(), what="heartbeat")

    def _leave(self, place: Place) -> None:
        """One-way, and without waiting for anything: it is done also when we are cancelled."""
        channel = self._asking.endpoint.ready(place.address)
        if channel is None:
            return  # the broker forgets with the connection
        client_id = self._asking.endpoint.client_id + OPERATOR_CLIENT
        header = UnregisterClient(client_id=client_id, producer_group=place.transaction.group)
        channel.send(encode_request(RequestCode.UNREGISTER_CLIENT, channel.next_opaque(), header, one_way=True))

    # Reading one broker.

    async def _undecided_at(self, name: str, address: str, read: Read | None) -> list[Transaction]:
        half_queue, op_queue = MessageQueue(HALF, name, 0), MessageQueue(OP, name, 0)
        halves = await self._halves(address, half_queue, await self._settled_below(address, HALF, name), read)
        ops = _Ops()
        async for record in self._records(address, op_queue, await self._settled_below(address, OP, name), read):
            ops.add(record)
        parked = [
            half
            async for record in self._records(address, MessageQueue(PARKED, name, 0), 0, read)
            if (half := HalfRecord.of(record)) is not None
        ]
        around = await self.surroundings(address, {half.group for half in (*halves, *parked)})
        undecided = [half.queue_offset for half in halves if half.queue_offset not in ops.by_half]
        around = replace(around, progress=await checks_of(self._asking, address, undecided))
        found = [s for s in diagnose(halves, ops.by_half, (), (), around) if s.state is State.OPEN]
        # Where a copy is all that is left in the queue, the half that was ended may lie behind the broker's progress.
        for transaction in [transaction for transaction in found if transaction.half.put_back][:VERIFIED_MAX]:
            transactions = await self._by_index(name, address, transaction.transaction_id)
            if any(s.half.identity == transaction.half.identity and s.state is not State.OPEN for s in transactions):
                found.remove(transaction)
        # What became of a parked one stands behind the broker's progress, so it is looked up by its key.
        known = {half.identity for half in halves}
        for key in dict.fromkeys(half.unique_key for half in parked):
            copies = [half for half in parked if half.unique_key == key]
            transactions = await self._by_index(name, address, key) or diagnose((), {}, copies, (), around)
            identities = {half.identity for half in copies} - (known & {s.half.identity for s in found})
            found += [s for s in transactions if s.state is State.PARKED and s.half.identity in identities]
        return found

    async def _find_at(self, name: str, address: str, transaction_id: str) -> list[Transaction]:
        transactions = await self._by_index(name, address, transaction_id)
        if transactions:
            return transactions
        # The index may be off or behind: look among the undecided ones.
        transactions = await self._undecided_at(name, address, None)
        return [
            transaction
            for transaction in transactions
            if transaction_id in (transaction.transaction_id, transaction.half.message_id)
        ]

    async def _by_index(self, name: str, address: str, transaction_id: str) -> list[Transaction]:
        """The transactions with this id that the index knows."""
        halves = await self._by_key(address, HALF, transaction_id)
        parked = await self._by_key(address, PARKED, transaction_id)
        if not halves and not parked:
            halves, parked = await self._by_half_id(address, transaction_id)
        if not halves and not parked:
            return []
        ops = await self._ops_of(address, name, halves, parked)
        finals: list[FinalRecord] = []
        for topic, key in {(half.real_topic, half.unique_key) for half in (*halves, *parked)}:
            for record in await self._messages.query_broker(address, topic, key, unique=True):
                if record.topic == topic and record.sys_flag & flags.TRANSACTION_MASK == flags.COMMITTED:
                    finals.append(FinalRecord.of(record))
        around = await self.surroundings(address, {half.group for half in (*halves, *parked)})
        undecided = [half.queue_offset for half in halves if half.queue_offset not in ops]
        around = replace(around, progress=await checks_of(self._asking, address, undecided))
        return diagnose(halves, ops, parked, finals, around, all_finals=True)

    async def _by_key(self, address: str, topic: str, key: str) -> list[HalfRecord]:
        records = await self._messages.query_broker(address, topic, key, unique=True)
        found = [half for record in records if record.topic == topic and (half := HalfRecord.of(record)) is not None]
        return [half for half in found if half.unique_key == key]

    async def _by_half_id(self, address: str, message_id: str) -> tuple[list[HalfRecord], list[HalfRecord]]:
        """Halves and parked copies of the transaction one of whose records has this offset message id."""
        try:
            _, log_offset = parse_offset_message_id(message_id)
            record = await self._view(address, log_offset)
        except RemoteProtocolError:
            return [], []
        half = HalfRecord.of(record) if record is not None and record.topic in (HALF, PARKED) else None
        if half is None or record is None or half.message_id != message_id.upper():
            return [], []
        found = [
            [copy for copy in await self._by_key(address, topic, half.unique_key) if copy.identity == half.identity]
            for topic in (HALF, PARKED)
        ]
        if not any(found):
            found = [[half], []] if record.topic == HALF else [[], [half]]
        return found[0], found[1]

    async def _ops_of(
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
        async for record in self._records(address, MessageQueue(OP, name, 0), answer.header(OffsetAnswer).offset, None):
            ops.add(record)
            count += 1
            if wanted <= ops.by_half.keys() or count >= OPS_SEARCHED_MAX or record.store_timestamp > until_ms:
                break
        return {half: op for half, op in ops.by_half.items() if half in wanted}

    async def _halves(self, address: str, queue: MessageQueue, start: int, read: Read | None) -> list[HalfRecord]:
        return [
            half
            async for record in self._records(address, queue, start, read)
            if (half := HalfRecord.of(record)) is not None
        ]

    async def _settled_below(self, address: str, topic: str, name: str) -> int:
        """Where the broker's own progress stands: below are settled halves, and ops of settled halves, only."""
        header = QueryConsumerOffset(
            consumer_group=TRANSACTION_GROUP, topic=topic, queue_id=0, set_zero_if_not_found=False, bname=name
        )
        answer = await self._asking.ask(
            address, RequestCode.QUERY_CONSUMER_OFFSET, header, what="progress of the transaction checks",
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )  # fmt: skip
        return answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else 0

    async def _records(
        self, address: str, queue: MessageQueue, start: int, read: Read | None
    ) -> AsyncIterator[StoredMessage]:
        """The records of a queue from ``start`` to its present end."""
        topic, number, name = queue.topic, queue.queue_id, queue.broker_name
        low = GetMinOffset(topic=topic, queue_id=number, bname=name)
        high = GetMaxOffset(topic=topic, queue_id=number, committed=True, bname=name)
        offset = max(start, await self._edge(address, RequestCode.GET_MIN_OFFSET, low))
        end = await self._edge(address, RequestCode.GET_MAX_OFFSET, high)
        while offset < end:
            try:
                raw = await self._asking.pull(address, queue, offset, PULL_COUNT)
            except RequestRejected as error:
                if error.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                # 4.x brokers have the op queue, but no topic of that name: read entry by entry.
                async for record in self._records_by_entry(address, queue, offset, end, read):
                    yield record
                return
            if raw.next_offset <= offset:
                return
            records = list(scan(raw.data, check=False))
            for record in records:
                yield record
            offset = raw.next_offset
            if read is not None:
                read(len(records))

    async def _records_by_entry(
        self, address: str, queue: MessageQueue, offset: int, end: int, read: Read | None
    ) -> AsyncIterator[StoredMessage]:
        while offset < end:
            count = min(ENTRIES_AT_ONCE, end - offset)
            header = QueryConsumeQueue(topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count)
            answer = await self._asking.ask(
                address, RequestCode.QUERY_CONSUME_QUEUE, header, what=f"entries of {queue}", timeout_ms=10_000
            )
            entries = ConsumeQueueEntries.decode(answer.body).queue_data
            if not entries:
                return
            for first in range(0, len(entries), VIEWS_AT_ONCE):
                part = entries[first : first + VIEWS_AT_ONCE]
                for record in await asyncio.gather(*(self._view(address, entry.physic_offset) for entry in part)):
                    if record is not None:
                        yield record
            offset += len(entries)
            if read is not None:
                read(len(entries))

    async def _view(self, address: str, log_offset: int) -> StoredMessage | None:
        answer = await self._asking.ask(
            address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=log_offset), what="record of the log",
            accept=(ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),
        )  # fmt: skip
        return decode_record(answer.body) if answer.code == ResponseCode.SUCCESS else None

    async def _edge(self, address: str, code: RequestCode, header: GetMinOffset | GetMaxOffset) -> int:
        answer = await self._asking.ask(address, code, header, what=f"offsets of {header.topic}")
        return answer.header(OffsetAnswer).offset

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
