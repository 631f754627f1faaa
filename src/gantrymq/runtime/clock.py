"""The clock that is passed to everything that needs time: wall time for time stamps, monotonic time for deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """A call that was scheduled and has not happened yet."""

    def cancel(self) -> None:
        """Prevent the call; harmless when it already happened."""


class Clock(Protocol):
    """The source of all times. All methods except ``wall_ms`` and ``monotonic`` need the running event loop."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC; may jump. For time stamps that other processes read."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back. For deadlines."""

    def elapsed(self) -> float:
        """Like ``monotonic``, but it also counts the time in which the machine slept. For waits of hours and days."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task. Cancellation ends it at once."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Run ``call`` on the event loop after ``seconds``."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run ``call`` on the event loop after the current turn."""


_COUNTS_SLEEP: Final[int] = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))
"""Linux has a clock of its own for that; elsewhere the monotonic clock goes on while the machine sleeps."""

AT_ONCE: Final = 0.0
"""A time in the past on every event loop."""


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Cancel the block after ``seconds`` of ``clock`` and raise TimeoutError, for example ``async with
    time_limit(clock, 3): ...``. It is ``asyncio.timeout`` with a clock that tests can replace.
    """
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(max(seconds, 0), lambda: limit.reschedule(AT_ONCE))
        try:
            yield
        finally:
            timer.cancel()


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``. Raises TimeoutError when it takes longer, as ``time_limit`` does."""
    async with time_limit(clock, seconds):
        return await work


class SystemClock:
    """The machine's clock and the running asyncio loop."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Without a method around it, because it is called more often than anything else.
    monotonic = staticmethod(time.monotonic)
    worked = staticmethod(time.thread_time)
    """Seconds for which this thread has worked; a thread that waits does not. For measurements."""

    def elapsed(self) -> float:
        return time.clock_gettime(_COUNTS_SLEEP) if _COUNTS_SLEEP >= 0 else time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)

    def call_soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def block(self, seconds: float) -> None:
        """Block the calling *thread*. Only for code without an event loop (blocking clients, Spark tasks, tools)."""
        time.sleep(seconds)
