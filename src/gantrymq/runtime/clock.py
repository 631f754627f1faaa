"""Time as an argument: wall time for stamps, monotonic time for deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol


class Timer(Protocol):
    """A call that was scheduled and has not happened yet."""

    def cancel(self) -> None:
        """Prevent the call; harmless when it already happened."""


class Clock(Protocol):
    """Source of all instants. Everything except ``wall_ms`` and ``monotonic`` belongs to the running event loop."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC; may jump. For stamps that others read."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back. For deadlines."""

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task. Cancellation ends it at once."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Run ``call`` on the loop after ``seconds``."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Run ``call`` on the loop once the work of the current turn is done."""


AT_ONCE: Final = 0.0
"""A time that is over on every loop."""


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Cancel the block after ``seconds`` of ``clock`` and raise TimeoutError, as ``asyncio.timeout`` does by the time
    of the loop. ``async with time_limit(clock, 3): ...``
    """
    async with asyncio.timeout(None) as limit:
        timer = clock.call_later(max(seconds, 0), lambda: limit.reschedule(AT_ONCE))
        try:
            yield
        finally:
            timer.cancel()


class SystemClock:
    """The machine's clock and the running asyncio loop."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # No method around it: it is asked more often than anything else.
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)

    def call_soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def block(self, seconds: float) -> None:
        """Block the calling *thread*; only for code that has no loop (blocking facade, Spark tasks, tools)."""
        time.sleep(seconds)
