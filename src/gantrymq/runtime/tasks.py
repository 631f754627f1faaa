"""No task without an owner: start in order, stop in reverse, report what broke."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("gantrymq")


class TaskGroupOwner:
    """Owns background tasks of one component. A task that dies is logged with its name; ``stop`` cancels the rest."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}.{name}")
        self._tasks.append(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if task in self._tasks:
            self._tasks.remove(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task %s died: %s", task.get_name(), error, exc_info=error)

    async def stop(self) -> None:
        """Cancel every task, newest first, and wait until all have ended."""
        tasks = list(reversed(self._tasks))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
