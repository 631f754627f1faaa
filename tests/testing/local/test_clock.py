"""The virtual clock: timers of several loops fire in order, when somebody moves the time."""

from __future__ import annotations

import asyncio

from gantrymq.testing.local.clock import NodeTime, VirtualClock
from gantrymq.testing.local.node import Node


def ignore() -> None:
    """Nobody wants to know."""


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_timers_fire_in_the_order_of_their_time_and_of_their_setting() -> None:
    async def main() -> None:
        clock = VirtualClock(1_000, ignore)
        fired: list[str] = []
        for name, seconds in (("b", 2.0), ("a", 1.0), ("c", 2.0), ("d", 3.0)):
            clock.call_later(seconds, lambda name=name: fired.append(name))
        clock.call_later(1.5, lambda: fired.append("cancelled")).cancel()
        assert clock.next_due() == 1.0
        clock.move_to(2.0)
        await turns()
        assert fired == ["a", "b", "c"]
        assert (clock.monotonic(), clock.wall_ms(), clock.next_due()) == (2.0, 3_000, 3.0)
        clock.move_to(1.0)
        assert clock.monotonic() == 2.0, "time does not go back"

    asyncio.run(main())


def test_what_is_due_at_once_needs_no_time() -> None:
    async def main() -> None:
        clock = VirtualClock(0, ignore)
        fired: list[int] = []
        clock.call_later(0, lambda: fired.append(1))
        await clock.sleep(0)
        assert fired == [1]

    asyncio.run(main())


def test_a_sleep_ends_with_its_time_and_by_its_cancellation() -> None:
    async def main() -> None:
        clock = VirtualClock(0, ignore)
        asleep, cancelled = asyncio.create_task(clock.sleep(5)), asyncio.create_task(clock.sleep(9))
        await turns()
        cancelled.cancel()
        clock.move_to(5)
        await turns()
        assert asleep.done() and cancelled.cancelled() and clock.next_due() is None

    asyncio.run(main())


def test_the_timers_of_a_killed_server_do_nothing() -> None:
    async def main() -> None:
        clock = VirtualClock(0, ignore)
        node = Node("broker", asyncio.get_running_loop())
        fired: list[int] = []
        NodeTime(clock, node).call_later(1, lambda: fired.append(1))
        node.kill()
        clock.move_to(1)
        await turns()
        assert fired == []

    asyncio.run(main())


def test_timers_of_a_closed_loop_are_passed_over() -> None:
    clock = VirtualClock(0, ignore)

    async def main() -> None:
        clock.call_later(1, ignore)

    asyncio.run(main())
    clock.move_to(1)
