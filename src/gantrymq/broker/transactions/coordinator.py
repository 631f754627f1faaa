"""Coordinates the transactions of a broker: it stores half messages, ends them, checks them, and restores them after a
restart. The tables in ``gantrymq.transactions`` make the decisions; this module carries them out.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from gantrymq.broker.client import Client
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.checks import TransactionChecks
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.transactions.derived_files import DerivedFiles
from gantrymq.broker.transactions.end import EndOperation
from gantrymq.broker.transactions.end_many import EndManyOperation
from gantrymq.broker.transactions.endings import TransactionEndings, end_after
from gantrymq.broker.transactions.half_runs import HalfRuns, RunDone
from gantrymq.broker.transactions.history import DIRECTORY, TransactionHistory
from gantrymq.broker.transactions.lost_senders import LostSenders
from gantrymq.broker.transactions.parked import ParkedMessages
from gantrymq.broker.transactions.ports import OffsetBook, ProducerGroups, TopicLookup
from gantrymq.errors import InvariantViolated, MessageIllegal, StoreError
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset
from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.protocol.hosts import host_text
from gantrymq.protocol.stored_message import Birth, decode_record
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.store.log.appender import RunItem
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.room import Use
from gantrymq.store.values import NewRecord, Placement
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.decisions_ahead import DecisionsAhead
from gantrymq.transactions.history.events import EventKind
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.rebuild import rebuild
from gantrymq.transactions.records.half import (
    HALF_QUEUE_ID,
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
        self._appender = store.appender
        self._safety = store.safety
        self._producers = producers
        self._topics = topics
        self._clock = clock
        self._config = config
        self._host = broker_host
        self._files = DerivedFiles(store, offsets, clock, disk)
        self.counts: Final = TransactionCounts()
        self.history: Final = TransactionHistory(disk, clock, store.path(DIRECTORY))
        self.parked: Final = ParkedMessages(store, clock)
        self._unconfirmed: dict[int, Unconfirmed] = {}
        """By half queue offset: halves that are not safe and whose senders were told so."""
        self._take(TransactionTable(DecisionLog(store.queue_range(HALF, HALF_QUEUE_ID)[0])))
        store.room.need = lambda: self.table.bytes_to_end()

    def _take(self, table: TransactionTable) -> None:
        self.table = table
        self._endings = TransactionEndings(
            self._store,
            table,
            self._clock,
            self.counts,
            self._host,
            self._make_parked_topic,
            self.history,
            self._config.op_message_bytes,
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
        self._runs = HalfRuns(self._store, table, self.checks, self.counts, self._unconfirmed, self._stored, self._late)
        self.ends = EndOperation(
            self._store,
            table,
            self._endings,
            self._topics,
            self._producers.is_member,
            self.checks,
            self.counts,
            self.history,
        )
        self.ends_many = EndManyOperation(
            self._store, table, self._endings, self._topics, self._producers.is_member, self.ends
        )

    def rebuild(self, ahead: DecisionsAhead | None = None) -> None:
        """Learn from the store which transactions are open. Call once, before the broker listens. ``ahead``: what a
        replica has read of the log already.

        A transaction whose message was delivered or parked without its op message gets it now.
        """
        saved = self._files.decisions() if ahead is None else ahead.saved()
        found = rebuild(self._store, self._config, saved, self._files.notes(), resolved=ahead is None)
        if ahead is not None or not found.from_file:
            self._files.discard_decisions()
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
        self.checks.watch(found.table, anew=self._config.promoted)
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
        self._lost_senders.restarted(self.table)
        self.parked.start()
        self._files.start(self.table)

    def close(self) -> None:
        """Stop the timers and save what shortens the next start. The store must still be open."""
        self.checks.close()
        self.parked.close()
        self._lost_senders.close()
        self._files.close(self.table)
        self.history.close()

    def doubt(self) -> None:
        """Decisions that are in the log were called not stored: the table is not written any more."""
        self._files.doubt()

    def put_half(self, record: NewRecord, group: str, unique_key: str, done: Waiting) -> None:
        """Store a half message; ``done(half, error)`` is called when it is safe, or could not be made so, or with
        Unconfirmed when it is not safe within the time its sender waits; then it can be ended all the same.

        ``half.queue_offset`` and ``half.log_offset`` are what the client is answered with. A retry of a send whose
        half is still undecided joins it: nothing is stored, and the answer names the first one. ``record``: the
        message as it would be stored were it no transaction; its properties end with a separator, and what only a
        broker may set is not among them (``operations.send_half``).

        Raises MessageIllegal for another message under the key of an open one, StoreUnavailable when the store takes
        no writes; then ``done`` is not called.
        """
        half = self.table.to_join(group, unique_key)
        if half is not None:
            self._join(half, record.topic, record.body, record.properties, record.born_host, done)
            return
        text = record.properties
        birth = (
            record.born_timestamp, record.born_host, record.flag, record.sys_flag & ~_TRANSACTION_FLAGS,
            record.reconsume_times,
        )  # fmt: skip
        stored_text = with_real_place(text, record.topic, record.queue_id, unique_key)
        place = self._appender.append_plain(
            HALF, HALF_QUEUE_ID, record.body, stored_text, birth, unique_key, record.tags_code
        )
        self._open(
            place, text, record.born_host, group, unique_key, record.topic, record.queue_id, done, record.tags_code
        )

    def put_run(
        self, topic: str, queue_id: int, group: str, items: Sequence[RunItem], common: str, birth: Birth, done: RunDone
    ) -> bool:
        """See ``operations.half_messages.HalfMessages``."""
        return self._runs.put(topic, queue_id, group, items, common, birth, self._config.timeout_ms, done)

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
        self.history.note(EventKind.JOINED, half.place, peer=host_text(born_host))
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
        self._store.room.check(Use.COPY)
        (place,) = self._store.append((stored,))
        self._open(
            place, stored.properties, stored.born_host, fields.group, fields.unique_key, fields.real_topic,
            fields.real_queue_id, done,
        )  # fmt: skip

    def _has_body(self, half: OpenHalf, body: bytes) -> bool:
        """Whether it is the body of a half; what cannot be read yet is not doubted."""
        stored = decode_record(half.record) if half.record is not None else self._store.read(half.log_offset)
        return stored is None or stored.body == body

    def _open(
        self, place: Placement, text: str, born_host: bytes, group: str, unique_key: str, real_topic: str,
        real_queue_id: int, done: Waiting, tags_code: int | None = None,
    ) -> None:  # fmt: skip
        """A half message with the properties ``text`` was appended at ``place``."""
        immunity, decisive = 0, False
        if _IMMUNITY in text:
            immunity = immunity_ms(properties.find(text, properties.CHECK_IMMUNITY_SECONDS), 0)
            decisive = has_decisive_checkers(text, group)
        half = OpenHalf(
            place.queue_offset, place.log_offset, group, unique_key, real_topic, real_queue_id, place.store_timestamp,
            immunity or self._config.timeout_ms, _STORING, immunity, (), None, [done], tags_code=tags_code,
            size=place.size,
        )  # fmt: skip
        self.table.add(half, place.data)
        self._safety.tell(place.log_offset + place.size, self._stored, half, self._late)
        if decisive:
            half.sender = properties.find(text, properties.SENDING_CLIENT) or ""
            self._lost_senders.sent(half, born_host)

    def _late(self, half: OpenHalf, error: Unconfirmed) -> None:
        """The sender of this half waits no longer."""
        half.take(Event.LATE)
        self._unconfirmed[half.queue_offset] = error
        _tell(half, error)

    def _stored(self, half: OpenHalf, error: StoreError | None) -> None:
        if self._unconfirmed and half.queue_offset in self._unconfirmed:
            self._stored_late(half, error)
            return
        if half.state is not _STORING:
            raise InvariantViolated("a half becomes durable once")
        if error is None:
            self.counts.halves += 1
            half.state = _OPEN
            self.checks.watch((half,), anew=self._safety.has_conditions)
        else:
            half.take(Event.FAILED)
            self._remove(half)
        _tell(half, error)

    def _stored_late(self, half: OpenHalf, error: StoreError | None) -> None:
        """``_stored`` of a half whose sender was told; it may have been ended meanwhile."""
        del self._unconfirmed[half.queue_offset]
        undecided = half.state is State.UNCONFIRMED
        if undecided:
            half.take(Event.DURABLE if error is None else Event.FAILED)
        if error is None:
            self.counts.halves += 1
            if undecided:
                self.checks.watch((half,))
        elif undecided:
            self._remove(half)

    def _remove(self, half: OpenHalf) -> None:
        self.table.remove(half)
        self._lost_senders.not_stored(half)

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


def _tell(half: OpenHalf, error: StoreError | None) -> None:
    """Call everybody who waits for the write of a half."""
    waiting, half.waiting = half.waiting, None
    if waiting is not None:
        for then in waiting:
            then(half, error)


_TRANSACTION_FLAGS: Final = flags.TRANSACTION_MASK
_IMMUNITY: Final = "CHECK_IMMUNITY"
"""In the names of both properties about it: a half with neither costs one look."""
