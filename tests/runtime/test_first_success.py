"""Several ways to the same result: a silent or failing one costs little."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.first_success import first_success

LONG_S, SHORT_S = 3600.0, 0.001
Attempt = Callable[[], Coroutine[Any, Any, str]]


class Ways:
    """Attempts that note what happened to them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    def silent(self, name: str) -> Attempt:
        async def attempt() -> str:
            self.begun.append(name)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            return name

        return attempt

    def good(self, name: str) -> Attempt:
        async def attempt() -> str:
            self.begun.append(name)
            return name

        return attempt

    def bad(self, error: Exception) -> Attempt:
        async def attempt() -> str:
            self.begun.append(str(error))
            raise error

        return attempt


def first(ways: list[Attempt], patience_s: float, **more: Any) -> tuple[int, str]:
    return asyncio.run(first_success(SystemClock(), ways, patience_s, **more))


def test_the_first_one_is_enough() -> None:
    ways = Ways()
    assert first([ways.good("a"), ways.good("b")], LONG_S) == (0, "a")
    assert ways.begun == ["a"]


def test_one_that_fails_makes_room_at_once() -> None:
    ways = Ways()
    assert first([ways.bad(OSError("no")), ways.good("b")], LONG_S) == (1, "b")


def test_one_that_is_silent_is_not_waited_for_and_is_ended() -> None:
    ways = Ways()
    assert first([ways.silent("a"), ways.silent("b"), ways.good("c")], SHORT_S) == (2, "c")
    assert ways.begun == ["a", "b", "c"] and sorted(ways.cancelled) == ["a", "b"]


def test_when_all_fail_the_last_error_is_raised() -> None:
    ways = Ways()
    with pytest.raises(OSError, match="second"):
        first([ways.bad(OSError("first")), ways.bad(OSError("second"))], SHORT_S)


def test_a_final_error_ends_all() -> None:
    ways = Ways()
    with pytest.raises(ValueError, match="wrong"):
        first(
            [ways.bad(ValueError("wrong")), ways.good("b")], LONG_S, final=lambda error: isinstance(error, ValueError)
        )
    assert ways.begun == ["wrong"]


def test_a_result_that_comes_too_late_is_dropped() -> None:
    dropped: list[str] = []

    async def test() -> tuple[int, str]:
        both = asyncio.Event()

        async def slow() -> str:
            await both.wait()
            return "slow"

        async def quick() -> str:
            both.set()
            return "quick"

        return await first_success(SystemClock(), [slow, quick], SHORT_S, drop=dropped.append)

    number, result = asyncio.run(test())
    assert {result, *dropped} <= {"slow", "quick"} and result not in dropped and number in (0, 1)


def test_the_caller_may_stop_waiting() -> None:
    ways = Ways()

    async def test() -> None:
        waiting = asyncio.ensure_future(first_success(SystemClock(), [ways.silent("a")], SHORT_S))
        while not ways.begun:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(test())
    assert ways.cancelled == ["a"]
