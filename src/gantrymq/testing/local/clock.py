"""Time that passes only when a test says so, for several event loops at once."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Callable

from gantrymq.runtime.clock import Clock, Timer
from gantrymq.testing.local.node import Node


class _Timer:
    """A call that waits for its time, and the loop it belongs to."""

    __slots__ = ("_call", "_context", "loop", "when")

    def __init__(self, when: float, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self.when = when
        self.loop = loop
        self._call: Callable[[], None] | None = call
        self._context = contextvars.copy_context()

    @property
    def cancelled(self) -> bool:
        return self._call is None

    def cancel(self) -> None:
        self._call = None

    def run(self) -> None:
        if (call := self._call) is not None:
            call()

    def fire(self) -> None:
        """Have its loop make the call."""
        if asyncio._get_running_loop() is self.loop:
            self.loop.call_soon(self.run, context=self._context)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.run, context=self._context)


class VirtualClock:
    """Wall and monotonic time of a broker and its clients. Timers may be set on any loop."""

    def __init__(self, epoch_ms: int, stirred: Callable[[], None]) -> None:
        """``epoch_ms``: the wall time at the start. ``stirred``: told of every timer that is set."""
        self._epoch_ms = epoch_ms
        self._stirred = stirred
        self._now = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()

    def wall_ms(self) -> int:
        return self._epoch_ms + round(self._now * 1000)

    def monotonic(self) -> float:
        return self._now

    def elapsed(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(max(seconds, 0), lambda: None if over.done() else over.set_result(None))
        try:
            await over
        finally:
            timer.cancel()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = _Timer(self._now + seconds, asyncio.get_running_loop(), call)
        if seconds <= 0:
            timer.fire()
        else:
            # A push and a pop are one step each for other threads.
            heapq.heappush(self._timers, (timer.when, next(self._numbers), timer))
        self._stirred()
        return timer

    def call_soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    # For who moves the time; only when all loops are at rest.

    def next_due(self) -> float | None:
        """When the next timer fires; None when there is none."""
        timers = self._timers
        while timers and timers[0][2].cancelled:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def move_to(self, when: float) -> None:
        """Let time pass, and fire what is due, in order."""
        self._now = max(self._now, when)
        while self._timers and self._timers[0][0] <= self._now:
            heapq.heappop(self._timers)[2].fire()


class NodeTime:
    """A clock as one server sees it, whose timers end with the server."""

    def __init__(self, clock: Clock, node: Node) -> None:
        self._clock = clock
        self._node = node
        self.wall_ms = clock.wall_ms
        self.monotonic = clock.monotonic
        self.elapsed = clock.elapsed
        self.sleep = clock.sleep

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._clock.call_later(seconds, self._node.unless_dead(call))

    def call_soon(self, call: Callable[[], None]) -> None:
        self._clock.call_soon(self._node.unless_dead(call))
