"""Knows when a local cluster is at rest, and lets time pass then.

At rest means: no event loop has a call to make, and no listener of a user is at work. To know it for sure, all loops
stand still at the same moment: each foreign loop (of asyncio clients) that has nothing to do waits in its own thread
until this is decided in the thread of the cluster's loop. What travels from loop to loop is a call that waits on the
receiving loop, so it cannot be missed; and a listener that runs in a thread is counted from the moment its messages
are handed to the thread until its answer has arrived on the loop. A listener that itself waits for a client, or for
time to pass, is not at work.

Virtual time moves only at rest, and only from one timer to the next: when the test advances it; or when the test
itself waits for a client, because then nobody else could move it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Final

import gantrymq
from gantrymq.client.connection.outside import StartedClient
from gantrymq.client.connection.portal import Portal
from gantrymq.errors import GantryError
from gantrymq.testing.local.awaited import Look, look_at
from gantrymq.testing.local.clock import VirtualClock
from gantrymq.testing.local.loop import LocalLoop, has_work

log = logging.getLogger("gantrymq.testing")

STAND_S: Final = 0.1
"""How long a foreign loop stands still at most; then it goes on, and is asked again."""
LOOK_AGAIN_S: Final = 0.001
LISTENER_THREADS: Final = ("gantrymq-consume", "gantrymq-check")


class NotAtRest(GantryError):
    """A listener of the test did not end in time."""

    what_to_do = (
        "Look what the listener waits for; a listener that waits for time needs `gantry.advance` from another thread."
    )


@dataclass(eq=False, slots=True)
class _Wait:
    """Somebody who waits until all is at rest and the time is ``until`` (None: the present)."""

    until: float | None
    over: asyncio.Future[None]
    one_step: bool = False
    """Only up to the next timer."""


class _Stand:
    """One foreign loop that is asked to stand still once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, notify: Callable[[], None]) -> None:
        self.loop = loop
        self.look = Look((), False)
        self.over = False
        """Whether it went on without waiting to be released; then it is asked anew."""
        self._still = self._held = False
        self._notify = notify
        self._lock = threading.Lock()
        self._released = threading.Event()

    def ask(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed
            self.loop.call_soon_threadsafe(self._stand)

    def _stand(self) -> None:
        if self._released.is_set():
            return
        if has_work(self.loop):
            self.loop.call_soon(self._stand)
            return
        self.look = look_at(self.loop, of_the_test=True)
        self._still = True
        self._notify()
        if self._released.wait(STAND_S):
            return
        with self._lock:
            self.over = not self._held
        if self.over:
            self._notify()
        else:
            self._released.wait()

    def holds(self) -> bool:
        """Whether it stands still with nothing to do, and will until it is released."""
        with self._lock:
            self._held = self._still and not self.over and not has_work(self.loop)
            return self._held

    @property
    def has_new_work(self) -> bool:
        return self._still and has_work(self.loop)

    def release(self) -> None:
        self._released.set()


class Rest:
    """One cluster's. All but ``stirred`` belongs to the thread of the cluster's loop."""

    def __init__(self, loop: LocalLoop, patience_s: float) -> None:
        self.clock: VirtualClock | None = None
        self.endpoints: list[StartedClient] = []
        self.foreign: set[asyncio.AbstractEventLoop] = set()
        """Loops that asyncio clients use."""
        self.portal: Portal | None = None
        self._loop = loop
        self._patience_s = patience_s
        self._owner = threading.get_ident()
        self._waits: list[_Wait] = []
        self._stands: dict[asyncio.AbstractEventLoop, _Stand] = {}
        self._stirred = False
        self._busy_since = 0.0
        self._places: list[str] = []
        self._gave_up = False
        """Whether the listeners at work took too long for a client that the test waits for, as one being closed."""
        self._poll: asyncio.TimerHandle | None = None

    def stirred(self) -> None:
        """Something crossed to another loop, or a timer was set: code of the test may wait for time to pass now."""
        if not self._stirred:
            self._stirred = True
            if threading.get_ident() != self._loop_thread:
                self._wake()

    _loop_thread = 0

    def begin(self) -> None:
        """To be called on the loop."""
        self._loop_thread = threading.get_ident()
        self._loop.when_idle = self._idle

    def end(self) -> None:
        self._loop.when_idle = lambda: None
        self._let_go()
        for wait in self._waits:
            wait.over.cancel()

    async def reach(self, until: float | None, *, one_step: bool = False) -> None:
        """Return when all is at rest at that time; raises NotAtRest."""
        wait = _Wait(until, self._loop.create_future(), one_step)
        self._waits.append(wait)
        self._busy_since = 0.0
        try:
            await wait.over
        finally:
            if wait in self._waits:
                self._waits.remove(wait)

    # When the loop has nothing to do.

    def _idle(self) -> None:
        try:
            self._consider()
        except Exception as error:
            log.exception("the local cluster cannot let time pass")
            for wait in self._waits:
                if not wait.over.done():
                    wait.over.set_exception(error)

    def _consider(self) -> None:
        asked = any(not wait.over.done() for wait in self._waits)
        foreign = [loop for loop in self.foreign if loop.is_running() and not self._blocked_in_call(loop)]
        if not asked and (self.clock is None or not (self._caller_waits() or (self._stirred and foreign))):
            self._let_go()
            return
        if not self._all_stand(foreign):
            self._be_patient(asked)
            return
        looks = [stand.look for stand in self._stands.values()]
        if not self._listeners(looks):
            self._gave_up = False
        elif asked or not self._gave_up:
            self._let_go()
            self._be_patient(asked)
            return
        if has_work(self._loop):
            return  # it came from another thread before that stood still, or began to wait; we are back at once
        self._busy_since = 0.0
        self._at_rest(any(look.wanted for look in looks))
        self._let_go()

    def _at_rest(self, wanted: bool) -> None:
        clock = self.clock
        wait = min(
            (wait for wait in self._waits if not wait.over.done()),
            key=lambda wait: -1.0 if wait.until is None else wait.until,
            default=None,
        )
        due = None if clock is None else clock.next_due()
        if clock is None or (wait is not None and (wait.until is None or due is None or due > wait.until)):
            if wait is not None:
                if clock is not None and wait.until is not None:
                    clock.move_to(wait.until)
                wait.over.set_result(None)
            return
        if wait is None and not (wanted or self._caller_waits()):
            self._stirred = False
        elif due is not None:
            clock.move_to(due)
            if wait is not None and wait.one_step:
                wait.until, wait.one_step = None, False
            self._loop.call_soon(lambda: None)  # come here again, also when another loop has the timer
        else:
            self._stirred = False

    def _all_stand(self, foreign: list[asyncio.AbstractEventLoop]) -> bool:
        """Whether all other loops stand still and have nothing to do; they are asked to, if not."""
        for loop in [loop for loop in self._stands if loop not in foreign]:
            self._stands.pop(loop).release()
        for loop in foreign:
            stand = self._stands.get(loop)
            if stand is not None and (stand.over or stand.has_new_work):
                stand.release()
                stand = None
            if stand is None:
                stand = self._stands[loop] = _Stand(loop, self._wake)
                stand.ask()
        return all([stand.holds() for stand in self._stands.values()])

    def _let_go(self) -> None:
        for stand in self._stands.values():
            stand.release()
        self._stands.clear()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(lambda: None)

    # Who is at work, and who waits.

    def _listeners(self, looks: list[Look]) -> int:
        """Calls of listeners at work, but for those that wait for a client."""
        at_work = sum(count() for endpoint in self.endpoints for count in endpoint.listeners)
        if at_work and self.portal is not None:
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            at_work -= self.portal.calls_of(lambda number: names.get(number, "").startswith(LISTENER_THREADS))
        tasks = [place for look in (look_at(self._loop, of_the_test=False), *looks) for place in look.listeners]
        self._places = tasks
        return at_work + len(tasks)

    def _caller_waits(self) -> bool:
        """Whether the test waits for a call of a blocking client."""
        return self.portal is not None and self.portal.calls_of(lambda number: number == self._owner) > 0

    def _blocked_in_call(self, loop: asyncio.AbstractEventLoop) -> bool:
        thread = getattr(loop, "_thread_id", None)
        return self.portal is not None and self.portal.calls_of(lambda number: number == thread) > 0

    def _be_patient(self, asked: bool) -> None:
        now = time.monotonic()
        if not self._busy_since:
            self._busy_since = now
        if now - self._busy_since > self._patience_s:
            error = NotAtRest(f"time cannot pass: {self._who_is_busy()}")
            self._busy_since = now
            for wait in self._waits:
                if not wait.over.done():
                    wait.over.set_exception(error)
            if not asked:
                log.warning("%s; it passes without it, for the test waits for a client", error)
                self._gave_up = True
        if self._poll is None or self._poll.when() <= self._loop.time():
            self._poll = self._loop.call_later(LOOK_AGAIN_S, lambda: None)

    def _who_is_busy(self) -> str:
        frames = sys._current_frames()
        places = [
            (_place(frames[thread.ident]), thread.name)
            for thread in threading.enumerate()
            if thread.ident in frames and thread.name.startswith(LISTENER_THREADS)
        ]
        words = [f"a listener is still at {place} (thread {name})" for place, name in places if place]
        words += [f"an async listener is still at {place}" for place in self._places]
        return "; ".join(words) or f"an event loop has not come to rest within {self._patience_s:g} s"


_NOT_THE_USERS: Final = (os.path.dirname(gantrymq.__file__), sysconfig.get_paths()["stdlib"])


def _place(frame: FrameType | None) -> str:
    """Where the user's code is, from the innermost frame on; nothing when none of it runs."""
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
