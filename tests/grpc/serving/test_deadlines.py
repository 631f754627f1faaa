"""Deadlines pass in their order, cost no timer when there are none, and leave nothing behind."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.grpc.serving.deadlines import LONGEST_SECONDS, TICK_SECONDS, Deadlines
from tests.support.sim_clock import SimClock


def test_a_call_is_named_when_its_time_is_over_and_not_before() -> None:
    async def work() -> None:
        clock, passed = SimClock(), list[str]()
        deadlines = Deadlines[str](clock, passed.append)
        deadlines.add("late", 3.0)
        deadlines.add("early", 1.0)
        gone = deadlines.add("gone", 2.0)
        deadlines.remove("gone", gone)
        await clock.advance(0.99)
        assert passed == []
        await clock.advance(0.01 + 2 * TICK_SECONDS)
        assert passed == ["early"]
        await clock.advance(5)
        assert passed == ["early", "late"]
        assert clock.waiting == 0, "no call, no timer"
        deadlines.add("over already", -5.0)
        await clock.advance(2 * TICK_SECONDS)
        assert passed[-1] == "over already"

    asyncio.run(work())


def test_a_deadline_of_a_year_is_not_looked_at() -> None:
    async def work() -> None:
        clock = SimClock()
        deadlines = Deadlines[str](clock, lambda call: None)
        assert deadlines.add("stream", 31_536_000.0) is None
        deadlines.remove("stream", None)
        assert (len(deadlines), clock.waiting) == (0, 0)

    asyncio.run(work())


def test_calls_that_end_early_leave_no_ticks_behind() -> None:
    async def work() -> None:
        clock = SimClock()
        deadlines = Deadlines[int](clock, lambda call: None)
        for call in range(20_000):
            tick = deadlines.add(call, call % 3600 + 0.5)
            deadlines.remove(call, tick)
        assert len(deadlines) == 0
        assert len(deadlines._ticks) == 0
        assert len(deadlines._order) < 200

    asyncio.run(work())


TIMES = st.floats(0, LONGEST_SECONDS)


@given(st.lists(st.tuples(TIMES, st.booleans()), max_size=30), st.lists(st.floats(0, 600), max_size=10))
def test_every_call_ends_in_its_tick_or_was_removed(calls: list[tuple[float, bool]], steps: list[float]) -> None:
    async def work() -> None:
        clock = SimClock()
        passed: dict[int, float] = {}
        deadlines = Deadlines[int](clock, lambda call: passed.setdefault(call, clock.monotonic()))
        ticks = [deadlines.add(number, seconds) for number, (seconds, _) in enumerate(calls)]
        for number, (_, removed) in enumerate(calls):
            if removed:
                deadlines.remove(number, ticks[number])
        for step in [*steps, LONGEST_SECONDS + 1]:
            await clock.advance(step)
        assert set(passed) == {number for number, (_, removed) in enumerate(calls) if not removed}
        for number, at in passed.items():
            assert calls[number][0] <= at
        assert clock.waiting == 0

    asyncio.run(work())
