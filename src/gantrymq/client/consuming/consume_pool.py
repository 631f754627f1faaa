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
from gantrymq.client.results import ReconsumeLater
from gantrymq.message.message import MessageView

log = logging.getLogger("gantrymq.client")

Owner = TypeVar("Owner")
OwnerIn = TypeVar("OwnerIn", contravariant=True)
Finished = Callable[[Owner, list[MessageView], ReconsumeLater | None], None]
"""Whose messages, which, and when they are wanted again; None: they are consumed."""


class ConsumePool(Protocol[OwnerIn]):
    """Where batches wait for the listener. ``wanted`` is asked right before: messages of a lost queue are dropped."""

    def put(self, owner: OwnerIn, batch: list[MessageView]) -> None: ...

    @property
    def running(self) -> int:
        """Listeners at work, but for those that were excused."""

    @property
    def in_threads(self) -> int:
        """Batches that threads of this pool have, or will have."""

    def excuse(self) -> None:
        """The listener that calls this, if one does, is about to wait for the others: nobody must wait for it."""

    def close(self) -> None:
        """Start no listener any more. Those at work go on; their answers are still delivered while the loop runs."""


def consume_pool(
    listener: MessageListener, size: int, wanted: Callable[[Owner], bool], finished: Finished[Owner]
) -> ConsumePool[Owner]:
    """A pool that runs ``size`` listeners at once. Must be made on the loop that ``finished`` is to run on."""
    if is_async(listener):
        return TaskPool(listener, size, wanted, finished)
    return ThreadPool(listener, size, wanted, finished)


def _failed(batch: list[MessageView], error: BaseException) -> ReconsumeLater:
    words = described(error)
    log.warning("the listener failed; %d message(s) come again later: %s", len(batch), words, exc_info=error)
    return AGAIN


class ThreadPool:
    """Listeners in threads. Answers are collected and cross to the loop together."""

    def __init__(self, listener: Any, size: int, wanted: Callable[[Any], bool], finished: Finished[Any]) -> None:
        self._listener = listener
        self._wanted = wanted
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._work: SimpleQueue[tuple[Any, list[MessageView]] | None] = SimpleQueue()
        self._done: deque[tuple[Any, list[MessageView], ReconsumeLater | None]] = deque()
        self._awake = False
        self._closed = False
        self._started = 0
        self._ended = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"gantrymq-consume-{number}", daemon=True) for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, owner: Any, batch: list[MessageView]) -> None:
        self._started += 1
        self._work.put((owner, batch))

    @property
    def running(self) -> int:
        return self._started - self._ended

    @property
    def in_threads(self) -> int:
        return self._started - self._ended

    def excuse(self) -> None:
        """A thread of ours never runs on the loop."""

    def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            owner, batch = item
            again = self._consume(batch) if not self._closed and self._wanted(owner) else AGAIN
            self._done.append((owner, batch, again))
            # The loop clears the flag before it empties the deque, so whoever sees it set has been seen, too.
            if not self._awake:
                self._awake = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:  # the loop is closed: nobody wants the answer any more
                    return

    def _consume(self, batch: list[MessageView]) -> ReconsumeLater | None:
        try:
            # A list of its own: what it takes out of that is still to be settled.
            return read_answer(self._listener(list(batch)))
        except BaseException as error:  # noqa: BLE001 - a thread that ended by it would be missed by nobody
            return _failed(batch, error)

    def _drain(self) -> None:
        self._awake = False
        done = self._done
        while done:
            self._ended += 1
            self._finished(*done.popleft())


class TaskPool:
    """Listeners that are ``async def``, as tasks of the loop."""

    def __init__(self, listener: Any, size: int, wanted: Callable[[Any], bool], finished: Finished[Any]) -> None:
        self._listener = listener
        self._wanted = wanted
        self._finished = finished
        self._free = size
        self._waiting: deque[tuple[Any, list[MessageView]]] = deque()
        self._tasks: set[asyncio.Task[ReconsumeLater | None]] = set()
        self._excused: set[asyncio.Task[Any]] = set()
        self._closed = False

    def put(self, owner: Any, batch: list[MessageView]) -> None:
        self._waiting.append((owner, batch))
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
            owner, batch = self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._consume(owner, batch))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, owner, batch))

    async def _consume(self, owner: Any, batch: list[MessageView]) -> ReconsumeLater | None:
        if not self._wanted(owner):
            return AGAIN
        task = asyncio.current_task()
        try:
            return read_answer(await self._listener(list(batch)))
        except BaseException as error:
            if goes_on(error, task):
                words = type(error).__name__
                log.warning("a listener was interrupted (%s); %d message(s) come again later", words, len(batch))
                raise
            return _failed(batch, error)

    def _ended(self, owner: Any, batch: list[MessageView], task: asyncio.Task[ReconsumeLater | None]) -> None:
        """Settle a batch, whatever became of its task: one that was cancelled before its first step, or closed with its
        loop, ran no line that could do it."""
        self._tasks.discard(task)
        self._free += 1
        failed = task.cancelled() or task.exception() is not None
        try:
            self._finished(owner, batch, AGAIN if failed else task.result())
        finally:
            self._start()
