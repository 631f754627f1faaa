"""The one thread that owns the event loop of all blocking clients of a process.

It is started by the first client that starts and ends with the last one that closes. A forked child has none: its
memory holds the parent's objects, but not the parent's threads.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, Generic, TypeVar

from gantrymq.errors import Closed

log = logging.getLogger("gantrymq.client")
T = TypeVar("T")

JOIN_TIMEOUT_S: Final = 5.0
"""How long the end of the process waits for the thread."""

Work = Callable[..., Coroutine[Any, Any, T]]


class _Call(Generic[T]):
    """One call from a waiting thread: the lock is released when there is an outcome."""

    __slots__ = ("arguments", "error", "lock", "lost", "result", "task", "waiting", "work")

    def __init__(self, work: Work[T], arguments: tuple[Any, ...], lost: Callable[[T], None] | None) -> None:
        self.work = work
        self.arguments = arguments
        self.lost = lost
        self.lock = threading.Lock()
        self.lock.acquire()
        self.task: asyncio.Task[T] | None = None
        self.result: T | None = None
        self.error: BaseException | None = None
        self.waiting = True

    def done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.error = Closed("the call was given up because its client was closed")
        elif (error := task.exception()) is not None:
            self.error = error
        else:
            self.result = task.result()
            if not self.waiting and self.lost is not None:
                self.lost(self.result)
        self.lock.release()

    def refuse(self, error: Closed) -> None:
        self.error = error
        self.lock.release()


class _Promise(Generic[T]):
    """One call whose caller goes on; the outcome is in a future."""

    __slots__ = ("arguments", "future", "task", "work")

    def __init__(self, work: Work[T], arguments: tuple[Any, ...]) -> None:
        self.work = work
        self.arguments = arguments
        self.future: Future[T] = Future()
        self.future.set_running_or_notify_cancel()
        self.task: asyncio.Task[T] | None = None

    def done(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.set_exception(Closed("the call was given up because its client was closed"))
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())

    def refuse(self, error: Closed) -> None:
        self.future.set_exception(error)


class Portal:
    """Runs coroutines on its own loop for threads that wait for them."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._inbox: deque[_Call[Any] | _Promise[Any]] = deque()
        self._awake = False
        self._ended = False
        self._tasks: set[asyncio.Task[Any]] = set()
        """Calls at work: the loop itself holds its tasks only weakly."""
        self._thread = threading.Thread(target=self._run, name="gantrymq-portal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            # Whoever still waits is told so, and background tasks of clients that nobody closed end quietly.
            rest = asyncio.all_tasks(self._loop)
            for task in rest:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        finally:
            self._ended = True
            self._loop.close()
            self._refuse_rest()

    def call(self, work: Work[T], *arguments: Any, lost: Callable[[T], None] | None = None) -> T:
        """Run ``work(*arguments)`` on the loop and wait for it.

        An interrupt (Ctrl-C) cancels it and is raised at once. ``lost`` gets the result, on the loop, when it came
        too late to be cancelled and nobody waits for it any more.
        """
        self._check_thread()
        call = _Call(work, arguments, lost)
        self._enter(call)
        try:
            call.lock.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(self._give_up, call)
            raise
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    def submit(self, work: Work[T], *arguments: Any) -> Future[T]:
        """Run ``work(*arguments)`` on the loop. The future cannot be cancelled; its callbacks run on the loop."""
        promise = _Promise(work, arguments)
        self._enter(promise)
        return promise.future

    def post(self, call: Callable[..., object], *arguments: Any) -> None:
        """Run a plain function on the loop, soon."""
        self._loop.call_soon_threadsafe(call, *arguments)

    def _enter(self, call: _Call[Any] | _Promise[Any]) -> None:
        # One wake-up for all calls that come before the loop gets to them. The loop clears the flag before it empties
        # the inbox, so whoever sees the flag set has been seen, too.
        self._inbox.append(call)
        if not self._awake:
            self._awake = True
            with contextlib.suppress(RuntimeError):  # the loop is closed; see below
                self._loop.call_soon_threadsafe(self._drain)
        # Set before the last look into the inbox, so a call is either seen there or sees the mark here.
        if self._ended:
            self._refuse_rest()

    def _refuse_rest(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._inbox.popleft().refuse(Closed("all clients of this process are closed; create a new one"))

    def _drain(self) -> None:
        self._awake = False
        while self._inbox:
            call = self._inbox.popleft()
            task = self._loop.create_task(call.work(*call.arguments))
            call.task = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(call.done)

    @staticmethod
    def _give_up(call: _Call[Any]) -> None:
        call.waiting = False
        if call.task is None or call.task.done():
            if call.lost is not None and call.task is not None and call.error is None:
                call.lost(call.result)
            return
        call.task.cancel()

    def _check_thread(self) -> None:
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                "a blocking call was made on the client's own loop (in a callback of send_async?), where it would wait "
                "for itself; make it in another thread"
            )

    def stop(self) -> None:
        """End the loop and its thread; calls that still wait raise Closed."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            if threading.get_ident() != self._thread.ident:
                self._thread.join(JOIN_TIMEOUT_S)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_lock = threading.Lock()
_shared: Portal | None = None
_users = 0


def acquire() -> Portal:
    """The portal of this process; ``release`` it once for every ``acquire``."""
    global _shared, _users
    with _lock:
        if _shared is None:
            _shared = Portal()
        _users += 1
        return _shared


def release(portal: Portal) -> None:
    """The last user ends the thread."""
    global _shared, _users
    with _lock:
        if portal is not _shared:
            return
        _users -= 1
        if _users > 0:
            return
        _shared = None
    portal.stop()


def _at_exit() -> None:
    if _shared is not None:
        _shared.stop()


def _in_child() -> None:
    # The lock may have been held by a thread that does not exist here.
    global _lock, _shared, _users
    _lock = threading.Lock()
    _shared, _users = None, 0


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
