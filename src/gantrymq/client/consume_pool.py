"""Runs a push consumer's listener, in threads or as tasks, and brings its answers back to the loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from gantrymq.client.listener import is_async
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.message.message import MessageView

log = logging.getLogger("gantrymq.client")

ConsumeAnswer = ConsumeStatus | ReconsumeLater | None
MessageListener = Callable[[list[MessageView]], ConsumeAnswer] | Callable[[list[MessageView]], Awaitable[ConsumeAnswer]]
"""Gets some messages of one queue. No exception and no answer, or CONSUME_SUCCESS: they are consumed. RECONSUME_LATER,
a ReconsumeLater or an exception: they come again later.

That a listener which just ends has consumed its messages is Python's way; Java's client delivers again after null."""

Owner = TypeVar("Owner")
OwnerIn = TypeVar("OwnerIn", contravariant=True)
Finished = Callable[[Owner, list[MessageView], ReconsumeLater | None], None]
"""Whose messages, which, and when they are wanted again; None: they are consumed."""
AGAIN: Final = ReconsumeLater()


class ConsumePool(Protocol[OwnerIn]):
    """Where batches wait for the listener. ``wanted`` is asked right before: messages of a lost queue are dropped."""

    def put(self, owner: OwnerIn, batch: list[MessageView]) -> None: ...

    @property
    def running(self) -> int:
        """Listeners at work."""

    def close(self) -> None:
        """Start no listener any more. Those at work go on; their answers are still delivered while the loop runs."""


def consume_pool(
    listener: MessageListener, size: int, wanted: Callable[[Owner], bool], finished: Finished[Owner]
) -> ConsumePool[Owner]:
    """A pool that runs ``size`` listeners at once. Must be made on the loop that ``finished`` is to run on."""
    if is_async(listener):
        return TaskPool(listener, size, wanted, finished)
    return ThreadPool(listener, size, wanted, finished)


def read_answer(answer: object) -> ReconsumeLater | None:
    """What a listener's answer means; None: consumed."""
    if answer is None or answer is ConsumeStatus.CONSUME_SUCCESS:
        return None
    if isinstance(answer, ReconsumeLater):
        return answer
    if not isinstance(answer, ConsumeStatus):
        log.error("the listener must return a ConsumeStatus, not %r; the messages come again later", answer)
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
            return read_answer(self._listener(batch))
        except Exception as error:
            log.warning("the listener failed; %d message(s) come again later: %s", len(batch), error, exc_info=error)
            return AGAIN

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
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def put(self, owner: Any, batch: list[MessageView]) -> None:
        self._waiting.append((owner, batch))
        self._start()

    @property
    def running(self) -> int:
        return len(self._tasks)

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()

    def _start(self) -> None:
        while self._waiting and self._free and not self._closed:
            self._free -= 1
            task = asyncio.get_running_loop().create_task(self._consume(*self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _consume(self, owner: Any, batch: list[MessageView]) -> None:
        again: ReconsumeLater | None = AGAIN
        try:
            if self._wanted(owner):
                again = read_answer(await self._listener(batch))
        except Exception as error:
            log.warning("the listener failed; %d message(s) come again later: %s", len(batch), error, exc_info=error)
        finally:
            self._free += 1
        self._finished(owner, batch, again)
        self._start()
