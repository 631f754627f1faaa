"""Consumes the messages of each queue one batch after the other.

Source: ConsumeMessageOrderlyService; docs/protocol.md#locks-of-queues.

Locks keep the order across members: a queue is read and consumed only while its broker confirms the lock, and is
unlocked only when the listener has finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.consume_pool import ConsumePool, consume_pool
from gantrymq.client.consuming.push_queue import PushQueue
from gantrymq.client.consuming.send_back import SendBacks
from gantrymq.client.listener import described
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.results import ReconsumeLater
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue

log = logging.getLogger("gantrymq.client")

UNLOCKED_PAUSE_S: Final = 0.1
"""How soon a queue whose lock is not confirmed is tried again."""


class _Line:
    """The messages of one queue that wait for the listener."""

    __slots__ = ("busy", "idle", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[MessageView] = deque()
        self.busy = False
        """Whether a batch of this queue is with the listener, is paused, or is being sent to the retry topic."""
        self.idle = asyncio.Event()
        self.idle.set()


class OrderlyConsumption:
    """Hands each queue's messages to the listener in order.

    A batch that failed is given to the listener again after a pause, for ever or ``max_reconsume_times`` times. Then it
    is sent to the retry topic, from where the broker moves it to the dead letters, and the queue continues. ``held``:
    tells whether this member has the lock of a queue. ``send_backs``: None in a broadcasting group, where messages that
    failed too often are skipped.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        listener: MessageListener,
        threads: int,
        batch_size: int,
        send_backs: SendBacks | None,
        *,
        max_reconsume_times: int,
        suspend_ms: int,
        held: Callable[[MessageQueue], bool],
    ) -> None:
        self._endpoint = endpoint
        self._batch_size = batch_size
        self._send_backs = send_backs
        self._max = max_reconsume_times
        self._suspend_ms = suspend_ms
        self._held = held
        self._lines: dict[PushQueue, _Line] = {}
        self._pool: ConsumePool[PushQueue] = consume_pool(
            listener, threads, lambda queue: not queue.dropped, self._finished, endpoint.clock.monotonic
        )

    @property
    def running(self) -> int:
        """The number of running listeners."""
        return self._pool.running

    @property
    def in_threads(self) -> int:
        """The number of batches that the threads of the pool are at work on, or that wait for a thread."""
        return self._pool.in_threads

    def excuse(self) -> None:
        """See ConsumePool."""
        self._pool.excuse()

    def close(self) -> None:
        """Call the listener no more."""
        self._pool.close()

    def put(self, reader: PushQueue, found: list[MessageView]) -> None:
        line = self._lines.setdefault(reader, _Line())
        line.waiting.extend(found)
        self._next(reader, line)

    async def left(self, reader: PushQueue) -> None:
        """Return when the listener has finished with a queue that was given up. Only then may others read it."""
        line = self._lines.get(reader)
        if line is not None:
            line.waiting.clear()
            await line.idle.wait()
            self._lines.pop(reader, None)

    def _next(self, reader: PushQueue, line: _Line) -> None:
        if line.busy or not line.waiting or reader.dropped:
            return
        if not self._held(reader.queue):
            line.busy = True
            self._later(reader, line, UNLOCKED_PAUSE_S)
            return
        batch = [line.waiting.popleft() for _ in range(min(self._batch_size, len(line.waiting)))]
        self._begin(reader, line, batch)

    def _begin(self, reader: PushQueue, line: _Line, batch: list[MessageView]) -> None:
        line.busy = True
        line.idle.clear()
        self._pool.put(reader, batch, self._endpoint.clock.monotonic())

    def _later(self, reader: PushQueue, line: _Line, seconds: float) -> None:
        def wake() -> None:
            line.busy = False
            self._next(reader, line)

        self._endpoint.clock.call_later(seconds, wake)

    def _finished(self, reader: PushQueue, batch: list[MessageView], again: ReconsumeLater | None) -> None:
        line = self._lines[reader]
        line.idle.set()
        if again is None:
            reader.finish(batch)
        if reader.dropped or not self._endpoint.running:
            return
        if again is None:
            line.busy = False
            self._next(reader, line)
            return
        if 0 <= self._max <= max(view.reconsume_times for view in batch):
            self._endpoint.tasks.start("dead letter", self._give_up(reader, line, batch))
            return
        self._suspend(reader, line, batch, again)

    def _suspend(
        self, reader: PushQueue, line: _Line, batch: list[MessageView], again: ReconsumeLater | None = None
    ) -> None:
        for view in batch:
            view.reconsume_times += 1
        line.waiting.extendleft(reversed(batch))
        suspend_ms = again.suspend_ms if again is not None else None
        self._later(reader, line, (self._suspend_ms if suspend_ms is None else suspend_ms) / 1000)

    async def _give_up(self, reader: PushQueue, line: _Line, batch: list[MessageView]) -> None:
        """Take out the messages that failed too often; the others of the batch are tried again."""
        rest: list[MessageView] = []
        for view in batch:
            if view.reconsume_times < self._max:
                rest.append(view)
                continue
            try:
                if self._send_backs is not None:
                    await self._send_backs.resend(view)
                else:
                    log.error("message %s of a broadcast failed %d times and is skipped", view.message_id, self._max)
                reader.finish([view])
            except Exception as error:  # noqa: BLE001 - the listener may have made it impossible to send
                log.warning(
                    "message %s could not be sent to the dead-letter queue and is tried again here: %s",
                    view.message_id,
                    described(error),
                )
                rest.append(view)
        if rest:
            self._suspend(reader, line, rest)
        else:
            line.busy = False
            self._next(reader, line)
