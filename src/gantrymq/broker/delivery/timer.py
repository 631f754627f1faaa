"""Delivers timer messages in the second they are due. Source: TimerMessageStore; docs/store.md#timer-files.

A timer message waits in queue 0 of the timer topic. *Enqueue* follows that queue and notes each message in the timer
log under its slot; *dequeue* reads a slot when its time is over and appends its messages under their real topics. Both
run on the loop; the files are Apache's, so either broker goes on where the other stopped.

After a crash nothing is lost: the queue is in the log, and how far it was noted follows from the last unit. Of the
slots since the last ``timercheck`` what has its copy in the log is not delivered again (``delivered``).

Slots are times of the *timer*: the wall clock at its start, and from then on it runs evenly. It never goes back, also
not over a restart. So a message waits as long as it was told to, whatever the wall clock does meanwhile, and a slot
that was delivered is never used again. ``slot_of`` turns the time that a sender asks for into one of them.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.broker.delivery.delivered import NOWHERE, Delivered, Delivering
from gantrymq.broker.delivery.timer_counts import TimerCounts
from gantrymq.broker.delivery.timer_recovery import (
    behind_last_unit,
    first_copy,
    known_units,
    last_with_copies,
    time_at_start,
)
from gantrymq.broker.delivery.timer_rules import Name, TimerRules, delivery, is_order, name_of, withdrawn_by
from gantrymq.errors import StoreError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import TIMER
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk, Syncable
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.dispatch import Pending
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Use
from gantrymq.store.timer_log import DELETE, TimerCheck, TimerCheckFile, TimerLog, Unit
from gantrymq.store.values import NewRecord

log = logging.getLogger("gantrymq.broker")

BATCH_MAX: Final = 128
"""Messages noted or delivered in one go; in between others have their turn."""
BATCH_MAX_BYTES: Final = 4 * 1024 * 1024
RETRY_SECONDS: Final = 1.0
"""Pause after the store refused a write."""
SYNC_SECONDS: Final = 1.0
"""Between two syncs of the timer log (timerFlushIntervalMs)."""
NOTED_MS: Final = 1_000
"""A message that comes so long behind the last note of the time of the timer makes a new one."""
MAX_TIMER_SECONDS: Final = 60.0
"""A timer never sleeps longer: the time in which the machine slept counts, and timers of the loop do not count it."""
CHECK_FILE: Final = "config/timercheck"
TIMER_LOG: Final = "timerlog"
WHEEL_FILE: Final = "timerwheel"


@dataclass(slots=True)
class _Slot:
    """The slot that is being delivered."""

    time_ms: int
    units: list[Unit]
    withdrawn: set[Name]
    rolled: dict[tuple[Name, int, int], int]
    """Name, time of birth and kind of a rolled message to its first place: a crash while it was rolled leaves two."""
    position: int = 0
    """How many units are done."""
    begin: int = NOWHERE
    """Log offset of its first copy."""
    end: int = 0
    """Log offset behind its last copy."""


class TimedDelivery:
    """Built by the broker behind the store; ``start`` ... ``close`` before the store."""

    def __init__(
        self, store: MessageStore, clock: Clock, disk: Disk, rules: TimerRules, file_size: int,
        time: SteadyTime | None = None, delivered: Delivered | None = None,
    ) -> None:  # fmt: skip
        """Raises StoreFormatUnknown when the timer log is not what ``mappedFileSizeTimerLog`` says, or DiskFull.

        ``delivered``: what was delivered behind ``timercheck``; None: nothing is known of that.
        """
        self._store = store
        self._clock = clock
        self._time = SteadyTime(clock, lambda: store.appended) if time is None else time
        self._ahead_ms = 0
        """How far the time of the timer is ahead of ``_time``."""
        self._delivered_file = delivered
        self._noted = None if delivered is None else delivered.noted
        self._copies: dict[int, int] = {} if delivered is None else delivered.copies
        """What had its copy at the start, by log offset; empty as soon as the slots of before the start are done."""
        self._noted_at = (0, 0)
        """The time of the timer in the file, and how often the clock had stepped."""
        self._uncounted: deque[_Slot] = deque()
        """Slots that are done, and whose copies may not be on the disk."""
        self._disk = disk
        self._rules = rules
        self._file = TimerCheckFile(disk, store.path(CHECK_FILE))
        self.check: TimerCheck = self._file.read()
        """What is written down."""
        self._log = TimerLog(disk, store.path(TIMER_LOG), file_size, rules.precision_ms)
        self._timer: Timer | None = None
        self._sync_timer: Timer | None = None
        self._syncing: list[Syncable] = []
        """Files that a background sync has in hand."""
        self._slot: _Slot | None = None
        self._needed: int | None = None
        """Queue offset up to which messages must be noted before the next slot is delivered."""
        self._enqueuing = self._running = self._stopping = False
        self._failing = False
        """Whether the last attempt to deliver was refused by the store."""
        self._slot_ended: asyncio.Future[None] | None = None
        self.counts: Final = TimerCounts()
        self._recover()
        self._heap = sorted(self._log.slots)
        self._copies_until_ms = last_with_copies(self._log, self._copies, self.now_ms())
        self._copies_from = first_copy(self._store, self._log, self._copies, self._next)
        if delivered is not None:
            delivered.parts.append(Delivering(self.settle, self.held_from, self._write_fields))

    # ---- start and end

    def _recover(self) -> None:
        before = self.check
        noted = self._noted
        first, end = self._store.queue_range(TIMER, 0)
        if noted is not None:
            before.read_ms = max(before.read_ms, noted.timer_read_ms)
        if before.read_ms == 0 and first == end:
            before.read_ms = self._rules.floor(self.now_ms())
        self._log.recover(before.read_ms, known_units(self._store))
        self._next = max(behind_last_unit(self._store, self._log.last), first)
        """Queue offset of the first message that is not in the timer log."""
        wall_ms = self._time.now_ms()
        known = noted if self._log.slots or self._next < end else None
        self._ahead_ms = time_at_start(wall_ms, before.read_ms, known, self._log.last) - wall_ms
        self._read_ms = before.read_ms
        """First slot that is still to be delivered."""
        self._done_before = TimerCheck(before.read_ms, min(before.queue_offset, end))
        before.queue_offset = self._next
        self._file.write(before)
        wheel = self._store.path(WHEEL_FILE)
        if self._disk.exists(wheel):
            # What Apache's broker has there would not fit any more. First the check file, by which it makes a new one.
            self._file.file.sync()
            self._disk.remove(wheel)

    def start(self) -> None:
        """Deliver all messages that are due, and continue to do so."""
        self._running = True
        self._store.arrivals_of(TIMER).append(self._arrived)
        self._enqueue_soon()
        self._look()

    async def stop(self) -> None:
        """Begin no further slot, and return when the current one is delivered or has failed."""
        self._stopping = True
        while self._slot is not None and self._running and not self._failing:
            self._slot_ended = asyncio.get_running_loop().create_future()
            await self._slot_ended

    def _tell_slot_ended(self) -> None:
        if self._slot_ended is not None and not self._slot_ended.done():
            self._slot_ended.set_result(None)

    def close(self) -> None:
        """Stop, and make durable how far everything is. The store must still be open; raises StoreError."""
        self._running = False
        self.settle(self._store.flushed)
        for timer in (self._timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        # A slow disk may not have begun with what it was given, and finds the files closed then.
        for file in dict.fromkeys((*self._syncing, *self._log.unsynced(), self._file.file)):
            file.sync()
        self._log.close()
        self._file.file.close()

    # ---- what others ask

    def now_ms(self) -> int:
        """The time of the timer, ms since 1970."""
        return self._time.now_ms() + self._ahead_ms

    @property
    def idle(self) -> bool:
        """Whether no message waits."""
        return not self._log.slots and self._slot is None and self._next >= self._store.queue_range(TIMER, 0)[1]

    @property
    def waiting(self) -> Counter[int]:
        """Hash of a topic to how many of its messages wait."""
        return self._log.waiting

    @property
    def by_slot(self) -> Counter[int]:
        """Time of a slot in ms to how many messages wait in it."""
        return self._log.by_slot

    def not_noted(self) -> tuple[int, int]:
        """How many messages of the timer topic are not noted yet, and for how long (ms) the first of them waits."""
        end = self._store.queue_range(TIMER, 0)[1]
        stored = self._store.store_time(TIMER, 0, self._next) if self._next < end else None
        return max(0, end - self._next), 0 if stored is None else max(0, self._clock.wall_ms() - stored)

    def oldest_log_offset(self) -> int | None:
        """Of the oldest message that still waits; retention must not pass it. None when none does."""
        return self._log.oldest(self.check.read_ms)

    def drop_old(self) -> None:
        """Remove files of the timer log whose messages retention has removed."""
        self._log.drop_before(self._store.min_log_offset)

    # ---- enqueue

    def _arrived(self, topic: str, queue_id: int, records: Sequence[Pending]) -> None:
        if topic == TIMER:
            self._enqueue_soon()

    def _enqueue_soon(self) -> None:
        if not self._enqueuing and self._running:
            self._enqueuing = True
            self._clock.call_soon(self._enqueue)

    def _enqueue(self) -> None:
        """Note the next messages of the timer topic."""
        self._enqueuing = False
        if not self._running:
            return
        end = self._store.queue_range(TIMER, 0)[1]
        if self._next >= end:
            return
        found = self._store.get(TIMER, 0, self._next, BATCH_MAX, BATCH_MAX_BYTES)
        if found.next_offset <= self._next:
            log.error("message %d of the timer topic cannot be read and is skipped", self._next)
            found.next_offset = self._next + 1
        waiting = [
            (message, unit) for message in scan(found.data, check=False) if (unit := self._unit(message)) is not None
        ]
        units = [unit for _, unit in waiting]
        new = {unit.time_ms for unit in units} - self._log.slots.keys()
        try:
            if units:
                self._log.append(units)
                self.counts.noted(waiting)
            self._note(self.check.read_ms, found.next_offset)
        except (StoreError, OSError) as error:
            log.error("timer messages cannot be added to the timer log, trying again: %s", error)
            self._clock.call_later(RETRY_SECONDS, self._enqueue_soon)
            return
        self._next = found.next_offset
        noted_ms, steps = self._noted_at
        if self._delivered_file is not None and (self.now_ms() - noted_ms >= NOTED_MS or steps != self._time.steps):
            # A machine that loses its power may come back with any time. The last note is where the timer goes on.
            self._delivered_file.note()
        for slot in new:
            heapq.heappush(self._heap, slot)
        if new or self._needed is not None:
            self._look()
        if self._next < end:
            self._enqueue_soon()

    def _unit(self, message: StoredMessage) -> Unit | None:
        unit = self._rules.unit_of(message, self.now_ms(), self._read_ms)
        if unit is None:
            log.error("message %d of the timer topic does not say when it is due: skipped", message.queue_offset)
            return None
        done = self._done_before
        if message.queue_offset < done.queue_offset:
            # Its unit was lost with the timer log. That it was delivered follows from the check file.
            out = int(properties.find(message.properties_text, properties.TIMER_OUT_MS) or 0)
            if out < done.read_ms:
                return None
        return unit

    # ---- dequeue

    def _look(self) -> None:
        if self._slot is not None:  # it looks when it is delivered; the timer may be that of its next attempt
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._running or self._stopping or not self._heap:
            return
        wait_ms = self._heap[0] + self._rules.precision_ms - self.now_ms()
        if wait_ms > 0:
            self._set_timer(min(wait_ms / 1000, MAX_TIMER_SECONDS), self._look)
            return
        if not self._caught_up():
            return
        time_ms = heapq.heappop(self._heap)
        units = self._log.units(time_ms)
        # From here on nothing joins this slot.
        self._read_ms = max(self._read_ms, time_ms + self._rules.precision_ms)
        if time_ms > self._copies_until_ms:
            self._copies = {}
        self._slot = _Slot(time_ms, units, self._withdrawn(units), {})
        self._step()

    def _caught_up(self) -> bool:
        """Whether all is noted that was there when the slot became due: an order to forget some of it may be there."""
        if self._needed is None:
            self._needed = self._store.queue_range(TIMER, 0)[1]
        if self._next < self._needed:
            self._enqueue_soon()
            return False
        self._needed = None
        return True

    def _set_timer(self, seconds: float, call: Callable[[], None]) -> None:
        self._timer = self._clock.call_later(seconds, call)

    def _withdrawn(self, units: list[Unit]) -> set[Name]:
        orders = (self._store.read(unit.log_offset) for unit in units if is_order(unit))
        return {withdrawn_by(order) for order in orders if order is not None}

    def _step(self) -> None:
        """Deliver the next messages of the slot."""
        self._timer = None
        slot = self._slot
        if slot is None or not self._running:
            return
        position, records = self._batch(slot)
        if not records:
            self._finish(slot)
            return
        try:
            self._store.room.check(Use.COPY)
            placements = self._store.append(records)
        except StoreError as error:
            self._failed(error)
            return
        begin, end = placements[0].log_offset, placements[-1].end
        slot.begin = min(slot.begin, begin)
        self._store.safety.when_safe(end, lambda error: self._stepped(slot, position, end, error))

    def _batch(self, slot: _Slot) -> tuple[int, list[NewRecord]]:
        """(position behind them, records to append)."""
        records: list[NewRecord] = []
        size = 0
        now_ms = self.now_ms()
        position = slot.position
        while position < len(slot.units) and len(records) < BATCH_MAX and size < BATCH_MAX_BYTES:
            unit = slot.units[position]
            position += 1
            if is_order(unit) or unit.log_offset in self._copies:
                continue
            message = self._store.read(unit.log_offset)
            if message is None:
                log.error("the timer message at log offset %d cannot be read and is skipped", unit.log_offset)
                continue
            if (slot.withdrawn and name_of(message) in slot.withdrawn) or _is_second_copy(
                message, unit, slot, position
            ):
                continue
            record = delivery(message, unit, now_ms)
            if record is None:
                log.error("the timer message at log offset %d has no usable real topic: skipped", unit.log_offset)
                continue
            records.append(record)
            size += unit.size
        return position, records

    def _stepped(self, slot: _Slot, position: int, end: int, error: StoreError | None) -> None:
        if error is not None:
            self._failed(error)
            return
        self._failing = False
        self.counts.delivered(slot.units[slot.position : position])
        slot.position, slot.end = position, end
        self._step()

    def _failed(self, error: StoreError) -> None:
        log.error("timer messages could not be delivered, trying again: %s", error)
        self._failing = True
        self._tell_slot_ended()
        if self._running:
            self._set_timer(RETRY_SECONDS, self._step)

    def _finish(self, slot: _Slot) -> None:
        self._slot = None
        self._tell_slot_ended()
        self._log.done(slot.time_ms, slot.units)
        self._uncounted.append(slot)
        self.settle(self._store.flushed)
        self._look()

    # ---- progress

    def settle(self, flushed: int) -> None:
        """Count the slots that have their copies before this log offset."""
        read_ms = self.check.read_ms
        while self._uncounted and self._uncounted[0].end <= flushed:
            read_ms = max(read_ms, self._uncounted.popleft().time_ms + self._rules.precision_ms)
        if read_ms != self.check.read_ms:
            self.check.read_ms = read_ms
            if self._delivered_file is not None:
                self._delivered_file.changed()
            try:
                self._note(read_ms, self.check.queue_offset)
            except (StoreError, OSError) as error:
                log.error("the progress of timer messages cannot be written at the moment: %s", error)
        if self._uncounted and self._running:
            self._sync_later()

    def held_from(self) -> int:
        """Log offset of the first copy that is not counted."""
        current = NOWHERE if self._slot is None else self._slot.begin
        # Copies that the start found belong to slots that are not counted yet: the next start has to find them, too.
        found = self._copies_from if self._copies else NOWHERE
        return min([current, found, *(slot.begin for slot in self._uncounted)])

    def _write_fields(self, fields: dict[str, Any]) -> None:
        now_ms = self.now_ms()
        fields["timer"] = {
            "read": self.check.read_ms, "time": now_ms, "ahead": now_ms - self._time.wall_ms()
        }  # fmt: skip
        self._noted_at = (now_ms, self._time.steps)

    def _note(self, read_ms: int, queue_offset: int) -> None:
        """Write down how far everything is; durable within a second. Raises DiskFull."""
        check = TimerCheck(read_ms, queue_offset, self._clock.wall_ms(), self.check.changes + 1)
        self._file.write(check)
        self.check = check
        self._sync_later()

    def _sync_later(self) -> None:
        if self._sync_timer is None:
            self._sync_timer = self._clock.call_later(SYNC_SECONDS, self._sync)

    def _sync(self) -> None:
        self._sync_timer = None
        if not self._running:
            return
        self.settle(self._store.flushed)
        if self._syncing:  # the disk is slow: more calls would only wait behind that one
            self._sync_later()
            return
        self._syncing = [*self._log.unsynced(), self._file.file]
        self._disk.sync_later(self._syncing, self._synced)

    def _synced(self, error: BaseException | None) -> None:
        if not self._running:
            return  # ``close`` has synced them
        self._syncing = []
        if error is not None:
            log.error("the timer log could not be synced; a power cut now would repeat deliveries: %s", error)


def _is_second_copy(message: StoredMessage, unit: Unit, slot: _Slot, position: int) -> bool:
    if properties.TIMER_ROLL_TIMES not in message.properties_text:
        return False
    # An order to forget a message has its name, and may be of the same millisecond.
    identity = (name_of(message), message.born_timestamp, unit.magic & DELETE)
    return slot.rolled.setdefault(identity, position) != position
