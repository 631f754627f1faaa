"""The operations that explain and list transactions, from records, table and journal. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import all_of_them
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.derived_files import first_op_behind
from gantrymq.broker.transactions.pages import Told, TransactionPages, progress_of
from gantrymq.broker.transactions.parked import was_resumed
from gantrymq.broker.transactions.ports import ProducerGroups
from gantrymq.errors import RemoteProtocolError
from gantrymq.message import flags
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.history.diagnosis import CHECKS_SPAN_MAX, CheckProgress, Surroundings, diagnose
from gantrymq.transactions.history.events import EventKind, HistoryEvent, key_of
from gantrymq.transactions.history.evidence import FinalRecord, HalfRecord, OpRecord
from gantrymq.transactions.history.explanation import explanation, iso
from gantrymq.transactions.records.half import parse_op
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision
from gantrymq.transactions.table.open_halves import OpenHalf

WORKING_MAX: Final = 16
"""Explanations made at the same time; each may read a lot."""
FOUND_MAX: Final = 64
"""Records of one id that are looked at; a client that sends an object again reuses its id."""
OPS_AT_ONCE: Final = 512
"""Op messages read between two pauses."""
OPS_SEARCHED_MAX: Final = 200_000
"""Op messages looked through for the one of a transaction; nearly always it is among the first."""
STILL_OPEN: Final = frozenset(
    {
        EventKind.CHECKED,
        EventKind.ANSWERED_UNKNOWN,
        EventKind.SAID_UNKNOWN,
        EventKind.NOBODY_ONLINE,
        EventKind.LEFT,
        EventKind.JOINED,
        EventKind.FAILED,
    }
)
"""What happens to undecided ones only."""
HALVES_AT_ONCE: Final = 2_000
PARKED_AT_ONCE: Final = 32
CLOCK_SLACK_MS: Final = 2_000
_UNTOLD: Final = (
    "the transaction is one of Topic:{topic}; to hear of it, Pub, Sub, Get or Update on that topic is needed"
)


class TransactionExplanations:
    """Explains and lists transactions. Long searches are done in pieces, so that they delay no other work."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        coordinator: TransactionCoordinator,
        producers: ProducerGroups,
        clock: Clock,
        address: str,
        ops_at_once: int = OPS_AT_ONCE,
    ) -> None:
        self._config = config
        self._store = store
        self._coordinator = coordinator
        self._producers = producers
        self._clock = clock
        self._address = address
        self._ops_at_once = ops_at_once
        self._working = 0
        self.pages = TransactionPages(config, store, coordinator, producers, clock)

    # One transaction.

    async def explain(self, transaction_id: str, told: Told) -> list[dict[str, Any]]:
        """The transactions with this id (UNIQ_KEY, or the offset message id of a half or of its parked copy), the
        oldest first; see ``explanation``. Empty when there is none. ``told``: whether this reader may hear of the
        transactions of a topic; those of others are left out. Raises Refused when too many are being made, or when all
        were left out.
        """
        if self._working >= WORKING_MAX:
            raise Refused(Refusal.BUSY, "too many explanations at the same time; try again")
        self._working += 1
        try:
            explained = await self._explain(transaction_id)
        finally:
            self._working -= 1
        heard = [one for one in explained if told(one["topic"])]
        if explained and not heard:
            raise Refused(Refusal.NOT_PERMITTED, _UNTOLD.format(topic=explained[0]["topic"]))
        return heard

    async def _explain(self, transaction_id: str) -> list[dict[str, Any]]:
        halves, parked = await self._records(transaction_id)
        if not halves and not parked:
            return []
        events = await self._coordinator.history.of((half.queue_offset, half.log_offset) for half in halves)
        finals = self._finals((*halves, *parked))
        ops = await self._ops_of(halves, parked, finals, events)
        around = self._surroundings((*halves, *parked))
        transactions = diagnose(halves, ops, parked, finals, around, all_finals=self._config.store.message_index_enable)
        history = self._coordinator.history
        explained = []
        for transaction in transactions:
            keys = {key_of(half.queue_offset, half.log_offset) for half in transaction.halves}
            others = {key_of(half.queue_offset, half.log_offset) for half in halves} - keys
            own = [event for event in events if event.key not in others]
            explained.append(
                explanation(
                    transaction, self._config.identity.broker_name, self._address, around, own,
                    events_since_ms=history.since_ms, events_lost=history.lost,
                )
            )  # fmt: skip
        return explained

    async def _records(self, transaction_id: str) -> tuple[list[HalfRecord], list[HalfRecord]]:
        halves, parked = self._by_key(HALF, transaction_id), self._by_key(PARKED, transaction_id)
        if not halves and not parked:
            halves, parked = self._by_half_id(transaction_id)
        if not halves and not parked:
            # The index may be off, or behind after a crash: what is open is known without it.
            halves = _half_records(self._store.read(half.log_offset) for half in await self._open_with(transaction_id))
        return halves, parked

    def _by_key(self, topic: str, key: str) -> list[HalfRecord]:
        found = _half_records(record for record in self._store.query(topic, key, FOUND_MAX))
        return [half for half in found if half.unique_key == key]

    def _by_half_id(self, message_id: str) -> tuple[list[HalfRecord], list[HalfRecord]]:
        try:
            record = self._store.read(parse_offset_message_id(message_id)[1])
        except RemoteProtocolError:
            return [], []
        half = HalfRecord.of(record) if record is not None and record.topic in (HALF, PARKED) else None
        if half is None or record is None or half.message_id != message_id.upper():
            return [], []
        halves, parked = (
            [copy for copy in self._by_key(topic, half.unique_key) if copy.identity == half.identity]
            for topic in (HALF, PARKED)
        )
        if not halves and not parked:
            return ([half], []) if record.topic == HALF else ([], [half])
        return halves, parked

    async def _open_with(self, key: str) -> list[OpenHalf]:
        found: list[OpenHalf] = []
        for number, half in enumerate(list(self._coordinator.table), 1):
            if half.unique_key == key:
                found.append(half)
            if number % HALVES_AT_ONCE == 0:
                await self._clock.sleep(0)
        return found

    def _finals(self, halves: Iterable[HalfRecord]) -> list[FinalRecord]:
        return [
            FinalRecord.of(record)
            for topic, key in {(half.real_topic, half.unique_key) for half in halves}
            for record in self._store.query(topic, key, FOUND_MAX)
            if record.topic == topic and flags.transaction_type(record.sys_flag) == flags.COMMITTED
        ]

    async def _ops_of(
        self, halves: list[HalfRecord], parked: list[HalfRecord], finals: list[FinalRecord], events: list[HistoryEvent]
    ) -> dict[int, OpRecord]:
        """The op messages of those halves that are decided."""
        final_ms = {final.half_log_offset: final.stored_ms for final in finals}
        found: dict[int, OpRecord] = {}
        for half in halves:
            if self._coordinator.table.decisions[half.queue_offset] is Decision.NONE or half.queue_offset in found:
                continue
            # It lies behind its half, and as a rule behind whatever happened to it while it was open; but a wall clock
            # may have been set back in between.
            first = first_op_behind(self._store, half.queue_offset)
            key = key_of(half.queue_offset, half.log_offset)
            known = [event.time_ms for event in events if event.key == key and event.kind in STILL_OPEN]
            since_ms = max([half.stored_ms, final_ms.get(half.log_offset, 0), *known])
            likely = max(first, self._store.offset_by_time(OP, 0, since_ms - CLOCK_SLACK_MS))
            await self._find_op(half, likely, found)
            if half.queue_offset not in found and likely > first:
                await self._find_op(half, first, found)
            decision = self._coordinator.table.decisions[half.queue_offset]
            found.setdefault(half.queue_offset, OpRecord(-1, since_ms, decision))
        return found

    async def _find_op(self, half: HalfRecord, offset: int, found: dict[int, OpRecord]) -> None:
        end = min(self._store.queue_range(OP, 0)[1], offset + OPS_SEARCHED_MAX)
        while offset < end:
            part = self._store.get(OP, 0, offset, self._ops_at_once, self._ops_at_once * 1024)
            for record in scan(part.data, check=False):
                if half.queue_offset in parse_op(record.body):
                    found[half.queue_offset] = OpRecord.of(record)
                    return
            if part.next_offset <= offset:
                return
            offset = part.next_offset
            await self._clock.sleep(0)

    def _surroundings(self, halves: Iterable[HalfRecord]) -> Surroundings:
        now_ms = self._clock.wall_ms()
        progress: dict[int, CheckProgress] = {}
        groups: dict[str, int] = {}
        for half in halves:
            groups[half.group] = len(self._producers.members(half.group))
            open_half = self._coordinator.table.at(half.queue_offset, half.log_offset)
            if open_half is not None:
                progress[open_half.queue_offset] = progress_of(open_half, self._clock, now_ms)
        config = self._config
        return Surroundings(
            now_ms=now_ms,
            timeout_ms=config.transactions.transaction_time_out,
            interval_ms=config.transactions.transaction_check_interval,
            check_max=config.transactions.transaction_check_max,
            producers=groups,
            progress=progress,
        )

    # Many.

    def checks(self, queue_offsets: range) -> dict[int, CheckProgress]:
        """What is known beside the records of those halves that are open, by half queue offset. Raises Refused when
        the range is wider than CHECKS_SPAN_MAX.
        """
        if queue_offsets.stop - queue_offsets.start > CHECKS_SPAN_MAX:  # ``len`` refuses large ones in its own way
            raise Refused(Refusal.PARAMETER_INVALID, f"ask about at most {CHECKS_SPAN_MAX} half queue offsets at once")
        now_ms, table = self._clock.wall_ms(), self._coordinator.table
        found = ((offset, table.get(offset)) for offset in queue_offsets)
        return {offset: progress_of(half, self._clock, now_ms) for offset, half in found if half is not None}

    async def undecided(
        self, *, state: str | None = None, group: str | None = None, limit: int = 100, told: Told
    ) -> list[dict[str, Any]]:
        """Open transactions, then parked ones, each the oldest first; at most ``limit``. ``state``: only those.
        ``told``: whether this reader may hear of the transactions of a topic; those of others are left out.
        """
        rows: list[dict[str, Any]] = []
        if state in (None, State.OPEN.text):
            rows += await self._open_rows(group, limit, told)
        if state in (None, State.PARKED.text) and len(rows) < limit:
            rows += await self._parked_rows(group, limit - len(rows), told)
        return rows

    async def _open_rows(self, group: str | None, limit: int, told: Told) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        now_ms = self._clock.wall_ms()
        table = self._coordinator.table
        every = group is not None or told is not all_of_them
        for number, half in enumerate(list(table if every else islice(table, limit)), 1):
            if group in (None, half.group) and told(half.real_topic):
                progress = progress_of(half, self._clock, now_ms)
                rows.append(
                    {
                        "id": half.unique_key, "state": State.OPEN.text, "group": half.group,
                        "topic": half.real_topic, "queue": half.real_queue_id, "stored_at": iso(half.stored_at),
                        "age_ms": max(now_ms - half.stored_at, 0), "checks": progress.times,
                        "producers_online": len(self._producers.members(half.group)),
                        "next_check_at": iso(progress.next_look_ms),
                    }
                )  # fmt: skip
                if len(rows) >= limit:
                    break
            if number % HALVES_AT_ONCE == 0:
                await self._clock.sleep(0)
        return rows

    async def _parked_rows(self, group: str | None, limit: int, told: Told) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        first, end = self._store.queue_range(PARKED, 0)
        for number, offset in enumerate(range(first, end), 1):
            entry = self._store.entry(PARKED, 0, offset)
            record = None if entry is None else self._store.read(entry.log_offset)
            half = None if record is None else HalfRecord.of(record)
            wanted = half is not None and group in (None, half.group) and told(half.real_topic)
            if half is not None and wanted and not was_resumed(self._store, half):
                rows.append(
                    {
                        "id": half.unique_key, "state": State.PARKED.text, "group": half.group,
                        "topic": half.real_topic, "queue": half.real_queue_id, "stored_at": iso(half.stored_ms),
                        "age_ms": max(self._clock.wall_ms() - half.stored_ms, 0), "checks": half.checks,
                        "producers_online": len(self._producers.members(half.group)), "next_check_at": None,
                    }
                )  # fmt: skip
                if len(rows) >= limit:
                    break
            if number % PARKED_AT_ONCE == 0:
                await self._clock.sleep(0)
        return rows


def _half_records(records: Iterable[StoredMessage | None]) -> list[HalfRecord]:
    found = (HalfRecord.of(record) for record in records if record is not None)
    return [half for half in found if half is not None]
