"""Work that several wait for."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.errors import Closed
from gantrymq.runtime.tasks import SharedWork, TaskGroupOwner


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


def test_what_a_stopped_task_starts_while_it_ends_is_stopped_too() -> None:
    async def test() -> None:
        owner = TaskGroupOwner("test")
        started: list[asyncio.Task[None]] = []

        async def long() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                started.append(owner.start("what is left to do", asyncio.sleep(60)))

        owner.start("long", long())
        await asyncio.sleep(0)
        await owner.stop()
        assert [task.cancelled() for task in started] == [True]

    asyncio.run(test())


def test_a_failure_is_logged_unless_whoever_waits_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        owner = TaskGroupOwner("test")

        async def fails(error: Exception) -> None:
            raise error

        told = owner.start("told", fails(ConnectionResetError("away")), told=OSError)
        with pytest.raises(ConnectionResetError):
            await told
        for name, expected in (("alone", None), ("other", OSError)):
            with pytest.raises(ValueError):
                await owner.start(name, fails(ValueError("wrong")), told=expected)

    asyncio.run(test())
    assert [record.getMessage() for record in caplog.records] == [
        "task test.alone died: wrong", "task test.other died: wrong"
    ]  # fmt: skip


def test_what_is_started_after_the_stop_does_not_begin() -> None:
    async def test() -> None:
        owner = TaskGroupOwner("test")
        await owner.stop()

        async def work() -> None:
            raise AssertionError("began")

        task = owner.start("late", work())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(test())
