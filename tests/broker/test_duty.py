"""The walk through the duties of a role."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.broker.duty import Duties, Duty, repeated
from gantrymq.errors import StoreError
from tests.support.places import run
from tests.support.sim_clock import SimClock


def noted(steps: list[str], name: str, *, fails: str = "") -> Duty:
    """A duty that writes down what it is asked to do; ``fails``: the step that raises."""

    def step(what: str) -> None:
        if what == fails:
            raise StoreError(f"{name} cannot {what}")
        steps.append(f"{what} {name}")

    async def drain() -> None:
        await asyncio.sleep(0)
        step("drain")

    return Duty(name, start=lambda: step("start"), drain=drain, stop=lambda: step("stop"))


def test_duties_end_in_the_reverse_order_of_their_starts() -> None:
    async def scenario() -> None:
        steps: list[str] = []
        duties = Duties([noted(steps, "a"), noted(steps, "b"), Duty("without steps")])
        await duties.start()
        assert duties.running == ["a", "b", "without steps"]
        await duties.drain()
        await duties.stop()
        assert steps == ["start a", "start b", "drain b", "drain a", "stop b", "stop a"]
        assert duties.running == []

    run(scenario())


def test_a_duty_that_cannot_start_stops_those_before_it() -> None:
    async def scenario() -> None:
        steps: list[str] = []
        duties = Duties([noted(steps, "a"), noted(steps, "b", fails="start"), noted(steps, "c")])
        with pytest.raises(StoreError, match="b cannot start"):
            await duties.start()
        assert steps == ["start a", "drain a", "stop a"]

    run(scenario())


def test_a_duty_that_cannot_stop_keeps_no_other_one_from_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        steps: list[str] = []
        duties = Duties([noted(steps, "a"), noted(steps, "b", fails="stop")])
        await duties.start()
        await duties.stop()
        assert steps == ["start a", "start b", "stop a"]

    run(scenario())
    assert "stopping b: b cannot stop" in caplog.text


def test_repeated_work_says_when_it_is_done_again() -> None:
    async def scenario() -> None:
        clock, done = SimClock(), list[float]()
        pauses = iter([5.0, None, 1.0, 100.0])

        def work() -> float | None:
            done.append(clock.monotonic())
            return next(pauses)

        began = clock.monotonic()
        duties = Duties([repeated(clock, 2, "work", work)])
        await duties.start()
        for _ in range(20):
            await clock.advance(1)
        assert [at - began for at in done] == [2, 7, 9, 10]
        await duties.drain()

    run(scenario())


def test_repeated_work_goes_on_after_a_failure_and_leaves_no_task() -> None:
    async def scenario() -> None:
        clock, done = SimClock(), list[int]()

        def work() -> None:
            done.append(len(done))
            if len(done) == 1:
                raise StoreError("not now")

        before = asyncio.all_tasks()
        duties = Duties([repeated(clock, 2, "work", work)])
        await duties.start()
        await clock.advance(5)
        assert done == [0, 1]
        await duties.drain()
        await duties.stop()
        assert asyncio.all_tasks() == before
        await clock.advance(5)
        assert done == [0, 1]

    run(scenario())
