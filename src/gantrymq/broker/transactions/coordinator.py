"""Coordinates the transactions of a broker: it stores half messages, ends them, checks them, and restores them after a
restart. The tables in ``gantrymq.transactions`` make the decisions; this module carries them out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msgspec import structs

from gantrymq.broker.client import Client
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.transactions.decision_file import DecisionFile
from gantrymq.broker.transactions.end import EndOperation
from gantrymq.broker.transactions.endings import TransactionEndings, end_after
from gantrymq.broker.transactions.half_notes_file import HalfNotesFile
from gantrymq.broker.transactions.history import DIRECTORY, TransactionHistory
from gantrymq.broker.transactions.lost_senders import LostSenders
from gantrymq.broker.transactions.ports import OffsetBook, ProducerGroups, TopicLookup
from gantrymq.errors import InvariantViolated, MessageIllegal, StoreError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset
from gantrymq.message.system_topics import HALF, OP, PARKED, TRANSACTION_GROUP
from gantrymq.protocol.hosts import host_text
from gantrymq.protocol.stored_message import decode_record
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.values import NewRecord, Placement
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.history.events import Kind
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.rebuild import rebuild
from gantrymq.transactions.records.half import (
    HALF_QUEUE_ID,
    half_record,
    op_record,
    read_half,
    resumed_record,
    with_real_place,
)
from gantrymq.transactions.rules.check_policy import has_decisive_checkers, immunity_ms
from gantrymq.transactions.rules.states import TRANSITIONS, Event, State
from gantrymq.transactions.table.decisions import Cause, DecisionLog
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable, Waiting

log = logging.getLogger("gantrymq.transactions")

# Looking up a member of an enum costs ten times a global before Python 3.12; these are looked up for each message.
_STORING: Final = State.STORING
_OPEN: Final = TRANSITIONS[State.STORING, Event.DURABLE]

OFFSETS_INTERVAL_S: Final = 5.0
"""Between two updates of the CID_RMQ_SYS_TRANS offsets, which an Apache broker would start from."""
DECISIONS_INTERVAL_S: Final = 5.0
"""Between two writes of the decisions file, per MiB it has; a start after a crash reads the ops of that time."""
NOTES_INTERVAL_S: Final = 5.0
"""Half messages that stay open once to twice as long are noted; a start reads younger ones from the log."""


class TransactionCoordinator:
    """Built by the broker in this order: construct, ``rebuild()``, ``start()`` ... ``close()`` before the store.

    ``ends`` (the operation that ends a transaction) and ``table`` are those of the store after ``rebuild()``.
    """

    def __init__(
        self,
        store: HalfStore,
        producers: ProducerGroups,
        topics: TopicLookup,
        offsets: OffsetBook,
        clock: Clock,
        disk: Disk,
        config: TransactionConfig,
        broker_host: bytes,
    ) -> None:
        """``broker_host``: this broker's packed address, for the op messages."""
        self._store = store
        self._append_plain = store.append_plain
        self._producers = producers
        self._topics = topics
        self._offsets = offsets
        self._clock = clock
        self._config = config
        self._host = broker_host
        self._file = DecisionFile(disk, store)
        self._notes = HalfNotesFile(disk, clock, store)
        self._timers: list[Timer] = []
        self._decisions_due = 0.0
        self.counts: Final = TransactionCounts()
        self.history: Final = TransactionHistory(disk, clock, store.path(DIRECTORY))
        self._storing = store.safety.shared_wait(self._stored, self._late)
        self._unconfirmed: dict[int, Unconfirmed] = {}
        """By half queue offset: halves that are not safe and whose senders were told so."""
        self._take(TransactionTable(DecisionLog(store.queue_range(HALF, HALF_QUEUE_ID)[0])))

    def _take(self, table: TransactionTable) -> None:
        self.table = table
        self._endings = TransactionEndings(
            self._store, table, self._clock, self.counts, self._host, self._make_parked_topic, self.history
        )
        self.checks = TransactionChecks(
            self._store,
            table,
            self._endings,
            self._producers,
            self._clock,
            self._config,
            self.counts,
            self.history,
        )
        self._lost_senders = LostSenders(
            table, self._producers, self._clock, self._config, self.checks.sender_gone, self.checks.sender_back
        )
        self.ends = EndOperation(
            self._store,
            table,
            self._endings,
            self._topics,
            self._producers.is_member,
            self.checks.answered,
            self.counts,
            self.history,
        )

    def rebuild(self) -> None:
        """Learn from the store which transactions are open. Call once, before the broker listens.

        A transaction whose message was delivered or parked without its op message gets it now.
        """
        found = rebuild(self._store, self._config, self._file.load(), self._notes.blocks())
        if not found.from_file:
            self._file.discard()
        self._take(found.table)
        self.counts.quarantined += found.quarantined
        self.counts.completed_at_start += len(found.missing_ops)
        if found.missing_ops:
            now_ms = self._clock.wall_ms()
            self._store.append(
                [
                    op_record(offset, decision, now_ms, self._host, Cause.RECOVERY)
                    for offsets, decision in found.missing_ops
                    for offset in offsets
                ]
            )
        self.checks.watch(found.table)
        if self._store.queue_range(PARKED, HALF_QUEUE_ID)[1]:
            self._make_parked_topic()
        log.info(
            "transactions: %d open (%d of them read), %d completed, %d quarantined (decisions file %s)",
            len(found.table), found.read, len(found.missing_ops), found.quarantined,
            "used" if found.from_file else "not used",
        )  # fmt: skip

    def reconfigure(self, config: TransactionConfig) -> None:
        """Use other settings from now on; they apply to open half messages, too."""
        self._config = config
        self.checks.reconfigure(config)
        self._lost_senders.config = config

    def start(self) -> None:
        """Begin to check, and to keep the derived files up to date."""
        self.history.start()
        self.checks.start()
        self._every(OFFSETS_INTERVAL_S, self._commit_offsets)
        self._every(DECISIONS_INTERVAL_S, self._save_decisions)
        self._every(NOTES_INTERVAL_S, lambda: self._notes.go_on(self.table))

    def close(self) -> None:
        """Stop the timers and save what shortens the next start. The store must still be open."""
        self.checks.close()
        self._lost_senders.close()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._commit_offsets()
        self._file.save(self.table)
        self._notes.finish(self.table)
        self.history.close()

    def put_half(
        self,
        record: NewRecord,
        group: str,
        unique_key: str,
        real_topic: str,
        real_queue_id: int,
        done: Waiting,
    ) -> None:
        """Store a half message; ``done(half, error)`` is called when it is safe, or could not be made so, or with
        Unconfirmed when it is not safe within the time its sender waits; then it can be ended all the same.

        ``half.queue_offset`` and ``half.log_offset`` are what the client is answered with. A retry of a send whose
        half is still undecided joins it: nothing is stored, and the answer names the first one. ``record``: the
        message as it would be stored were it no transaction.

        Raises MessageIllegal when the message cannot be a half (delayed, or properties too long), StoreUnavailable
        when the store takes no writes; then ``done`` is not called.
        """
        half = self.table.to_join(group, unique_key)
        if half is not None:
            self._join(half, real_topic, record.body, record.properties, record.born_host, done)
            return
        stored = half_record(record, real_topic, real_queue_id, unique_key)
        self._add(stored, group, unique_key, real_topic, real_queue_id, done)

    def put_usual(
        self, topic: str, queue_id: int, body: bytes, text: str, born_timestamp: int, born_host: bytes, flag: int,
        sys_flag: int, reconsume_times: int, group: str, unique_key: str, tags_code: int, decisive: bool,
        done: Waiting,
    ) -> None:  # fmt: skip
        """``put_half`` of a message without anything unusual in its properties (``processors.usual_half``), and
        without an object for it. ``topic``, ``queue_id``: the real ones; ``text`` ends with a separator; ``tags_code``:
        of its TAGS."""
        half = self.table.to_join(group, unique_key)
        if half is not None:
            self._join(half, topic, body, text, born_host, done)
            return
        place = self._append_plain(
            HALF, HALF_QUEUE_ID, body, with_real_place(text, topic, queue_id, unique_key), born_timestamp, born_host,
            flag, sys_flag, reconsume_times, unique_key, tags_code,
        )  # fmt: skip
        half = OpenHalf(
            place.queue_offset, place.log_offset, group, unique_key, topic, queue_id, place.store_timestamp,
            self._config.timeout_ms, _STORING, 0, (), None, [done], tags_code=tags_code,
        )  # fmt: skip
        self._take_in(half, place)
        if decisive:
            self._lost_senders.sent(half, born_host)

    def _join(
        self, half: OpenHalf, topic: str, body: bytes, text: str, born_host: bytes, done: Waiting
    ) -> None:  # fmt: skip
        """Answer a retry. Raises MessageIllegal for another message under the key of an open one: joined it would be
        lost, and its commit would deliver the other."""
        if topic != half.real_topic or not self._has_body(half, body):
            raise MessageIllegal(
                f"a transaction of {half.group} with the UNIQ_KEY {half.unique_key} is still open, with another topic "
                "or body; send every message as an object of its own"
            )
        self.counts.joined += 1
        self.history.note(Kind.JOINED, half.place, peer=host_text(born_host))
        if has_decisive_checkers(text, half.group):
            self._lost_senders.sent(half, born_host)
        if half.state is State.STORING:
            end_after(half, done)
        else:
            done(half, self._unconfirmed.get(half.queue_offset))

    def resume(self, parked: StoredMessage, done: Waiting) -> None:
        """Make a parked message an open half again; ``done`` as of ``put_half``.

        Raises CorruptRecord when it cannot be one, Refused when it is open, StoreUnavailable.
        """
        stored = resumed_record(parked)
        fields = read_half(structs.replace(parked, topic=HALF))
        if self.table.to_join(fields.group, fields.unique_key) is not None:
            raise Refused(Refusal.FAILED, f"the transaction {fields.unique_key} of {fields.group} is open already")
        self._add(stored, fields.group, fields.unique_key, fields.real_topic, fields.real_queue_id, done)

    def _add(
        self, stored: NewRecord, group: str, unique_key: str, real_topic: str, real_queue_id: int, done: Waiting
    ) -> None:
        (place,) = self._store.append((stored,))
        text, immunity, decisive = stored.properties, None, False
        if _IMMUNITY in text:
            immunity = properties.find(text, properties.CHECK_IMMUNITY_SECONDS)
            decisive = has_decisive_checkers(text, group)
        half = self._open(place, group, unique_key, real_topic, real_queue_id, immunity, done)
        if decisive:
            self._lost_senders.sent(half, stored.born_host)

    def _has_body(self, half: OpenHalf, body: bytes) -> bool:
        """Whether it is the body of a half; what cannot be read yet is not doubted."""
        stored = decode_record(half.record) if half.record is not None else self._store.read(half.log_offset)
        return stored is None or stored.body == body

    def _open(
        self, place: Placement, group: str, unique_key: str, real_topic: str, real_queue_id: int, immunity: str | None,
        done: Waiting,
    ) -> OpenHalf:  # fmt: skip
        own_immunity = immunity_ms(immunity, 0)
        half = OpenHalf(
            place.queue_offset, place.log_offset, group, unique_key, real_topic, real_queue_id, place.store_timestamp,
            own_immunity or self._config.timeout_ms, _STORING, own_immunity,
        )  # fmt: skip
        half.waiting = [done]
        self._take_in(half, place)
        return half

    def _take_in(self, half: OpenHalf, place: Placement) -> None:
        """A half was appended."""
        self.table.add(half, place.data)
        self._storing.add(place.log_offset + place.size, half)

    def _late(self, halves: list[OpenHalf], error: Unconfirmed) -> None:
        """The senders of these halves wait no longer."""
        for half in halves:
            half.take(Event.LATE)
            self._unconfirmed[half.queue_offset] = error
        for half in halves:
            waiting, half.waiting = half.waiting, None
            for tell in waiting or ():
                tell(half, error)

    def _stored_late(self, halves: list[OpenHalf], error: StoreError | None) -> None:
        """``_stored`` of halves whose senders were told; some of them may have been ended meanwhile."""
        for half in halves:
            del self._unconfirmed[half.queue_offset]
        undecided = [half for half in halves if half.state is State.UNCONFIRMED]
        for half in undecided:
            half.take(Event.DURABLE if error is None else Event.FAILED)
        if error is None:
            self.counts.halves += len(halves)
            self.checks.watch([half for half in halves if half.state is _OPEN])
        else:
            for half in undecided:
                self.table.remove(half)

    def _stored(self, halves: list[OpenHalf], error: StoreError | None) -> None:
        if self._unconfirmed and halves[0].queue_offset in self._unconfirmed:
            self._stored_late(halves, error)
            return
        if error is None:
            self.counts.halves += len(halves)
            for half in halves:
                if half.state is not _STORING:
                    raise InvariantViolated("a half becomes durable once")
                half.state = _OPEN
            self.checks.watch(halves)
        else:
            for half in halves:
                half.take(Event.FAILED)
                self.table.remove(half)
        for half in halves:
            waiting, half.waiting = half.waiting, None
            for then in waiting or ():
                then(half, error)

    def producer_joined(self, group: str) -> None:
        """Call when a producer registered for ``group``: what waited for one is checked at once."""
        self.checks.producer_joined(group)

    def client_came(self, client_id: str, client: Client) -> None:
        """Call when a connection said whose it is, ahead of ``producer_joined``."""
        self._lost_senders.client_came(client_id, client)

    def client_gone(self, client: Client) -> None:
        """Call once for every connection that ended, while ``producers`` still knows it."""
        self._lost_senders.client_gone(client)
        self.checks.client_gone(client)

    def oldest_open_log_offset(self) -> LogOffset | None:
        """Log offset of the oldest undecided half message; retention must not pass it. None when none is open."""
        half = self.table.oldest()
        return None if half is None else LogOffset(half.log_offset)

    def _make_parked_topic(self) -> None:
        """With the first parked half message, as Apache's brokers do: tools read parked messages through this topic."""
        try:
            self._topics.ensure(PARKED, 1)
        except StoreError as error:
            # A half must be parked all the same; the topic is made with the next one, or at the next start.
            log.warning("the topic %s could not be made: %s", PARKED, error)

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        slot = len(self._timers)

        def again() -> None:
            self._timers[slot] = self._clock.call_later(seconds, again)
            work()

        self._timers.append(self._clock.call_later(seconds, again))

    def _save_decisions(self) -> None:
        now = self._clock.monotonic()
        if now >= self._decisions_due:
            self._decisions_due = now + DECISIONS_INTERVAL_S * (self.table.decisions.size >> 20)
            self._file.save_later(self.table)

    def _commit_offsets(self) -> None:
        """Say how far an Apache broker may skip: to the oldest open half, and to the first op behind it."""
        half_end = self._store.queue_range(HALF, HALF_QUEUE_ID)[1]
        half = self.table.first_needed(half_end)
        if not half_end:
            return  # a group without offsets, where there was no transaction yet
        self._offsets.commit(TRANSACTION_GROUP, HALF, HALF_QUEUE_ID, half)
        self._offsets.commit(TRANSACTION_GROUP, OP, HALF_QUEUE_ID, self.first_op_behind(half))

    def first_op_behind(self, half_queue_offset: int) -> int:
        """The first op that lies behind a half in the log: no earlier one can name it."""
        low, high = self._store.queue_range(OP, HALF_QUEUE_ID)
        half = self._store.entry(HALF, HALF_QUEUE_ID, half_queue_offset)
        if half is None:
            return high
        while low < high:
            middle = (low + high) // 2
            op = self._store.entry(OP, HALF_QUEUE_ID, middle)
            if op is not None and op.log_offset > half.log_offset:
                high = middle
            else:
                low = middle + 1
        return low


_IMMUNITY: Final = "CHECK_IMMUNITY"
"""In the names of both properties about it: a half with neither costs one look."""
