"""Work in a task whose result or error goes to a callback, once, whatever happens to the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gantrymq.errors import Closed
from gantrymq.runtime.tasks import TaskGroupOwner

T = TypeVar("T")


def in_task(
    tasks: TaskGroupOwner, name: str, work: Coroutine[Any, Any, T], then: Callable[[T | BaseException], None]
) -> None:
    """Run ``work`` in a task of ``tasks``. ``then`` gets Closed when the task is cancelled, which its owner does when
    the client is closed."""

    def ended(task: asyncio.Task[Any]) -> None:
        work.close()  # a task that is cancelled before its first step never began it
        then(outcome_of(task))

    tasks.start(name, _caught(work)).add_done_callback(ended)


async def _caught(work: Coroutine[Any, Any, T]) -> T | Exception:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - the callback gets it
        return error


def outcome_of(done: asyncio.Future[T]) -> T | BaseException:
    """Of a future that is done."""
    if done.cancelled():
        return Closed("the client was closed before a half message was stored or ended")
    return done.exception() or done.result()
