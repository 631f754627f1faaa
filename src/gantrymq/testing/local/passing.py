"""What a test says about time: let it pass, wait for rest, wait for a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import Clock
from gantrymq.testing.local.at_rest import Rest
from gantrymq.testing.local.calls import Calls

LOOK_AGAIN_S: Final = 0.002

Condition = Callable[[], object]


class PassingTime:
    """The part of a LocalCluster that has to do with time."""

    _clock: Clock
    _rest: Rest
    _calls: Calls
    virtual_time: bool

    def time(self) -> float:
        """Seconds since 1970, as the broker and the clients see them."""
        return self._clock.wall_ms() / 1000

    def advance(self, seconds: float) -> None:
        """Let time pass: what becomes due happens in order; return when everything that follows from it is done.

        Needs ``virtual_time``. In ``async def`` code: ``await advance_async(seconds)``.
        """
        self._calls.wait(self._advance(seconds), "advance")

    async def advance_async(self, seconds: float) -> None:
        """``advance`` for ``async def`` code."""
        await self._calls.awaited(self._advance(seconds))

    def settle(self) -> None:
        """Return when all that can happen now has happened: messages are delivered, listeners have ended."""
        self._calls.wait(self._rest.reach(None), "settle")

    async def settle_async(self) -> None:
        """``settle`` for ``async def`` code."""
        await self._calls.awaited(self._rest.reach(None))

    def wait_until(self, condition: Condition, seconds: float = 10.0) -> None:
        """Return as soon as ``condition()`` is true; TimeoutError after so many seconds.

        Virtual time passes meanwhile, from one event to the next.
        """
        deadline = self._clock.monotonic() + seconds
        while not self._fulfilled(condition, deadline, seconds):
            if self.virtual_time:
                self._calls.wait(self._rest.reach(deadline, one_step=True), "wait_until")
            else:
                time.sleep(LOOK_AGAIN_S)

    async def wait_until_async(self, condition: Condition, seconds: float = 10.0) -> None:
        """``wait_until`` for ``async def`` code."""
        deadline = self._clock.monotonic() + seconds
        while not self._fulfilled(condition, deadline, seconds):
            if self.virtual_time:
                await self._calls.awaited(self._rest.reach(deadline, one_step=True))
            else:
                await asyncio.sleep(LOOK_AGAIN_S)

    def _fulfilled(self, condition: Condition, deadline: float, seconds: float) -> bool:
        if condition():
            return True
        if self._clock.monotonic() >= deadline:
            name = getattr(condition, "__qualname__", repr(condition))
            raise TimeoutError(f"{name} did not become true within {seconds:g} s")
        return False

    async def _advance(self, seconds: float) -> None:
        if not self.virtual_time:
            raise ConfigError(
                "time passes by itself in this cluster; for advance() open it with virtual_time=True, or mark the test "
                "with @pytest.mark.gantry(virtual_time=True)"
            )
        if seconds < 0:
            raise ConfigError(f"time does not go back; advance() was given {seconds:g}")
        await self._rest.reach(self._clock.monotonic() + seconds)
