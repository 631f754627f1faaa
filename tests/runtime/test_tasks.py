"""Work that several wait for."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.errors import Closed
from gantrymq.runtime.tasks import SharedWork


def test_one_that_gives_up_does_not_take_the_result_from_the_others() -> None:
    async def test() -> None:
        shared: SharedWork[str, int] = SharedWork()
        begun: list[int] = []

        async def work() -> int:
            begun.append(1)
            await asyncio.sleep(0.01)
            return 7

        first, second = (asyncio.create_task(shared.join("k", work)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 7 and begun == [1] and first.cancelled()

    asyncio.run(test())


def test_who_waits_for_work_that_is_stopped_is_told_so_and_not_cancelled() -> None:
    async def test() -> None:
        shared: SharedWork[str, None] = SharedWork()
        waiting = [asyncio.create_task(shared.join("k", lambda: asyncio.sleep(60))) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await shared.stop()
        with pytest.raises(Closed):
            await waiting[1]
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]

    asyncio.run(test())
