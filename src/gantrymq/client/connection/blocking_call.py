"""One call of a blocking client, as the calling thread and the event loop see it.

Only the loop touches these objects. The one exception is the outcome, which does not change after it is announced.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from threading import get_ident
from typing import Any, Final, Generic, TypeVar

from gantrymq.errors import Closed

T = TypeVar("T")
A = TypeVar("A")
Work = Callable[..., Coroutine[Any, Any, T]]
GIVEN_UP: Final = "the call was given up because its client was closed"


class Call(Generic[T]):
    """One call from a waiting thread.

    The event loop puts into ``news`` the functions that the thread is to run, and None when there is an outcome.
    """

    __slots__ = ("arguments", "error", "given_up", "in_thread", "news", "result", "task", "thread", "work")

    def __init__(self, work: Work[T], arguments: tuple[Any, ...]) -> None:
        self.work = work
        self.arguments = arguments
        self.news: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.task: asyncio.Task[T] | None = None
        self.result: T | None = None
        self.error: BaseException | None = None
        self.given_up = False
        self.thread = get_ident()
        """Identifier of the thread that waits."""
        self.in_thread = False
        """Whether that thread is running a function of ``in_caller`` at the moment, instead of waiting."""

    async def in_caller(self, function: Callable[..., A], *arguments: Any) -> A:
        """Run a function in the calling thread, and return its result. An exception in it is raised in the calling
        thread, and this coroutine is cancelled."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()

        def run() -> None:
            outcome = function(*arguments)
            with contextlib.suppress(RuntimeError):  # the event loop is closed, and the call has been refused
                loop.call_soon_threadsafe(_answer, answer, outcome)

        self.in_thread = True
        self.news.put(run)
        try:
            return await answer
        finally:
            self.in_thread = False

    def done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.settle(None, Closed(GIVEN_UP))
        elif (error := task.exception()) is not None:
            self.settle(None, error)
        else:
            self.settle(task.result(), None)

    def refuse(self, error: Exception) -> None:
        self.settle(None, error)

    def settle(self, result: T | None, error: BaseException | None) -> None:
        self.result, self.error = result, error
        self.news.put(None)

    def outcome(self) -> T:
        """In the thread, when it is announced."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]


class Promise(Generic[T]):
    """One call whose caller does not wait; the outcome is in a future."""

    __slots__ = ("arguments", "future", "given_up", "task", "work")

    def __init__(self, work: Work[T], arguments: tuple[Any, ...]) -> None:
        self.work = work
        self.arguments = arguments
        self.future: Future[T] = Future()
        self.future.set_running_or_notify_cancel()
        self.given_up = False
        self.task: asyncio.Task[T] | None = None

    def done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.set_exception(Closed(GIVEN_UP))
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())

    def refuse(self, error: Exception) -> None:
        self.future.set_exception(error)


def _answer(answer: asyncio.Future[A], outcome: A) -> None:
    if not answer.done():
        answer.set_result(outcome)
