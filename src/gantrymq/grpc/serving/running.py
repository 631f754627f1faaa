"""Carries out a coroutine, beginning at once.

A task of asyncio begins in the next turn of its loop. A call is begun in the turn in which it came: what it stores is
then written together with that of the other calls of the turn, and the server sees how long a turn takes. From Python
3.12 on, asyncio has eager tasks for this.
"""

from __future__ import annotations

from asyncio import CancelledError, Future, get_running_loop
from collections.abc import Callable, Coroutine
from typing import Any

Done = Callable[[BaseException | None], None]


class Running:
    """What is carried out may wait for futures, and for whatever waits for them. It must not ask which task it is in,
    as ``asyncio.timeout`` does. ``done``: called with the error that ended it, or None."""

    __slots__ = ("_cancelled", "_done", "_steps", "_waits_for")

    def __init__(self, work: Coroutine[Any, Any, None], done: Done) -> None:
        self._steps = work
        self._done: Done | None = done
        self._waits_for: Future[Any] | None = None
        self._cancelled = False

    def begin(self) -> None:
        """Go on until it waits for the first time."""
        self._step(None)

    def cancel(self) -> None:
        """End it where it waits, with CancelledError; harmless when it is over."""
        self._cancelled = True
        if self._waits_for is not None:
            self._waits_for.cancel()

    def _step(self, waited: Future[Any] | None) -> None:
        """``waited``: what is done now. A future gives its result, or raises, when it is awaited on."""
        self._waits_for = None
        try:
            future = self._steps.send(None)
        except StopIteration:
            self._end(None)
        except (Exception, CancelledError) as error:  # noqa: BLE001 # whoever is told decides
            self._end(error)
        else:
            self._wait(future)

    def _wait(self, future: Any) -> None:
        if future is None:  # ``asyncio.sleep(0)``: another turn
            get_running_loop().call_soon(self._step, None)
            return
        future._asyncio_future_blocking = False  # what a task does to say that it has understood
        self._waits_for = future
        future.add_done_callback(self._step)
        if self._cancelled:
            future.cancel()

    def _end(self, error: BaseException | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)
