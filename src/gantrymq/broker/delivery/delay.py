"""Delivers delayed messages when their time has come. Source: ScheduleMessageService; docs/store.md#delay-levels.

A message of level n waits in queue n - 1 of the schedule topic; its consume-queue entry holds when it is due. Within
a level messages are due in the order they came, so each level needs one timer. A delivery counts when the copy under
the real topic is on the disk. How far each level is delivered is written every few seconds to Apache's file; what was
delivered since is found in the log at the next start (``delivered``), so that no stop and no kill repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.broker.delivery.delay_levels import real_place
from gantrymq.broker.delivery.delivered import NOWHERE, Delivered, Delivering, mark_of
from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.errors import ConfigError, StoreError
from gantrymq.message import flags, system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.hosts import pack_host
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.dispatch import Pending
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Use
from gantrymq.store.values import NewRecord

log = logging.getLogger("gantrymq.broker")

BATCH_MAX: Final = 128
"""Messages of one level delivered in one append; between two batches others have their turn."""
BATCH_MAX_BYTES: Final = 4 * 1024 * 1024
RETRY_SECONDS: Final = 1.0
"""Pause after the store refused a delivery."""
MAX_TIMER_SECONDS: Final = 60.0
"""A timer never sleeps longer: the time in which the machine slept counts, and timers of the loop do not count it."""
DELAYS_FILE: Final = "config/delayOffset.json"
PASSED_OVER_MAX: Final = 2_000
"""Messages without a copy that a start passes over while it looks for delivered ones: they could not be read."""


@dataclass(slots=True)
class _Batch:
    """Copies of one level that were appended together."""

    offset: int
    """Of the queue of the level, behind the messages that were copied."""
    begin: int
    end: int
    """Where the copies lie in the log."""
    safe: bool = False


class DelayedDelivery:
    """One cursor and one timer per level."""

    def __init__(
        self, store: MessageStore, clock: Clock, disk: Disk, path: str, delays_ms: Sequence[int],
        time: SteadyTime | None = None, delivered: Delivered | None = None,
    ) -> None:  # fmt: skip
        """Raises ConfigError when the file of the cursors is there and cannot be read.

        ``delivered``: what was delivered behind those cursors; None: nothing is known of that.
        """
        self._store = store
        self._clock = clock
        self._time = SteadyTime(clock, lambda: store.appended) if time is None else time
        self._delays_ms = delays_ms
        self._file = LazyFile(disk, path)
        self._version: dict[str, int] = {"counter": 0, "stateVersion": 0, "timestamp": clock.wall_ms()}
        self._offsets: dict[int, int] = {}
        """Level to the first queue offset that is not delivered."""
        self._timers: dict[int, Timer] = {}
        self._busy: set[int] = set()
        """Levels with a delivery that is not safe yet."""
        self._durable: dict[int, int] = {}
        """Like ``_offsets``, as far as the copies are on the disk: what the files say."""
        self._uncounted: dict[int, deque[_Batch]] = {}
        self._running = False
        self._stopping = False
        self._ended_soon: asyncio.Future[None] | None = None
        self._delivered_file = delivered
        self._load(read_json(disk, path), path)
        if delivered is not None:
            self._find_delivered(delivered)
            delivered.parts.append(Delivering(self.settle, self.held_from, self._write_fields))
        self._durable.update(self._offsets)

    def _load(self, content: dict[Any, Any] | None, path: str) -> None:
        try:
            for level, offset in ((content or {}).get("offsetTable") or {}).items():
                self._offsets[int(level)] = int(offset)
            for name, value in ((content or {}).get("dataVersion") or {}).items():
                self._version[name] = int(value)
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(f"{path} is not a table of delay offsets: {error}; repair or remove it") from error

    def _find_delivered(self, delivered: Delivered) -> None:
        """Move the cursors behind everything whose copy is in the log."""
        for level, offset in (delivered.noted.levels if delivered.noted is not None else {}).items():
            self._offsets[level] = max(offset, self._offsets.get(level, 0))
        for level in range(1, len(self._delays_ms) + 1) if delivered.copies else ():
            first, end = self._store.queue_range(system_topics.SCHEDULE, level - 1)
            offset = begin = max(self._offsets.get(level, 0), first)
            while offset < min(end, begin + PASSED_OVER_MAX):
                entry = self._store.entry(system_topics.SCHEDULE, level - 1, offset)
                offset += 1
                if entry is not None and entry.log_offset in delivered.copies:
                    self._offsets[level] = begin = offset
                    self._file.dirty = True

    def start(self) -> None:
        """Deliver all messages that are due, and continue to do so."""
        self._running = True
        self._store.arrivals_of(system_topics.SCHEDULE).append(self._arrived)
        for level in range(1, len(self._delays_ms) + 1):
            self._look(level)

    async def stop(self) -> None:
        """Begin no further delivery, and return when those under way are safe or have failed."""
        self._stopping = True
        while self._busy:
            self._ended_soon = asyncio.get_running_loop().create_future()
            await self._ended_soon

    def close(self) -> None:
        """Stop and write the cursors. The store must still be open; raises StoreError."""
        self._running = False
        self.settle(self._store.flushed)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._file.dirty:
            self._file.write(self.content())

    def content(self) -> dict[str, Any]:
        """What the file holds."""
        return {"dataVersion": dict(self._version), "offsetTable": dict(self._durable)}

    def delivered(self) -> dict[int, int]:
        """Level to the first queue offset that is not delivered, for levels that delivered something."""
        return dict(self._offsets)

    def save_later(self) -> None:
        """Write the cursors if they moved; raises StoreError when the file cannot be made."""
        self.settle(self._store.flushed)
        self._file.write_later(self.content)

    # ---- what is counted

    def settle(self, flushed: int) -> None:
        """Count what is safe and has its copies before this log offset."""
        for level, batches in self._uncounted.items():
            while batches and batches[0].safe and batches[0].end <= flushed:
                self._count(level, batches.popleft().offset)

    def held_from(self) -> int:
        """Log offset of the first copy that is not counted."""
        return min((batches[0].begin for batches in self._uncounted.values() if batches), default=NOWHERE)

    def _write_fields(self, fields: dict[str, Any]) -> None:
        fields["levels"] = {str(level): offset for level, offset in self._durable.items()}

    def _count(self, level: int, offset: int) -> None:
        if offset > self._durable.get(level, 0):
            self._durable[level] = offset
            self._version["counter"] += 1
            self._version["timestamp"] = self._clock.wall_ms()
            self._file.dirty = True
            if self._delivered_file is not None:
                self._delivered_file.changed()

    # ---- delivering

    def _arrived(self, topic: str, queue_id: int, records: Sequence[Pending]) -> None:
        level = queue_id + 1
        if topic == system_topics.SCHEDULE and level not in self._timers and level not in self._busy:
            self._set_timer(level, 0.0)

    def _set_timer(self, level: int, seconds: float) -> None:
        self._timers[level] = self._clock.call_later(
            max(0.0, min(seconds, MAX_TIMER_SECONDS)), lambda: self._look(level)
        )

    def _look(self, level: int) -> None:
        self._timers.pop(level, None)
        if not self._running or self._stopping or level in self._busy:
            return
        first, end = self._store.queue_range(system_topics.SCHEDULE, level - 1)
        start = min(max(self._offsets.get(level, 0), first), end)
        offset, records, wait_ms = self._due(level, start, end)
        if not records:
            self._delivered(level, offset)
            if not self._uncounted.get(level):
                self._count(level, offset)
            if wait_ms is not None:
                self._set_timer(level, wait_ms / 1000)
            return
        self._busy.add(level)
        try:
            self._store.room.check(Use.COPY)
            placements = self._store.append(records)
        except StoreError as error:
            self._failed(level, error)
            return
        batch = _Batch(offset, placements[0].log_offset, placements[-1].end)
        self._uncounted.setdefault(level, deque()).append(batch)
        self._store.safety.when_safe(batch.end, lambda error: self._ended(level, batch, error))

    def _due(self, level: int, start: int, end: int) -> tuple[int, list[NewRecord], int | None]:
        """(offset behind them, records of what is due, ms until the next one or None when there is none)."""
        records: list[NewRecord] = []
        size = 0
        delay_ms, now = self._delays_ms[level - 1], self._time.now_ms()
        for offset in range(start, end):
            entry = self._store.entry(system_topics.SCHEDULE, level - 1, offset)
            if entry is None or len(records) >= BATCH_MAX or size >= BATCH_MAX_BYTES:
                return offset, records, 0 if entry is not None else None
            wait_ms = self._time.ends_ms(entry.log_offset, entry.tags_code, delay_ms) - now
            if wait_ms > 0:
                return offset, records, wait_ms
            record = self._record(self._store.read(entry.log_offset), entry.log_offset)
            if record is not None:
                records.append(record)
                size += entry.size
        return max(start, end), records, None

    def _record(self, message: StoredMessage | None, log_offset: int) -> NewRecord | None:
        """The message under its real topic; None when it cannot be delivered."""
        if message is None:
            log.error("the delayed message at log offset %d cannot be read and is skipped", log_offset)
            return None
        place = real_place(message.properties_text)
        if place is None or place[0] in system_topics.NOT_SENDABLE:
            log.error("the delayed message at log offset %d has no usable real topic and is skipped", log_offset)
            return None
        topic, queue_id = place
        return NewRecord(
            topic, queue_id, message.body, message.properties_text, message.born_timestamp,
            pack_host(message.born_host), message.flag, message.sys_flag & ~flags.TRANSACTION_MASK,
            message.reconsume_times, mark_of(log_offset),
        )  # fmt: skip

    def _ended(self, level: int, batch: _Batch, error: StoreError | None) -> None:
        if error is not None:
            self._uncounted[level].remove(batch)
            self._failed(level, error)
            return
        batch.safe = True
        self._done(level)
        self._delivered(level, batch.offset)
        self.settle(self._store.flushed)
        if self._running:
            self._look(level)

    def _done(self, level: int) -> None:
        self._busy.discard(level)
        if self._ended_soon is not None and not self._ended_soon.done():
            self._ended_soon.set_result(None)

    def _failed(self, level: int, error: StoreError) -> None:
        self._done(level)
        log.error("delayed messages of level %d could not be delivered, trying again: %s", level, error)
        if self._running:
            self._set_timer(level, RETRY_SECONDS)

    def _delivered(self, level: int, offset: int) -> None:
        self._offsets[level] = max(offset, self._offsets.get(level, 0))
