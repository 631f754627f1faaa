"""Background tasks. Each has an owner, which stops its tasks in reverse order and logs their errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from gantrymq.errors import Closed

log = logging.getLogger("gantrymq")

K = TypeVar("K")
T = TypeVar("T")


class SharedWork(Generic[K, T]):
    """Work that is done once although several callers wait for it: a second caller joins the work of the first.

    A caller that stops waiting does not affect the others. When all callers have stopped waiting, the result is
    dropped.
    """

    def __init__(self) -> None:
        self._running: dict[K, asyncio.Task[T]] = {}

    async def join(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the work for ``key``. If none is running, ``work()`` begins it. Raises the errors of the work.

        Raises Closed when ``stop`` ended the work, because CancelledError would look as if the caller was cancelled.
        """
        task = self._running.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(work())
            self._running[key] = task
            task.add_done_callback(partial(self._ended, key))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise Closed("the wait was given up because the object is being closed") from None
            raise

    def _ended(self, key: K, task: asyncio.Task[T]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # reads the error, because asyncio logs errors that are never read

    async def stop(self) -> None:
        """Cancel all work, and wait until it has ended."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def with_end(work: Coroutine[Any, Any, None], end: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do ``work``, and ``end()`` behind it, whatever becomes of ``work``. For modules that are compiled: these must not
    wait in a ``finally`` block (``tools/mypyc_build/chosen.py``)."""
    try:
        await work
    finally:
        await end()


class TaskGroupOwner:
    """Owns the background tasks of one component. When a task fails, its name and error are logged, unless somebody
    waits for it who is told. ``stop`` cancels all tasks, for good: what is started later is cancelled before it
    begins."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """In the order of their starts. There may be thousands of short ones, so each is found at once."""
        self._stopped = False

    def start(
        self, name: str, work: Coroutine[Any, Any, Any], *, told: type[BaseException] | None = None
    ) -> asyncio.Task[Any]:
        """``told``: errors of this type are no failure of the task: whoever waits for it gets them."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}.{name}")
        self._tasks[task] = None
        task.add_done_callback(partial(self._ended, told))
        if self._stopped:  # requests that were under way fail when the connections close, which is after the tasks
            task.cancel()
        return task

    def _ended(self, told: type[BaseException] | None, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if told is None or not isinstance(error, told):
            log.error("task %s died: %s", task.get_name(), error, exc_info=error)

    async def stop(self) -> None:
        """Cancel every task, newest first, and wait until all have ended, with those that they started meanwhile."""
        self._stopped = True
        while tasks := list(reversed(self._tasks)):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
