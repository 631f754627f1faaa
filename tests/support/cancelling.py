"""Cancels an asyncio call at each of its steps in turn, as ``task.cancel()`` or a time limit in a program does."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def _stepped(work: Coroutine[Any, Any, T], at: int, *, late: bool) -> Generator[Any, Any, T]:
    step = 0
    error: BaseException | None = None
    while True:
        try:
            waits_for = work.send(None) if error is None else work.throw(error)
        except StopIteration as done:
            result: T = done.value
            return result
        task = asyncio.current_task()
        assert task is not None
        if step == at and not late:
            task.cancel()
        error = None
        try:
            yield waits_for
        except BaseException as failure:
            error = failure
        if step == at and late:
            error = asyncio.CancelledError()
        step += 1


async def cancelled_at(work: Coroutine[Any, Any, T], step: int, *, late: bool = False) -> tuple[bool, T | None]:
    """Run ``work``, and cancel it when it waits for the ``step``-th time. ``late``: cancel it when the awaited result
    has just arrived.

    Returns whether it was cancelled, and its result if it was not.
    """

    async def run() -> T:
        return await _stepped(work, step, late=late)

    try:
        return False, await asyncio.create_task(run())
    except asyncio.CancelledError:
        return True, None


async def at_every_step(make: Callable[[], Coroutine[Any, Any, T]], *, most: int = 200) -> AsyncIterator[T | None]:
    """Cancel calls of ``make`` at the first step, at the second, and so on, until a call ends before it is cancelled.
    This is done early and then late. Yields None after each cancelled call, and the results of the two others."""
    for late in (False, True):
        for step in range(most):
            cancelled, result = await cancelled_at(make(), step, late=late)
            yield result
            if not cancelled:
                break
        else:
            raise AssertionError(f"still cancelled at step {most}")
