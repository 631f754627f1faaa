"""When calls end because their clients do not wait longer: one timer for all of them.

Nearly every call has a deadline, and nearly none reaches it. So calls are put into a tick of time, which costs no timer
and no order, and are taken out of it again. A tick without calls is forgotten, however far away it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gantrymq.runtime.clock import Clock, Timer

T = TypeVar("T")
TICK_SECONDS: Final = 0.05
"""A call ends so much later than its deadline, at most."""
LONGEST_SECONDS: Final = 3600.0
"""Later deadlines are not looked at: clients give streams a year, and more."""
_EMPTY_TICKS: Final = 64


class Deadlines(Generic[T]):
    """Calls ``passed`` for each call whose deadline is over. A call is anything that can be a key."""

    def __init__(self, clock: Clock, passed: Callable[[T], None]) -> None:
        self._clock = clock
        self._passed = passed
        self._ticks: dict[int, dict[T, None]] = {}
        self._order: list[int] = []
        """A heap of all ticks, and of some that are empty by now."""
        self._timer: Timer | None = None
        self._armed_for = 0

    def __len__(self) -> int:
        return sum(map(len, self._ticks.values()))

    def add(self, call: T, seconds: float) -> int | None:
        """``seconds`` from now; what ``remove`` needs. None: it is too far away to be looked at."""
        if seconds > LONGEST_SECONDS:
            return None
        tick = int((self._clock.monotonic() + max(seconds, 0.0)) / TICK_SECONDS) + 1
        calls = self._ticks.get(tick)
        if calls is None:
            calls = self._ticks[tick] = {}
            heapq.heappush(self._order, tick)
            if self._timer is None or tick < self._armed_for:
                self._arm()
        calls[call] = None
        return tick

    def remove(self, call: T, tick: int | None) -> None:
        """The call is over."""
        calls = None if tick is None else self._ticks.get(tick)
        if calls is None or tick is None:
            return
        calls.pop(call, None)
        if not calls:
            del self._ticks[tick]
            if len(self._order) > 2 * len(self._ticks) + _EMPTY_TICKS:
                self._order = list(self._ticks)
                heapq.heapify(self._order)

    def close(self) -> None:
        """Look at none of them any more."""
        self._ticks.clear()
        self._order.clear()
        self._disarm()

    def _arm(self) -> None:
        """For the first tick that has calls; without any there is no timer."""
        self._disarm()
        order = self._order
        while order and order[0] not in self._ticks:
            heapq.heappop(order)
        if order:
            self._armed_for = order[0]
            seconds = order[0] * TICK_SECONDS - self._clock.monotonic()
            self._timer = self._clock.call_later(max(seconds, 0.0), self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        over: list[T] = []
        while self._order and self._order[0] * TICK_SECONDS <= now:
            over += self._ticks.pop(heapq.heappop(self._order), ())
        for call in over:
            self._passed(call)
        if self._timer is None:
            self._arm()
