"""An event loop whose time advances only when there is nothing left to do at the present moment.

It is asyncio's own loop with a different core: no selector, no sockets, and timers that fire in the order of their
times and, for equal times, in the order in which they were set. That order makes a run repeatable, and takes a third
of its cost.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any


class NothingToDo(RuntimeError):
    """Everything waits for something that will never happen."""


class _Call(asyncio.TimerHandle):
    """One call that is to be made. Lighter than asyncio's handles, which remember much for the sake of debugging."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., Any], arguments: tuple[Any, ...], loop: Any, context: Any, when: float
    ) -> None:
        self._callback = callback
        self._args = arguments
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._when = when

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = None

    def __repr__(self) -> str:
        return f"<call of {getattr(self._callback, '__qualname__', self._callback)} at {self._when:g} s>"

    _callback: Any
    _args: Any
    _loop: Any
    _context: contextvars.Context
    _cancelled: bool
    _when: float


class VirtualLoop(asyncio.BaseEventLoop):
    """``time()`` begins at 0 and jumps from one timer to the next; real files and sockets do not work on it."""

    _ready: deque[_Call]

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, _Call]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self._now

    # The three keep asyncio's promises; only how a type checker is told of the arguments differs.
    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        call = _Call(callback, args, self, context, self._now)
        self._ready.append(call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        call = _Call(callback, args, self, context, when)
        heapq.heappush(self._timers, (when, next(self._numbers), call))
        return call

    def _run_once(self) -> None:
        """One turn: what is ready, or what the next timer makes ready."""
        ready, timers = self._ready, self._timers
        if not ready:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
            if not timers:
                raise NothingToDo("every task waits and no timer runs")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            call = ready.popleft()
            if not call._cancelled:
                try:
                    call._context.run(call._callback, *call._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 as asyncio's own handles do
                    self.call_exception_handler({"message": "a call failed", "exception": error, "handle": call})

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""
