"""The thread that runs the event loop of all blocking clients of a process; ``portals`` keeps it.

An interrupt (Ctrl-C, a signal handler that raises) may come between any two steps of a calling thread, and a signal
handler may make calls there, too. Therefore only the event loop's thread may hold a lock, or have an unfinished state
on which another call depends. Each step of a calling thread is one operation that is either done or not done, and that
may be repeated.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar, cast

from gantrymq.client.connection.blocking_call import Call, Promise, Work
from gantrymq.errors import Closed

log = logging.getLogger("gantrymq.client")
T = TypeVar("T")

JOIN_TIMEOUT_S: Final = 5.0
"""How long the end of the process, and the ``close`` of the last client, wait for the thread to end."""

Closing = Callable[[], Coroutine[Any, Any, None]]
ALL_CLOSED: Final = "all clients of this process are closed; create a new one"


class Portal:
    """Runs coroutines on its own loop for threads that wait for them."""

    def __init__(self, take_out: Callable[[Portal], bool], loop: asyncio.AbstractEventLoop | None = None) -> None:
        """``take_out``: takes the portal out of the register when its last user has left; false when a new user came
        meanwhile. ``loop``: the event loop that the thread runs; None: a new uvloop, or asyncio's where uvloop is
        missing."""
        self._take_out = take_out
        self._claim = [None]
        """The thread that runs the loop takes this item. A second thread that was started finds it gone, and ends."""
        self._loop = _new_loop() if loop is None else loop
        self._calls: set[Call[Any] | Promise[Any]] = set()
        """The calls that have no outcome yet. They keep their tasks alive, to which the loop has only weak
        references."""
        self._users: dict[object, Closing] = {}
        """The clients between their start and the end of their ``close``, each with the function that drops its
        connections."""
        self._closing: dict[object, asyncio.Task[None]] = {}
        """The tasks that close clients, by client."""
        self._worker: threading.Thread | None = None
        self._stopping = False
        self._ended = False

    def __del__(self) -> None:
        # An ``acquire`` that was interrupted has made this portal, and no client uses it.
        if getattr(self, "_claim", None) and hasattr(self, "_loop"):
            self._loop.close()

    def _run(self) -> None:
        try:
            self._claim.pop()
        except IndexError:
            return
        self._worker = threading.current_thread()
        _threads.add(threading.get_ident())
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopping:
                self._survive(self._loop.run_forever)
            self._survive(self._drop_users)
            # Calls that still wait raise Closed, and background tasks of clients that were not closed end quietly.
            while rest := asyncio.all_tasks(self._loop):
                self._survive(self._end, rest)
        finally:
            self._ended = True
            self._loop.close()
            self._refuse_rest()
            _threads.discard(threading.get_ident())

    def _drop_users(self) -> None:
        """Drop the connections of clients that were not closed before the end of the process. uvloop would wait for
        open connections."""
        drops = [asyncio.ensure_future(drop(), loop=self._loop) for drop in list(self._users.values())]
        self._loop.run_until_complete(asyncio.gather(*drops, return_exceptions=True))

    def _end(self, tasks: set[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    @staticmethod
    def _survive(run: Callable[..., None], *arguments: Any) -> None:
        try:
            run(*arguments)
        except BaseException as error:
            # asyncio ends the event loop when a callback raises SystemExit or KeyboardInterrupt. A callback of one
            # client must not end the loop of all clients, so the loop runs again.
            log.error(
                "%r was raised on the thread of the blocking clients; the thread continues", error, exc_info=error
            )

    # Calls.

    def call(self, work: Work[T], *arguments: Any) -> T:
        """Run ``work(*arguments)`` on the loop and wait for it.

        An interrupt (Ctrl-C) is raised at once and cancels the work. It is also raised when it comes too late to
        cancel the work, which may then have been done.
        """
        check_thread()
        return self._wait(Call(work, arguments))

    def converse(self, work: Work[T], *arguments: Any) -> T:
        """Run ``work(in_caller, *arguments)`` as ``call`` does. The work may ``await in_caller(function, ...)``, which
        runs a function in the calling thread. An error in the function is raised here, and the work is cancelled."""
        check_thread()
        call = Call(work, ())
        call.arguments = (call.in_caller, *arguments)
        return self._wait(call)

    def ask(self, function: Callable[..., object], *arguments: Any) -> Callable[[], Any]:
        """Run ``function(done, *arguments)`` on the loop; it is not ``async def``. It calls ``done(result, error)``
        there, at once or later. Returns a function that waits for that, and returns the result or raises the error.

        This needs no task. An interrupt during the wait is raised at once, and does not stop the work.
        """
        call: Call[Any] = Call(cast("Work[Any]", function), arguments)
        try:
            self._enter(call, self._begin_to_answer)
        except BaseException:
            self._abandon(call)
            raise
        return partial(_await, call)

    def listen(self, function: Callable[..., object], *arguments: Any) -> Callable[[], Any]:
        """As ``ask``, but ``function(done, *arguments)`` runs here, in the calling thread, and the loop is not woken.
        ``done`` may be called twice with the same result."""
        call: Call[Any]
        call = Call(cast("Work[Any]", function), arguments)
        self._calls.add(call)
        try:
            function(partial(self._answered, call), *arguments)
        except BaseException:
            self._abandon(call)
            raise
        if self._ended:  # as in ``_enter``
            self._refuse_rest()
        return partial(_await, call)

    def _wait(self, call: Call[T]) -> T:
        try:
            self._enter(call, self._begin)
            _listen(call)
        except BaseException:
            self._abandon(call)
            raise
        return call.outcome()

    def submit(self, work: Work[T], *arguments: Any) -> Future[T]:
        """Run ``work(*arguments)`` on the loop. The future cannot be cancelled; its callbacks run on the loop."""
        promise = Promise(work, arguments)
        try:
            self._enter(promise, self._begin)
        except BaseException:
            self._abandon(promise)
            raise
        return promise.future

    def _abandon(self, call: Call[Any] | Promise[Any]) -> None:
        """An interrupt has ended the caller's wait: cancel the work. If another interrupt comes meanwhile, this is
        tried again."""
        try:
            self.post(self._give_up, call)
        except BaseException:
            self.post(self._give_up, call)
            raise

    def _give_up(self, call: Call[Any] | Promise[Any]) -> None:
        call.given_up = True
        if call.task is not None:
            call.task.cancel()
        else:
            self._calls.discard(call)

    def _enter(self, call: Call[Any] | Promise[Any], begin: Callable[[Any], None]) -> None:
        self._calls.add(call)
        self.post(begin, call)
        # ``_ended`` is set before the loop looks at the calls for the last time. So a call is either seen by the loop,
        # or it sees the mark here.
        if self._ended:
            self._refuse_rest()

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function that is not ``async def`` on the event loop, soon. It never runs when the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _refuse_rest(self) -> None:
        with contextlib.suppress(KeyError):
            while True:
                self._calls.pop().refuse(Closed(ALL_CLOSED))

    def _begin(self, call: Call[Any] | Promise[Any]) -> None:
        if call.given_up or call not in self._calls:
            return
        try:
            task = call.task = self._loop.create_task(call.work(*call.arguments))
        except Exception as error:  # noqa: BLE001 - it is raised where the call was made
            self._calls.discard(call)
            call.refuse(error)
            return
        task.add_done_callback(lambda done: self._finish(call, done))

    def _finish(self, call: Call[Any] | Promise[Any], task: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        # The last reference to the task is dropped here, on the loop. Elsewhere an interrupt that comes during the
        # callback of a weak reference would only be printed, and lost.
        call.task = None
        call.done(task)

    def _begin_to_answer(self, call: Call[Any]) -> None:
        if call.given_up or call not in self._calls:
            return
        function: Callable[..., object] = call.work
        try:
            function(partial(self._answered, call), *call.arguments)
        except Exception as error:  # noqa: BLE001 - it is raised where the call was made
            self._answered(call, None, error)

    def _answered(self, call: Call[Any], result: Any, error: BaseException | None) -> None:
        if call in self._calls:  # otherwise it was refused
            self._calls.discard(call)
            call.settle(result, error)

    # Start and end.

    def hold(self, user: object, drop: Closing) -> None:
        """``user`` needs this portal until ``leave``."""
        self._users[user] = drop

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def forgotten(self) -> list[object]:
        """The clients that nobody closed, nor began to close."""
        return [user for user in self._users if user not in self._closing]

    def discard(self) -> None:
        """Close the loop of a portal that was never started."""
        self._loop.close()

    def start(self) -> None:
        """Start the thread, unless it is running.

        Thread.start waits, and an interrupt during that wait breaks its locks. So it is called in another thread, where
        no signal arrives; starting that one is a single step.
        """
        if self._claim:
            _thread.start_new_thread(self._start_thread, ())

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._run, name="gantrymq-portal", daemon=True).start()
        except RuntimeError:  # the limit of threads was reached just now: use this thread
            self._run()

    def leave(self, user: object) -> None:
        """``user`` no longer needs the portal; when it was the last user, the thread ends. Call this on the loop."""
        self._users.pop(user, None)
        if self._users or self._stopping:
            return
        if not self._take_out(self):
            return
        self._stopping = True
        self._loop.call_soon(self._loop.stop)

    async def shut(self, close: Closing, user: object) -> None:
        """Await ``close()`` for ``user``, and let it leave. This continues when the caller stops waiting for it."""
        await asyncio.shield(self.begin_to_shut(close, user))

    def begin_to_shut(self, close: Closing, user: object) -> asyncio.Task[None]:
        """Like ``shut``, without waiting. Call this on the loop. A ``close`` that has begun is not begun again."""
        task = self._closing.get(user)
        if task is None:
            task = self._closing[user] = self._loop.create_task(self._close(close, user))
        return task

    async def _close(self, close: Closing, user: object) -> None:
        try:
            await close()
        finally:
            self._closing.pop(user)
            self.leave(user)

    def join(self) -> None:
        """If the thread is about to end, wait for it."""
        thread = self._worker
        if self._stopping and thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIMEOUT_S)

    @property
    def users(self) -> list[object]:
        """The clients that are started and not closed."""
        return list(self._users)

    def calls_of(self, wanted: Callable[[int], bool]) -> int:
        """How many threads with an identifier that is ``wanted`` wait here for the outcome of a call."""
        calls = list(self._calls)
        return sum(isinstance(call, Call) and not call.in_thread and wanted(call.thread) for call in calls)

    def stop(self) -> None:
        """End the loop and its thread; calls that still wait raise Closed."""
        self._stopping = True
        self.post(self._loop.stop)
        self.join()


def _listen(call: Call[Any]) -> None:
    """Wait for the outcome, and run functions that the loop has for the thread meanwhile."""
    while (function := call.news.get()) is not None:
        function()


def _await(call: Call[T]) -> T:
    check_thread()
    _listen(call)
    return call.outcome()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_threads: Final[set[int]] = set()
"""The threads that run the event loop of a portal at the moment."""


def check_thread() -> None:
    """Raise RuntimeError on a portal's own thread, where a call would wait for itself."""
    if threading.get_ident() in _threads:
        raise RuntimeError(
            "a blocking call was made on the client's own loop (in a callback of send_async?), where it would wait "
            "for itself; make it in another thread"
        )


def forget_threads() -> None:
    """In a forked child, which has none of the parent's threads."""
    _threads.clear()
