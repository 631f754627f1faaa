"""Check-back: asks producers about half messages that are due, and parks those that nobody decides."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from gantrymq.broker.client import Check, Client, Connection
from gantrymq.broker.transactions.check_schedule import ChangedTimes, CheckSchedule, CheckTurns
from gantrymq.broker.transactions.counts import TransactionCounts
from gantrymq.broker.transactions.endings import TransactionEndings
from gantrymq.broker.transactions.history import TransactionHistory
from gantrymq.broker.transactions.ports import ProducerGroups
from gantrymq.errors import CorruptRecord, StoreError
from gantrymq.protocol.stored_message import pack_host
from gantrymq.runtime.clock import Clock
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.check_message import message_of_record, message_to_check, store_host_of
from gantrymq.transactions.records.half import read_half
from gantrymq.transactions.records.half_copies import HalfReading
from gantrymq.transactions.rules.check_policy import CheckAction, Immunity, decide
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause, Decision
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable

log = logging.getLogger("gantrymq.transactions")

FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 60.0
"""While no member of the group is online, or the store refuses to park. A member that joins is asked at once."""

BUSY_RETRY_S: Final = 0.5
"""Until the next try when the only producers online do not read what they were sent."""

EARLY_ANSWER_MIN_S: Final = 1.0
"""The answer to a check that was sent early is waited for until the immunity ends, and at least so long."""

ASKED_AGAIN_AT_ONCE: Final = 3
"""Checks of one half that are sent again the moment the connection of whoever was asked closes. After that the deadline
of the answer counts: a half whose check ends the process that looks at it must not end one sibling after the other."""

AGE_LIMIT_GRACE_S: Final = 600.0
"""After its start a broker parks nothing for its age: producers must have had time to connect and answer."""

WARN_INTERVAL_S: Final = 60.0
"""Between two warnings about one group."""


class TransactionChecks:
    """Looks at each open half exactly when it is due, with one timer for all of them."""

    def __init__(
        self,
        store: HalfStore,
        table: TransactionTable,
        endings: TransactionEndings,
        producers: ProducerGroups,
        clock: Clock,
        config: TransactionConfig,
        counts: TransactionCounts,
        history: TransactionHistory,
    ) -> None:
        self._history = history
        self._store = store
        self._table = table
        self._endings = endings
        self._producers = producers
        self._clock = clock
        self.config = config
        self._counts = counts
        self._schedule = CheckSchedule(table, store, clock, self._look_at)
        self._times = ChangedTimes(config, store, clock, self._schedule.put)
        self._reading = HalfReading(store)
        self._turns = CheckTurns(table, producers)
        self._without_producer: dict[str, set[int]] = {}
        """Halves that were due while nobody of their group was online, by group."""
        self._asked: dict[int, int] = {}
        """Half queue offset of each check that waits for its answer to the id of the client that was asked."""
        self._warned_at: dict[str, float] = {}
        self._started_at = clock.monotonic()

    def start(self) -> None:
        """Begin to check; half messages that are overdue are checked at once."""
        self._started_at = self._clock.monotonic()
        self._schedule.start()

    def reconfigure(self, config: TransactionConfig) -> None:
        """Use other settings from now on; they apply to open half messages, too."""
        self.config = config
        self._times.changed(config, self._table)

    def close(self) -> None:
        self._times.close()
        self._schedule.close()

    def watch(self, halves: Iterable[OpenHalf], *, anew: bool = False) -> None:
        """Look at halves when their immunity ends. ``anew``: all of it is counted from now on."""
        self._schedule.watch(halves, anew=anew)

    def watch_run(self, halves: Sequence[OpenHalf], *, anew: bool = False) -> None:
        """``watch`` of halves that were stored together."""
        self._schedule.watch_run(halves, anew=anew)

    def sender_gone(self, half: OpenHalf) -> None:
        """The sender of a half message with decisive checkers is gone: another member of its group may be asked now."""
        if half.state is State.OPEN and not half.answer_deadline:
            self._schedule.put(half, self._clock.monotonic())

    def sender_back(self, half: OpenHalf) -> None:
        """The sender came back: nobody is asked about the half until its immunity ends. A check that was sent is not
        called back."""
        self._times.fit(half)
        if half.state is State.OPEN and not half.answer_deadline and self._clock.monotonic() < half.immune_until:
            self._schedule.put(half, half.immune_until)

    def client_gone(self, client: Client) -> None:
        """A connection ended: checks sent there may not have arrived, or cannot be answered. Ask another member."""
        for queue_offset in [offset for offset, asked in self._asked.items() if asked == client.id]:
            half = self._table.get(queue_offset)
            if half is None:
                del self._asked[queue_offset]
                continue
            self._history.left(half, client.address)
            self.answered(half)
            if half.times_asked <= ASKED_AGAIN_AT_ONCE and half.state is State.OPEN:
                self._schedule.put(half, self._clock.monotonic())

    def producer_joined(self, group: str) -> None:
        """A producer of the group is online: ask about all halves that waited for one."""
        waiting = self._without_producer.pop(group, None)
        if waiting:
            self._schedule.wake(deque(sorted(waiting)))

    def answered(self, half: OpenHalf) -> None:
        """The check of a half needs no answer any more: the half that has waited longest is asked about now."""
        half.answer_deadline = 0.0
        self._asked.pop(half.queue_offset, None)
        following = self._turns.give_back(half)
        if following is not None:
            self._schedule.put(following, self._clock.monotonic())

    def was_asked(self, half: OpenHalf, client: Client) -> bool:
        """Whether the check of the half that waits for its answer was sent there."""
        return self._asked.get(half.queue_offset) == client.id

    def is_early(self, half: OpenHalf) -> bool:
        """Whether the half is immune, so that only its decisive checkers may be asked."""
        return self._clock.monotonic() < half.immune_until

    def _look_at(self, half: OpenHalf, now: float) -> None:
        self._times.fit(half)
        # Not by the wall clock: one that is set forward must not make a half old that was stored a minute ago.
        age_ms = (now - half.immune_until) * 1000 + half.immunity_ms
        immunity = Immunity.OVER
        if now < half.immune_until:
            immunity = Immunity.WAIVED if half.sender_gone else Immunity.LASTS
        outstanding = now < half.answer_deadline
        if half.answer_deadline and not outstanding:
            self._counts.checks_unanswered += half.state is State.OPEN
            self.answered(half)
        may_ask = half.state is State.OPEN and immunity is not Immunity.LASTS and not outstanding
        # Each check of a half message goes to another member than the one before. In turn over all half messages, it
        # would not: of an even number that are checked together, each one always meets the same of two members.
        turn = half.queue_offset + half.times_asked
        producer = self._producers.pick(half.group, turn, half.real_topic) if may_ask else None
        too_old = (
            age_ms > self.config.reserved_hours * 3_600_000 and now - self._started_at >= AGE_LIMIT_GRACE_S
        )  # fmt: skip
        action = decide(
            half.state, immunity, outstanding, half.unknown_answers >= self.config.check_max, too_old,
            half.times_asked > 0, producer is not None, self._turns.is_crowded(half),
        )  # fmt: skip
        if action is CheckAction.CHECK and producer is not None:
            self._ask(half, producer, now)
            return
        if not outstanding:
            self.answered(half)
        if action is CheckAction.WAIT_TURN:
            self._turns.wait(half)
            self._schedule.put(half, now + self._interval_s)
        elif action is CheckAction.NOBODY_ONLINE:
            self._wait_for_producer(half, now)
        elif action is CheckAction.PARK_UNKNOWN or action is CheckAction.PARK_OLD:
            self._park(half, action)
        elif action is CheckAction.WAIT_IMMUNITY:
            self._schedule.put(half, half.immune_until)
        elif action is CheckAction.WAIT_ANSWER:
            self._schedule.put(half, half.answer_deadline)
        elif action is CheckAction.COME_BACK:
            self._schedule.put(half, now + self._interval_s)

    @property
    def _interval_s(self) -> float:
        return self.config.check_interval_ms / 1000

    def _ask(self, half: OpenHalf, producer: Connection, now: float) -> None:
        early = now < half.immune_until
        try:
            check = self._check(half, early=early)
        except CorruptRecord as error:
            # As at a start without notes, which reads every open half.
            log.error(
                "half message %d is quarantined, it will be neither checked nor delivered: %s", half.queue_offset, error
            )
            self.answered(half)
            self._counts.quarantined += 1
            self._table.end(half, Decision.QUARANTINED)
            return
        producer.ask(check)
        half.times_asked += 1
        half.looked_in_vain = 0
        half.answer_deadline = now + self._interval_s
        if early:
            # Who answers UNKNOWN that early is asked again when an ordinary half would be.
            half.answer_deadline = min(half.answer_deadline, max(half.immune_until, now + EARLY_ANSWER_MIN_S))
            self._counts.early_checks += 1
        self._asked[half.queue_offset] = producer.id
        self._turns.take(half)
        self._counts.checks_sent += 1
        self._history.checked(half, producer.address, detail=int(early))
        self._schedule.put(half, half.answer_deadline)

    def _check(self, half: OpenHalf, *, early: bool) -> Check:
        """The question about a half. Raises CorruptRecord when the log does not hold the half any more."""
        queue_offset, log_offset = half.newest()
        times_asked = half.times_asked + 1
        record = b"" if early else self._reading.record(queue_offset)
        message = record and message_of_record(
            record, queue_offset, log_offset, half.group, half.real_topic, half.real_queue_id, times_asked
        )
        if message:
            store_host = store_host_of(record)
        else:
            stored = self._store.read(log_offset)
            if stored is None:
                raise CorruptRecord(log_offset, "an open half message is no longer there")
            store_host = pack_host(stored.store_host)
            message = message_to_check(stored, read_half(stored), times_asked, early=early)
        return Check(
            half.group, half.unique_key, queue_offset, log_offset, half.real_topic, half.real_queue_id, times_asked,
            early, self.config.broker_name, store_host, message,
        )  # fmt: skip

    def _wait_for_producer(self, half: OpenHalf, now: float) -> None:
        if self._producers.members(half.group):  # online, but not reading what it was sent
            self._schedule.put(half, now + BUSY_RETRY_S)
            return
        self._counts.nobody_online += 1
        waiting = self._without_producer.setdefault(half.group, set())
        waiting.add(half.queue_offset)
        if not half.looked_in_vain:
            self._history.nobody_online(half)
        self._schedule.put(half, now + _backoff_s(half.looked_in_vain))
        half.looked_in_vain += 1
        if now >= self._warned_at.get(half.group, -WARN_INTERVAL_S) + WARN_INTERVAL_S:
            self._warned_at[half.group] = now
            log.warning(
                "%d half message(s) of producer group %s wait to be checked, and no producer of the group is online; "
                "start one that can say how they ended", len(waiting), half.group,
            )  # fmt: skip

    def _park(self, half: OpenHalf, action: CheckAction) -> None:
        reason = "too old" if action is CheckAction.PARK_OLD else f"{half.unknown_answers} checks were answered UNKNOWN"
        log.warning(
            "parking half message %d of group %s, topic %s, key %s: %s",
            half.queue_offset, half.group, half.real_topic, half.unique_key, reason,
        )  # fmt: skip
        try:
            cause = Cause.TOO_OLD if action is CheckAction.PARK_OLD else Cause.UNKNOWN_ANSWERS
            self._endings.park(half, self._parked, cause)
        except StoreError as error:
            self._parked(half, error)

    def _parked(self, half: OpenHalf, error: StoreError | None) -> None:
        if error is not None and not isinstance(error, Unconfirmed):
            log.error("parking half message %d failed, it stays open: %s", half.queue_offset, error)
            self._schedule.put(half, self._clock.monotonic() + _backoff_s(half.looked_in_vain))
            half.looked_in_vain += 1


def _backoff_s(tries: int) -> float:
    return min(FIRST_BACKOFF_S * (1 << min(tries, 10)), MAX_BACKOFF_S)
