"""Steps of a call, and cancellations that come when they were asked for."""

from __future__ import annotations

import asyncio

from tests.cancellation.stepper import Stepper, When


def test_a_step_is_a_suspension_and_the_cancellation_comes_when_it_was_asked_for() -> None:
    async def work(done: list[int]) -> None:
        for number in range(3):
            await asyncio.sleep(0.001)
            done.append(number)

    async def test() -> None:
        counted = Stepper(work([]))
        await counted.run()
        assert (counted.steps, counted.hit) == (3, False)
        for when in When:
            done: list[int] = []
            stepper = Stepper(work(done), 2, when)
            task = asyncio.get_running_loop().create_task(stepper.run())
            await asyncio.wait([task])
            assert task.cancelled() and stepper.hit and done == [0], when

    asyncio.run(test())
