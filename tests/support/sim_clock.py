"""A clock that the test advances, on a real event loop."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from gantrymq.runtime.clock import Timer


class _SimTimer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class SimClock:
    """``call_soon`` is that of the event loop. ``call_later`` waits for ``advance``."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = wall_ms
        self.skew_ms = 0
        """How far the wall clock has stepped since the start."""
        self._now = 0.0
        self._timers: list[tuple[float, int, _SimTimer]] = []
        self._numbers = count()

    def wall_ms(self) -> int:
        return self._start_ms + self.skew_ms + round(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    def elapsed(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        passed = asyncio.Event()
        self.call_later(seconds, passed.set)
        await passed.wait()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = _SimTimer(call)
        heapq.heappush(self._timers, (self._now + seconds, next(self._numbers), timer))
        return timer

    def call_soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    @property
    def waiting(self) -> int:
        """The number of timers that are not cancelled."""
        return sum(1 for _time, _number, timer in self._timers if timer.call is not None)

    async def advance(self, seconds: float) -> None:
        """Advance the time, and run everything that becomes due."""
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            self._now, _number, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
                await settle()
        self._now = end
        await settle()


async def settle() -> None:
    """Wait for enough turns of the event loop for a write, its sync and the answers."""
    for _ in range(12):
        await asyncio.sleep(0)
