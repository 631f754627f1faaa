"""Runs a call of the asyncio client step by step, in virtual time, and cancels it at a chosen step.

A step is one suspension of the call: it awaits something that is not there yet.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

THREAD_S: Final = 0.002
"""How long a function in a simulated thread takes."""
UNDER_WAY_S: Final = 0.0004
"""After a request was written, before its answer can be there."""


class When(enum.Enum):
    """When the cancellation comes, in relation to what the step waits for."""

    AT_ONCE = "at once"
    UNDER_WAY = "under way"
    """The request may have been executed, and its answer is not there."""
    WITH_ANSWER = "with the answer"
    """In the turn of the loop in which what was waited for is complete."""
    TWICE = "twice"
    """At once, and again at the first step of whatever the call does then."""


class Stepper:
    """Awaits ``work`` and counts its steps; cancels the task at one of them (0: never), or does something else then."""

    def __init__(
        self,
        work: Coroutine[Any, Any, Any],
        at: int = 0,
        when: When = When.AT_ONCE,
        instead: Callable[[], object] | None = None,
    ) -> None:
        self._work = work
        self._at = at
        self._when = when
        self._instead = instead
        self.steps = 0
        self.hit = False
        """Whether the cancellation found the call at work."""

    async def run(self) -> Any:
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._work.__await__()
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            self.steps += 1
            if self.steps == self._at or (self._when is When.TWICE and self.hit and self.steps == self._at + 1):
                self._cancel(waits_for)
            try:
                yield waits_for
                error = None
            except BaseException as thrown:
                error = thrown

    def _cancel(self, waits_for: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()

        def cancel(_: object = None) -> None:
            if self._instead is None:
                self.hit = task is not None and task.cancel()
            elif task is not None and not task.done():
                self.hit = True
                self._instead()

        if self._when is When.UNDER_WAY:
            asyncio.get_running_loop().call_later(UNDER_WAY_S, cancel)
        elif self._when is When.WITH_ANSWER and waits_for is not None:
            waits_for.add_done_callback(cancel)  # ahead of the one by which the task goes on
        else:
            cancel()


class SimThreads(ThreadPoolExecutor):
    """The threads of ``asyncio.to_thread`` in virtual time: a function runs a little later, on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(1)
        self._loop = loop

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(*arguments, **named))
            except BaseException as error:
                future.set_exception(error)

        self._loop.call_later(THREAD_S, run)
        return future
