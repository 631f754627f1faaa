"""Delivers popped messages again, on time, when they were not acknowledged.

The copy in the retry topic and the acknowledgement of the original are written together: a crash repeats neither. A
write that a power cut has torn is completed at the next start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, TypeAlias

from gantrymq.broker.delivery.delivered import mark_of
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.check_point import Ack
from gantrymq.broker.pop.ledger import OpenPoint
from gantrymq.broker.pop.revive import plan_revival
from gantrymq.broker.pop.revive_log import Line, ReviveLog
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import flags, properties
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX, normal_topic
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord

log = logging.getLogger("gantrymq.broker")

BATCH_MAX: Final = 128
"""Messages brought back in one write; between two batches others have their turn."""
BATCH_MAX_BYTES: Final = 1024 * 1024
RETRY_MS: Final = 1000
"""Pause after the store refused."""
MOVING_MS: Final = 50
"""Pause while messages of a check point are being written as dead letters: they may be its last ones."""
MAX_TIMER_SECONDS: Final = 60.0
"""A timer never sleeps longer: the time in which the machine slept counts, and timers of the loop do not count it."""

_Taken: TypeAlias = tuple[OpenPoint, int, int]
"""A check point that is over, and how many of its messages come back and become dead letters."""


class Reviver:
    """One timer for all check points."""

    def __init__(
        self, store: MessageStore, revive_log: ReviveLog, topics: Topics, groups: Groups, clock: Clock,
        time: SteadyTime, counters: MessageCounters, *, v2: bool,
    ) -> None:  # fmt: skip
        self._store = store
        self._log = revive_log
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._time = time
        self._counters = counters
        self._v2 = v2
        self._timer: Timer | None = None
        self._timer_at = 0
        self._running = False
        self._busy = False
        self._ended_soon: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Deliver the messages again that are due, and continue to do so."""
        self._running = True
        self._log.changed = self._arm
        self._arm()

    async def stop(self) -> None:
        """Bring nothing back any more, and return when what is under way is safe or has failed."""
        self.close()
        while self._busy:
            self._ended_soon = asyncio.get_running_loop().create_future()
            await self._ended_soon

    def close(self) -> None:
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if not self._running or self._busy:
            return
        due = self._log.ledger.next_due()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        seconds = max(0.0, min((due - self._time.now_ms()) / 1000, MAX_TIMER_SECONDS))
        self._timer_at = due
        self._timer = self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._time.now_ms()
        lines: list[Line] = []
        records: list[NewRecord] = []
        taken: list[_Taken] = []
        size = 0
        for opened in self._log.ledger.due(now, BATCH_MAX):
            if size >= BATCH_MAX_BYTES:
                self._log.ledger.postpone(opened, now)
                continue
            if opened.moving:
                self._log.ledger.postpone(opened, now + MOVING_MS)
                continue
            try:
                copies = self._copies(opened)
            except StoreError as error:
                log.error("a popped message cannot come back yet: %s", error)
                self._log.ledger.postpone(opened, now + RETRY_MS)
                continue
            size += sum(len(record.body) for record in copies)
            records += copies
            lines.append(Line(opened.revive_queue, Ack(opened.point.key, tuple(sorted(opened.pending)))))
            dead = sum(record.topic.startswith(DEAD_LETTER_PREFIX) for record in copies)
            taken.append((opened, len(copies) - dead, dead))
        if lines:
            self._write(lines, records, taken)
        else:
            self._arm()

    def _write(self, lines: list[Line], records: list[NewRecord], taken: list[_Taken]) -> None:
        self._busy = True
        try:
            self._log.write(lines, lambda error: self._ended(taken, error), before=records)
        except (StoreError, MessageIllegal) as error:
            self._ended(taken, error)

    def _ended(self, taken: list[_Taken], error: StoreError | MessageIllegal | None) -> None:
        self._busy = False
        if self._ended_soon is not None and not self._ended_soon.done():
            self._ended_soon.set_result(None)
        if error is not None:
            log.error("popped messages could not be brought back, trying again: %s", error)
            for opened, _, _ in taken:
                self._log.ledger.postpone(opened, self._time.now_ms() + RETRY_MS)
        else:
            self._log.counts.came_back((opened, back) for opened, back, _ in taken)
            for point, dead in ((opened.point, dead) for opened, _, dead in taken if dead):
                self._counters.gave_up(normal_topic(point.topic, point.group), point.group, dead)
        self._arm()

    def _copies(self, opened: OpenPoint) -> list[NewRecord]:
        """The messages as they are delivered again; none when topic or group was deleted. Raises StoreError."""
        point = opened.point
        group = self._groups.get(point.group)
        if group is None or not self._topics.exists(normal_topic(point.topic, point.group)):
            return []
        copies: list[NewRecord] = []
        for offset in sorted(opened.pending):
            entry = self._store.entry(point.topic, point.queue_id, offset)
            message = self._store.read(entry.log_offset) if entry is not None else None
            if message is None:
                log.warning(
                    "%s/%d has no message %d any more; it cannot come back", point.topic, point.queue_id, offset
                )
                continue
            message_id = offset_message_id(pack_host(message.store_host), message.log_offset)
            plan = plan_revival(message, point, group.retry_max_times, message_id, v2=self._v2)
            if plan.dead:
                log.info("%s gave up message %s after %d tries", point.group, message_id, plan.reconsume_times)
            self._topics.ensure(plan.topic, 1)
            copies.append(
                NewRecord(
                    plan.topic,
                    0,
                    message.body,
                    properties.without(plan.properties_text, _NOT_COPIED),
                    message.born_timestamp,
                    pack_host(message.born_host),
                    message.flag,
                    message.sys_flag & ~flags.TRANSACTION_MASK,
                    plan.reconsume_times,
                    mark_of(message.log_offset),
                )
            )
        return copies


_NOT_COPIED: Final = frozenset({properties.POP_CHECK_POINT})
