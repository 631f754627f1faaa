"""Several ways to the same result, such as the addresses of one name: a silent one must not cost the whole time.

Source of the idea: RFC 8305 (Happy Eyeballs).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from gantrymq.runtime.clock import Clock, time_limit

T = TypeVar("T")
Attempt = Callable[[], Coroutine[Any, Any, T]]


async def first_success(
    clock: Clock,
    attempts: Sequence[Attempt[T]],
    patience_s: float,
    *,
    final: Callable[[Exception], bool] = lambda error: False,
    drop: Callable[[T], object] = lambda result: None,
) -> tuple[int, T]:
    """The number and the result of the first attempt that succeeds.

    The next attempt begins when one has failed, or when ``patience_s`` passed without a result; those that began before
    continue. Raises the error of the last attempt when all fail, and at once an error that is ``final``. Attempts that
    are not needed any more are cancelled; ``drop`` gets the results that come too late.
    """
    running: dict[asyncio.Task[T], int] = {}
    begun = 0
    last: BaseException | None = None
    try:
        while True:
            if begun < len(attempts):
                running[asyncio.get_running_loop().create_task(attempts[begun]())] = begun
                begun += 1
            for task in await _some(clock, running, patience_s if begun < len(attempts) else None):
                number = running.pop(task)
                error = task.exception()
                if error is None:
                    return number, task.result()
                last = error
                if not isinstance(error, Exception) or final(error):
                    raise error
            if last is not None and not running and begun == len(attempts):
                raise last
    finally:
        await _end(running, drop)


async def _some(clock: Clock, running: dict[asyncio.Task[T], int], patience_s: float | None) -> list[asyncio.Task[T]]:
    """The tasks that have ended, in the order of their beginning; none when nothing ends within ``patience_s``."""
    if patience_s is None:
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    else:
        try:
            async with time_limit(clock, patience_s):
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return []
    return [task for task in running if task.done()]


async def _end(running: dict[asyncio.Task[T], int], drop: Callable[[T], object]) -> None:
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if not isinstance(result, BaseException):
            drop(result)
