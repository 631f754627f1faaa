"""Large work is done in steps, between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gantrymq.errors import GantryError, StoreError
from gantrymq.runtime.stepwise import SLICE_S, gather
from tests.support.sim_clock import SimClock


class _WorkingClock(SimClock):
    def work(self, seconds: float) -> None:
        self._now += seconds


def test_others_are_served_between_the_steps() -> None:
    order: list[str] = []

    async def test() -> None:
        clock = _WorkingClock()

        def steps(name: str, count: int) -> Iterator[int]:
            for number in range(count):
                clock.work(SLICE_S * 0.6)
                order.append(name)
                yield number

        found: list[list[int]] = []
        gather(clock, steps("large", 6), found.append, lambda error: None)
        assert order == ["large"] * 2 and not found
        gather(clock, steps("small", 1), found.append, lambda error: None)
        assert found == [[0]], "small work is done at once"
        for _ in range(10):
            await asyncio.sleep(0)
        assert found[1] == [0, 1, 2, 3, 4, 5]
        assert order.index("small") == 2

    asyncio.run(test())


def test_an_error_of_a_step_is_told() -> None:
    def steps() -> Iterator[int]:
        yield 1
        raise StoreError("the disk is gone")

    told: list[GantryError] = []
    gather(SimClock(), steps(), lambda found: None, told.append)
    assert [str(error) for error in told] == ["the disk is gone"]
