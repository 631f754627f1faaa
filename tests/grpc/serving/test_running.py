"""A coroutine is begun at once, goes on when what it waits for is there, and can be ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from gantrymq.grpc.serving.running import Running


def carried_out(work: Coroutine[Any, Any, None], *, cancel: bool = False) -> tuple[bool, BaseException | None]:
    """Whether it was over at once, and how it ended."""

    async def play() -> tuple[bool, BaseException | None]:
        over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        running = Running(work, over.set_result)
        running.begin()
        at_once = over.done()
        if cancel:
            running.cancel()
            running.cancel()
        async with asyncio.timeout(20):
            return at_once, await over

    return asyncio.run(play())


def test_what_waits_for_nothing_is_over_at_once() -> None:
    async def work() -> None:
        seen.append(1)

    seen: list[int] = []
    assert carried_out(work()) == (True, None)
    assert seen == [1]


def test_it_waits_for_futures_tasks_and_turns() -> None:
    async def add(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    async def work() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        seen.extend(await asyncio.gather(add(1), add(2)))
        seen.append(await asyncio.get_running_loop().create_task(add(3)))
        seen.append(await asyncio.shield(add(4)))

    seen: list[int] = []
    assert carried_out(work()) == (False, None)
    assert seen == [2, 3, 4, 5]


def test_what_it_raises_is_told() -> None:
    async def at_once() -> None:
        raise KeyError("a")

    async def later() -> None:
        await asyncio.sleep(0)
        raise ValueError("b")

    assert isinstance(carried_out(at_once())[1], KeyError)
    assert isinstance(carried_out(later())[1], ValueError)


def test_it_ends_where_it_waits() -> None:
    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append("cleaned up")

    seen: list[str] = []
    assert isinstance(carried_out(work(), cancel=True)[1], asyncio.CancelledError)
    assert seen == ["cleaned up"]


def test_one_that_does_not_want_to_end_goes_on() -> None:
    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("went on")

    seen: list[str] = []
    assert carried_out(work(), cancel=True) == (False, None)
    assert seen == ["went on"]


def test_it_may_be_ended_by_what_it_does_itself() -> None:
    async def play() -> BaseException | None:
        over: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            running.cancel()
            await asyncio.sleep(30)

        running = Running(work(), over.set_result)
        running.begin()
        async with asyncio.timeout(20):
            return await over

    assert isinstance(asyncio.run(play()), asyncio.CancelledError)
