"""The one thread that runs the event loop of all blocking clients of a process.

The first client that starts begins the thread, and the last one that closes ends it. A forked child has no such
thread: its memory contains the parent's objects, but not the parent's threads.

An interrupt (Ctrl-C, a signal handler that raises) may come between any two steps of a calling thread, and a signal
handler may make calls there, too. Therefore only the loop's own thread ever holds a lock, or a half-made state on
which another call depends. Every step of a calling thread is one operation that is either done or not done, and that
may be repeated.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import contextlib
import logging
import os
import threading
import warnings
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from gantrymq.client.connection.blocking_call import Call, Promise, Work
from gantrymq.errors import Closed

log = logging.getLogger("gantrymq.client")
T = TypeVar("T")

JOIN_TIMEOUT_S: Final = 5.0
"""How long the end of the process, and the last client's ``close``, wait for the thread."""

Closing = Callable[[], Coroutine[Any, Any, None]]
ALL_CLOSED: Final = "all clients of this process are closed; create a new one"


class Portal:
    """Runs coroutines on its own loop for threads that wait for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """``loop``: what its thread runs; None: the fastest there is."""
        self._claim = [None]
        """Taken by the thread that runs the loop; another one that was started for it finds nothing and ends."""
        self._loop = _new_loop() if loop is None else loop
        self._calls: set[Call[Any] | Promise[Any]] = set()
        """Calls that were made and have no outcome: the loop itself holds its tasks only weakly."""
        self._users: dict[object, Closing] = {}
        """The clients between their start and the end of their close, each with what drops its connections."""
        self._closing: dict[object, asyncio.Task[None]] = {}
        """Clients that are being closed, by user."""
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._ended = False

    def __del__(self) -> None:
        # An interrupted ``acquire`` made it, and nobody uses it.
        if getattr(self, "_claim", None) and hasattr(self, "_loop"):
            self._loop.close()

    def _run(self) -> None:
        try:
            self._claim.pop()
        except IndexError:
            return
        self._thread = threading.current_thread()
        _threads.add(threading.get_ident())
        asyncio.set_event_loop(self._loop)
        try:
            while not self._stopping:
                self._survive(self._loop.run_forever)
            self._survive(self._drop_users)
            # Whoever still waits is told so, and background tasks of clients that nobody closed end quietly.
            while rest := asyncio.all_tasks(self._loop):
                self._survive(self._end, rest)
        finally:
            self._ended = True
            self._loop.close()
            self._refuse_rest()
            _threads.discard(threading.get_ident())

    def _drop_users(self) -> None:
        """The process ends, and these were never closed: connections that are left open would hold up uvloop."""
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
            # asyncio lets a SystemExit or KeyboardInterrupt of any callback out of the loop; the code of one client's
            # user must not end the loop of all the others.
            log.error(
                "%r was raised on the thread of the blocking clients; the thread continues", error, exc_info=error
            )

    # Calls.

    def call(self, work: Work[T], *arguments: Any) -> T:
        """Run ``work(*arguments)`` on the loop and wait for it.

        An interrupt (Ctrl-C) is raised at once and cancels the work. It is also raised when it comes too late to
        cancel anything: then the work may have been done.
        """
        check_thread()
        return self._wait(Call(work, arguments))

    def converse(self, work: Work[T], *arguments: Any) -> T:
        """Run ``work(in_caller, *arguments)`` as ``call`` does. Meanwhile ``await in_caller(function, ...)`` runs a
        function in the calling thread. What that raises is raised here, and the work is cancelled."""
        check_thread()
        call = Call(work, ())
        call.arguments = (call.in_caller, *arguments)
        return self._wait(call)

    def _wait(self, call: Call[T]) -> T:
        try:
            self._enter(call)
            while (function := call.news.get()) is not None:
                function()
        except BaseException:
            self._abandon(call)
            raise
        if call.error is not None:
            raise call.error
        return call.result  # type: ignore[return-value]

    def submit(self, work: Work[T], *arguments: Any) -> Future[T]:
        """Run ``work(*arguments)`` on the loop. The future cannot be cancelled; its callbacks run on the loop."""
        promise = Promise(work, arguments)
        try:
            self._enter(promise)
        except BaseException:
            self._abandon(promise)
            raise
        return promise.future

    def _abandon(self, call: Call[Any] | Promise[Any]) -> None:
        """An interrupt ended the caller's wait: the work must learn that nobody waits for it. If another interrupt
        comes in between, this is tried again."""
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

    def _enter(self, call: Call[Any] | Promise[Any]) -> None:
        self._calls.add(call)
        self.post(self._begin, call)
        # Set before the last look at the calls, so a call is either seen there or sees the mark here.
        if self._ended:
            self._refuse_rest()

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a plain function on the loop, soon; never when the loop has ended."""
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
        # The task ends here, on the loop: where a weak reference dies an interrupt is printed, and lost.
        call.task = None
        call.done(task)

    # Life.

    def _start(self) -> None:
        """Have the thread run; for nothing when it runs already.

        Thread.start waits, and an interrupt in the middle of that breaks its locks. So it is called where no signal
        comes: in a thread of its own, which a single step starts.
        """
        if self._claim:
            _thread.start_new_thread(self._start_thread, ())

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._run, name="gantrymq-portal", daemon=True).start()
        except RuntimeError:  # no more threads, in the moment since this one was started: run in it
            self._run()

    def leave(self, user: object) -> None:
        """To be called on the loop: ``user`` needs it no more. The last one ends the thread."""
        self._users.pop(user, None)
        if self._users or self._stopping:
            return
        if _portals.get(os.getpid()) is self:
            del _portals[os.getpid()]
            if self._users:  # somebody acquired it in between, perhaps without seeing that it is gone
                _portals.setdefault(os.getpid(), self)
                return
        self._stopping = True
        self._loop.call_soon(self._loop.stop)

    async def shut(self, close: Closing, user: object) -> None:
        """``close()`` the client of ``user`` and let it leave. Whoever gives up waiting for that does not stop it."""
        await asyncio.shield(self.begin_to_shut(close, user))

    def begin_to_shut(self, close: Closing, user: object) -> asyncio.Task[None]:
        """The same without waiting; to be called on the loop. What has begun is not begun again."""
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
        """Wait for the thread when it is about to end."""
        thread = self._thread
        if self._stopping and thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIMEOUT_S)

    @property
    def users(self) -> list[object]:
        """The clients that are started and not closed."""
        return list(self._users)

    def calls_of(self, wanted: Callable[[int], bool]) -> int:
        """How many threads, of those whose number is ``wanted``, wait here for the outcome of a call."""
        calls = list(self._calls)
        return sum(isinstance(call, Call) and not call.in_thread and wanted(call.thread) for call in calls)

    def stop(self) -> None:
        """End the loop and its thread; calls that still wait raise Closed."""
        self._stopping = True
        self.post(self._loop.stop)
        self.join()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


_portals: Final[dict[int, Portal]] = {}
"""The portal of this process, by its id."""

_inherited: Final[list[Portal]] = []
"""Those of the processes that this one was forked from: nobody may touch their loops here, not even to free them."""

_set_aside: Final[dict[Portal, Portal | None]] = {}
"""A portal that somebody brought, and the one whose place it took."""

_threads: Final[set[int]] = set()
"""The threads that run a portal's loop now."""


def check_thread() -> None:
    """Raise RuntimeError on a portal's own thread, where nobody may wait for the portal."""
    if threading.get_ident() in _threads:
        raise RuntimeError(
            "a blocking call was made on the client's own loop (in a callback of send_async?), where it would wait "
            "for itself; make it in another thread"
        )


def acquire(user: object, drop: Closing) -> Portal:
    """The portal of this process. ``user`` holds it until ``Portal.leave``; to acquire it twice is to acquire it once.

    ``drop``: closes its connections, when the process ends and nobody has closed it.
    """
    process = os.getpid()
    left: list[Portal] = []
    while True:
        portal = _portals.get(process)
        if portal is None:
            mine = Portal()
            portal = _portals.setdefault(process, mine)
            if portal is not mine:
                mine._loop.close()
        portal._start()
        portal._users[user] = drop
        if _portals.get(process) is portal:
            break
        left.append(portal)  # its last user left just now; it may have seen us, or not
    for other in left:
        if other is not portal:
            other.post(other.leave, user)
    return portal


def bring(loop: asyncio.AbstractEventLoop, user: object, drop: Closing) -> Portal:
    """Have clients that start from now on share a portal with this ``loop``. Those that run already keep theirs.

    ``user`` holds it, as after ``acquire``; ``take_away`` ends it.
    """
    portal = Portal(loop)
    _set_aside[portal] = _portals.pop(os.getpid(), None)
    portal._users[user] = drop
    _portals[os.getpid()] = portal
    portal._start()
    return portal


def take_away(portal: Portal) -> None:
    """End a portal that ``bring`` made, and put back the one whose place it took, if that still runs."""
    before = _set_aside.pop(portal, None)
    if _portals.get(os.getpid()) is portal:
        del _portals[os.getpid()]
    portal.stop()
    if before is not None and not before._stopping:
        _portals.setdefault(os.getpid(), before)


def release(user: object) -> None:
    """Let go of a portal whose ``acquire`` was interrupted. Anybody may call it, also for nothing."""
    portal = _portals.get(os.getpid())
    if portal is not None:
        portal.post(portal.leave, user)


def _at_exit() -> None:
    portal = _portals.get(os.getpid())
    if portal is not None:
        forgotten = [user for user in portal._users if user not in portal._closing]
        portal.stop()
        for user in forgotten:
            words = f"a {type(user).__name__} was not closed; use it in a `with` block, or call close()"
            warnings.warn(words, ResourceWarning, source=user, stacklevel=1)


def _in_child() -> None:
    _inherited.extend(_portals.values())
    _inherited.extend(portal for portal in _set_aside.values() if portal is not None)
    _portals.clear()
    _set_aside.clear()
    _threads.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
