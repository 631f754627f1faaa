"""Runs the listener of a push consumer, in threads or as tasks, and brings its results back to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from gantrymq.client.listener import described, goes_on, is_async
from gantrymq.client.message_listener import AGAIN, MessageListener, read_answer
from gantrymq.client.metrics.figures import ReadFigures
from gantrymq.client.results import ReconsumeLater
from gantrymq.message.message import MessageView

log = logging.getLogger("gantrymq.client")


class Measured(Protocol):
    """What a batch belongs to."""

    @property
    def figures(self) -> ReadFigures:
        """Where the calls of the listener are counted, on the event loop."""


Owner = TypeVar("Owner", bound=Measured)
OwnerIn = TypeVar("OwnerIn", contravariant=True)
Finished = Callable[[Owner, list[MessageView], ReconsumeLater | None], None]
"""Called with the owner of a batch, its messages, and when to deliver them again; None: they are consumed."""


class ConsumePool(Protocol[OwnerIn]):
    """Where batches wait for the listener. Right before the listener is called, ``wanted`` is: messages of a queue that
    was lost meanwhile are dropped."""

    def put(self, owner: OwnerIn, batch: list[MessageView], since: float) -> None:
        """``since``: when it began to wait for the listener, in monotonic seconds."""

    @property
    def running(self) -> int:
        """The number of running listeners, without those that called ``excuse``."""

    @property
    def in_threads(self) -> int:
        """The number of batches that the threads of this pool are at work on, or that wait for a thread."""

    def excuse(self) -> None:
        """When this is called from inside a listener, that listener no longer counts as running: it is about to wait
        for the others."""

    def close(self) -> None:
        """Call the listener no more. Running listeners continue, and their results are delivered while the event loop
        runs."""


def consume_pool(
    listener: MessageListener, size: int, wanted: Callable[[Owner], bool], finished: Finished[Owner],
    now: Callable[[], float],
) -> ConsumePool[Owner]:  # fmt: skip
    """A pool that runs ``size`` listeners at once. Create it on the event loop on which ``finished`` is to run.
    ``now``: monotonic seconds, in any thread."""
    if is_async(listener):
        return TaskPool(listener, size, wanted, finished, now)
    return ThreadPool(listener, size, wanted, finished, now)


def _failed(batch: list[MessageView], error: BaseException) -> ReconsumeLater:
    words = described(error)
    log.warning("the listener failed; %d message(s) come again later: %s", len(batch), words, exc_info=error)
    return AGAIN


class ThreadPool:
    """Runs listeners in threads. Results are collected, and several are passed to the event loop at once."""

    def __init__(
        self, listener: Any, size: int, wanted: Callable[[Any], bool], finished: Finished[Any], now: Callable[[], float]
    ) -> None:
        self._listener = listener
        self._now = now
        self._wanted = wanted
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[Any, list[MessageView], float] | None] = SimpleQueue()
        """With the time since when each batch waits."""
        self._done: deque[tuple[Any, list[MessageView], ReconsumeLater | None, float, float]] = deque()
        """With the times that it waited and that the listener took, which is negative when it was not called."""
        self._awake = False
        self._closed = False
        self._started = 0
        self._ended = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"gantrymq-consume-{number}", daemon=True) for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, owner: Any, batch: list[MessageView], since: float) -> None:
        self._started += 1
        self._work.put((owner, batch, since))

    @property
    def running(self) -> int:
        return self._started - self._ended

    @property
    def in_threads(self) -> int:
        return self._started - self._ended

    def excuse(self) -> None:
        """Nothing to do: this is called on the event loop, where no listener of this pool runs."""

    def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            owner, batch, since = item
            begun = self._now()
            if not self._closed and self._wanted(owner):
                again = self._consume(batch)
                self._done.append((owner, batch, again, begun - since, self._now() - begun))
            else:
                self._done.append((owner, batch, AGAIN, 0.0, -1.0))
            # The loop clears the flag before it empties the deque. So if a thread sees the flag set, the loop will
            # find its result in the deque.
            if not self._awake:
                self._awake = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:  # the event loop is closed, and nothing waits for the result
                    return

    def _consume(self, batch: list[MessageView]) -> ReconsumeLater | None:
        try:
            # A copy: the listener may remove messages from its list, and they must still be settled here.
            return read_answer(self._listener(list(batch)))
        except BaseException as error:  # noqa: BLE001 - a thread that ended by it would be missed by nobody
            return _failed(batch, error)

    def _drain(self) -> None:
        self._awake = False
        done = self._done
        while done:
            self._ended += 1
            owner, batch, again, waited_s, took_s = done.popleft()
            if took_s >= 0:
                owner.figures.handled(len(batch), again is None, waited_s, took_s)
            self._finished(owner, batch, again)


class TaskPool:
    """Runs listeners that are ``async def``, as tasks on the event loop."""

    def __init__(
        self, listener: Any, size: int, wanted: Callable[[Any], bool], finished: Finished[Any], now: Callable[[], float]
    ) -> None:
        self._listener = listener
        self._now = now
        self._wanted = wanted
        self._finished = finished
        self._free = size
        self._waiting: deque[tuple[Any, list[MessageView], float]] = deque()
        """With the time since when each batch waits."""
        self._tasks: set[asyncio.Task[ReconsumeLater | None]] = set()
        self._excused: set[asyncio.Task[Any]] = set()
        self._closed = False

    def put(self, owner: Any, batch: list[MessageView], since: float) -> None:
        self._waiting.append((owner, batch, since))
        self._start()

    @property
    def running(self) -> int:
        return len(self._tasks - self._excused)

    @property
    def in_threads(self) -> int:
        return 0

    def excuse(self) -> None:
        if (task := asyncio.current_task()) in self._tasks and task is not None:
            self._excused.add(task)
            task.add_done_callback(self._excused.discard)

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def _start(self) -> None:
        while self._waiting and self._free and not self._closed:
            self._free -= 1
            owner, batch, since = self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._consume(owner, batch, since))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, owner, batch))

    async def _consume(self, owner: Any, batch: list[MessageView], since: float) -> ReconsumeLater | None:
        if not self._wanted(owner):
            return AGAIN
        task, begun = asyncio.current_task(), self._now()
        again: ReconsumeLater | None = AGAIN
        try:
            again = read_answer(await self._listener(list(batch)))
            return again
        except BaseException as error:
            if goes_on(error, task):
                words = type(error).__name__
                log.warning("a listener was interrupted (%s); %d message(s) come again later", words, len(batch))
                raise
            return _failed(batch, error)
        finally:
            owner.figures.handled(len(batch), again is None, begun - since, self._now() - begun)

    def _ended(self, owner: Any, batch: list[MessageView], task: asyncio.Task[ReconsumeLater | None]) -> None:
        """Settle a batch when its task has ended, in whatever way. A task that is cancelled before its first step, or
        closed with its event loop, has no chance to do this itself."""
        self._tasks.discard(task)
        self._free += 1
        failed = task.cancelled() or task.exception() is not None
        try:
            self._finished(owner, batch, AGAIN if failed else task.result())
        finally:
            self._start()
