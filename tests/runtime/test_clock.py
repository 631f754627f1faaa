"""Time limits by a clock, not by the loop."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.runtime.clock import SystemClock, time_limit
from gantrymq.testing.local.clock import VirtualClock


def ignore() -> None:
    """Nobody wants to know."""


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_time_limit_ends_by_its_clock_alone() -> None:
    async def limited(clock: VirtualClock) -> None:
        async with time_limit(clock, 60):
            await asyncio.Event().wait()

    async def main() -> None:
        clock = VirtualClock(0, ignore)
        task = asyncio.create_task(limited(clock))
        await turns()
        clock.move_to(59)
        await turns()
        assert not task.done()
        clock.move_to(60)
        with pytest.raises(TimeoutError):
            await task

    asyncio.run(main())


def test_what_ends_in_time_leaves_no_timer() -> None:
    async def main() -> None:
        clock = VirtualClock(0, ignore)
        async with time_limit(clock, 60):
            await asyncio.sleep(0)
        assert clock.next_due() is None

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_over_at_once(seconds: float) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with time_limit(SystemClock(), seconds):
                await asyncio.Event().wait()

    asyncio.run(main())


def test_a_cancellation_is_no_timeout() -> None:
    async def limited() -> None:
        async with time_limit(SystemClock(), 60):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(limited())
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
