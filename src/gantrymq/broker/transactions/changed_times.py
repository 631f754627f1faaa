"""Applies a change of the times of checks to half messages that are open.

``transactionTimeOut`` moves the end of their immunity, earlier or later, except for those with an immunity of their
own. A shorter ``transactionCheckInterval`` applies to checks that wait for their answer, a longer one from the next
check on. Source: TransactionalMessageServiceImpl.check, which reads the settings in each round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from gantrymq.errors import CorruptRecord
from gantrymq.runtime.clock import Clock
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import read_half
from gantrymq.transactions.rules.check_policy import immunity_ms
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_half import NOT_NOTED, OpenHalf

HALVES_PER_TURN: Final = 500
"""Rescheduled in one turn of the loop, at a few us each."""


class ChangedTimes:
    """Adapts open half messages to the settings: each one when it is looked at, and all of them after a change.

    A million of them takes seconds. None is checked too early in that time, because each is adapted before any decision
    about it.
    """

    def __init__(
        self, config: TransactionConfig, store: HalfStore, clock: Clock, schedule: Callable[[OpenHalf, float], None]
    ) -> None:
        """``schedule``: called with a half and the time of the next look at it."""
        self._config = config
        self._store = store
        self._clock = clock
        self._schedule = schedule
        self._left: deque[OpenHalf] = deque()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._left.clear()

    def changed(self, config: TransactionConfig, halves: Iterable[OpenHalf]) -> None:
        """The settings have changed. ``halves``: all halves that are open."""
        before, self._config = self._config, config
        if (before.timeout_ms, before.check_interval_ms) == (config.timeout_ms, config.check_interval_ms):
            return
        waiting = bool(self._left)
        self._left = deque(halves)
        if not waiting:
            self._move_some()

    def _move_some(self) -> None:
        if self._closed:
            return
        now = self._clock.monotonic()
        for _ in range(min(HALVES_PER_TURN, len(self._left))):
            self._move(self._left.popleft(), now)
        if self._left:
            self._clock.call_later(0.0, self._move_some)

    def _move(self, half: OpenHalf, now: float) -> None:
        """Schedule the next look at a half by the current settings."""
        waits_for_immunity = half.due == half.immune_until and not half.answer_deadline
        self.fit(half)
        if half.state is not State.OPEN or half.due < 0:
            return
        if waits_for_immunity:
            if half.due != half.immune_until:
                self._schedule(half, max(half.immune_until, now))
            return
        latest = now + self._config.check_interval_ms / 1000
        if half.due > latest and half.immune_until <= now and not half.lonely:
            half.answer_deadline = min(half.answer_deadline, latest)
            self._schedule(half, latest)

    def fit(self, half: OpenHalf) -> None:
        """Give it the immunity of the settings, counted by the monotonic clock, whatever the wall clock did."""
        timeout_ms = self._config.timeout_ms
        if half.immunity_ms == timeout_ms or half.own_immunity_ms > 0 or self._has_its_own(half):
            return
        if half.state >= State.OPEN:  # until then it has no end yet
            half.immune_until += (timeout_ms - half.immunity_ms) / 1000
        half.immunity_ms = timeout_ms

    def _has_its_own(self, half: OpenHalf) -> bool:
        """Whether the sender asked for another immunity. For a copy that an Apache broker put back only the record says
        so; a copy that cannot be read keeps the immunity it has."""
        if half.own_immunity_ms != NOT_NOTED:
            return False
        try:
            record = self._store.read(half.log_offset)
            return record is None or immunity_ms(read_half(record).immunity_text, 0) > 0
        except CorruptRecord:
            return True
