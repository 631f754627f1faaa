"""When each open half message is looked at again: one timer for all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.steady import STEP_MS
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.table.due_times import DueTimes
from gantrymq.transactions.table.open_half import OpenHalf
from gantrymq.transactions.table.open_halves import TransactionTable

LOOKS_PER_TURN: Final = 64
"""Half messages looked at in one turn of the loop, about 50 us each: a burst delays other work by 4 ms at most."""

WAKES_PER_TURN: Final = 2_000
"""Halves put to the front in one turn because a producer came, at about 1 us each."""


class CheckSchedule:
    """Calls ``look`` with each half message that is due, and with the time (monotonic seconds)."""

    def __init__(
        self, table: TransactionTable, store: HalfStore, clock: Clock, look: Callable[[OpenHalf, float], None]
    ) -> None:
        self._table = table
        self._safety = store.safety
        self._clock = clock
        self._look_at = look
        self._due = DueTimes(table)
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._running = False
        self._wakes_per_turn = WAKES_PER_TURN
        # The half that ``watch`` was given last, the safe position then, and the end of its immunity.
        self._stored_at = self._immunity_ms = self._position = -1
        self._until = 0.0
        self._ahead_ms = clock.wall_ms() - int(clock.monotonic() * 1000)
        """How far the wall clock was ahead of the monotonic one at the last look."""

    def start(self) -> None:
        """Begin to look; half messages that are overdue are looked at at once."""
        self._running = True
        self._arm()

    def close(self) -> None:
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def watch(self, halves: Iterable[OpenHalf]) -> None:
        """Look at halves when their immunity ends."""
        position = self._safety.position
        for half in halves:
            stored_at, immunity_ms = half.stored_at, half.immunity_ms
            # Halves that became safe together nearly always have one end.
            if position != self._position or stored_at != self._stored_at or immunity_ms != self._immunity_ms:
                self._stored_at, self._immunity_ms, self._position = stored_at, immunity_ms, position
                wall_ms, now = self._clock.wall_ms(), self._clock.monotonic()
                ahead_ms = wall_ms - int(now * 1000)
                # At most the immunity itself: a wall clock that was set back must not make a half immune for longer.
                # The whole of it when the clock was set forward since the last look: perhaps while this half was on
                # its way to the disk, and then the difference of two times of the clock is no time that has passed.
                stepped = ahead_ms - self._ahead_ms >= STEP_MS
                left_ms = immunity_ms if stepped else min(stored_at + immunity_ms - wall_ms, immunity_ms)
                self._ahead_ms = ahead_ms
                self._until = now + left_ms / 1000
            half.immune_until = self._until  # maybe long ago: a longer immunity would be counted from its storing, too
            # It may have gone away while its half was on the way to the disk.
            self.put(half, self._clock.monotonic() if half.sender_gone else self._until)

    def watch_run(self, halves: Sequence[OpenHalf]) -> None:
        """``watch`` of halves that were stored together with one immunity, and whose senders are not gone."""
        self.watch(halves[:1])
        until, due = self._until, max(self._until, 0.0)
        others = halves[1:]
        for half in others:
            half.immune_until, half.due = until, due
        self._due.push_all(due, [half.queue_offset for half in others])

    def wake(self, queue_offsets: deque[int]) -> None:
        """Look at these half messages now, in order, a limited number in each turn of the loop."""
        now = self._clock.monotonic()
        for _ in range(min(len(queue_offsets), self._wakes_per_turn)):
            half = self._table.get(queue_offsets.popleft())
            if half is not None:
                half.lonely = 0
                self.put(half, now)
        if queue_offsets and self._running:
            self._clock.call_later(0.0, lambda: self.wake(queue_offsets))

    def put(self, half: OpenHalf, due: float) -> None:
        """Look at a half message then (monotonic seconds), and no more when it was due before."""
        if due < 0.0:  # that says that there is none
            due = 0.0
        half.due = due
        self._due.push(due, half.queue_offset)
        if self._running and (self._timer is None or due < self._timer_due):
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._due.next_due()
        if due is not None and self._running:
            self._timer_due = due
            self._timer = self._clock.call_later(max(due - self._clock.monotonic(), 0.0), self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for queue_offset in list(self._due.pop_due(now, LOOKS_PER_TURN)):
            half = self._table.get(queue_offset)
            if half is not None:
                self._look_at(half, now)
        self._arm()
