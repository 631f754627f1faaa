"""One queue of a lite pull consumer: messages are pulled ahead into a buffer, from which ``poll`` takes them.

Messages that ``poll`` returned are not consumed until the next poll begins, because the program may still fail to
process them. So a queue has two positions: ``position``, where the next poll continues, and ``committable``, up to
which the progress may be stored.

Source: DefaultLitePullConsumerImpl.PullTaskImpl, AssignedMessageQueue; docs/protocol.md#what-clients-send-and-when.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from gantrymq.client.config import LitePullConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.namespaces import without_namespace
from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.portions import Portions
from gantrymq.client.consuming.queue_pull import pause_after, pull_from
from gantrymq.client.metrics.figures import Backlog, ReadFigures
from gantrymq.client.results import PullStatus
from gantrymq.errors import GantryError
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset

log = logging.getLogger("gantrymq.client")


class LiteQueue:
    """Reads one queue from ``start`` on. ``arrived`` is called when there are messages to take."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: LitePullConfig,
        group: str,
        queue: MessageQueue,
        wanted: Filter,
        start: QueueOffset,
        arrived: Callable[[], None],
        set_aside: Callable[[MessageView], Awaitable[None]],
        figures: ReadFigures,
    ) -> None:
        self._figures = figures
        self._endpoint = endpoint
        self._config = config
        self._group = group
        self.queue = queue
        self._wanted = wanted
        self._arrived = arrived
        self._set_aside = set_aside
        self._offset = start
        """Where the next pull begins."""
        self._end = start
        """The end of the queue, when it was last pulled from."""
        self._buffer: deque[MessageView] = deque()
        self._buffered_bytes = 0
        self._out: list[MessageView] = []
        """The messages that the last poll returned, until the next poll begins."""
        self._done_below = start
        """While ``_out`` has messages: all messages below this offset are consumed."""
        self.stored: QueueOffset | None = None
        """The progress that this member last reported to the broker."""
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None
        self.paused = False
        self.pulled_ms = 0
        """When the last answer to a pull arrived, ms since 1970."""

    @property
    def position(self) -> QueueOffset:
        """All messages below this offset were returned by ``poll``, or are not subscribed."""
        return self._buffer[0].queue_offset if self._buffer else self._offset

    @property
    def committable(self) -> QueueOffset:
        """All messages below this offset are consumed, or are not subscribed."""
        return self._done_below if self._out else self.position

    @property
    def backlog(self) -> Backlog:
        """What waits to be consumed."""
        return Backlog(self.queue.topic, len(self._buffer), 0, max(0, self._end - self.committable))

    @property
    def waiting(self) -> int:
        """The number of messages that may be taken now."""
        return 0 if self.paused else len(self._buffer)

    def start(self) -> None:
        self._task = self._endpoint.tasks.start(f"read {self.queue}", self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def seek(self, offset: QueueOffset) -> None:
        """Continue at ``offset``. Pulled messages are dropped, and those of earlier polls do not become consumed."""
        self.stop()
        self._move(offset)
        self.start()

    def _move(self, offset: QueueOffset) -> None:
        self._buffer.clear()
        self._buffered_bytes = 0
        self._out = []
        self._offset = offset

    def take(self, most: int) -> list[MessageView]:
        """Take the oldest messages, ``most`` at most. They stay in ``_out`` until ``settle``, ``give_back`` or
        ``seek``."""
        done_below = self.position
        taken = [self._buffer.popleft() for _ in range(min(most, self.waiting))]
        self._buffered_bytes -= sum(len(view.body) for view in taken)
        self._out, self._done_below = list(taken), done_below
        self._wake()
        return taken

    def settle(self, below: QueueOffset | None = None) -> None:
        """The messages of the last poll are consumed; with ``below``, only those with a lower offset."""
        if below is None:
            self._out = []
            return
        self._out = [view for view in self._out if view.queue_offset >= below]
        self._done_below = max(self._done_below, below)

    def give_back(self) -> None:
        """The messages of the last poll did not reach the program: the next ``take`` begins with them."""
        self._buffer.extendleft(reversed(self._out))
        self._buffered_bytes += sum(len(view.body) for view in self._out)
        self._out = []
        self._wake()
        if self.waiting:
            self._arrived()

    def pause(self, paused: bool) -> None:
        """Stop pulling and returning messages, or continue."""
        self.paused = paused
        self._wake()
        if not paused and self._buffer:
            self._arrived()

    def _wake(self) -> None:
        config = self._config
        has_room = (
            len(self._buffer) < config.max_messages_per_queue and self._buffered_bytes < config.max_bytes_per_queue
        )
        if not self.paused and has_room:
            self._room.set()
        else:
            self._room.clear()

    async def _run(self) -> None:
        while True:
            self._wake()
            await self._room.wait()
            try:
                await self._pull()
            except GantryError as error:
                await pause_after(self._endpoint, self.queue, error)

    async def _pull(self) -> None:
        raw = await pull_from(self._endpoint, self._config, self._group, self.queue, self._offset, self._wanted)
        self.pulled_ms = self._endpoint.clock.wall_ms()
        if raw.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("offset %d of %s does not exist; continuing at %d", self._offset, self.queue, raw.next_offset)
            self._move(raw.next_offset)
        self._end = raw.max_offset
        portions = Portions(raw, self.queue, self._wanted.tags, self._config.max_body_bytes)
        while True:
            portion = await portions.next()
            if portion.too_large is not None:
                await self._set_aside(portion.too_large)
            self._keep(portion.views, portion.below)
            if portions.done:
                return
            self._wake()
            await self._room.wait()

    def _keep(self, found: list[MessageView], below: QueueOffset) -> None:
        for view in found:
            view.topic = without_namespace(self._config.namespace, view.topic)
        self._offset = below
        if found:
            self._figures.got([view.store_timestamp for view in found], len(found), self.pulled_ms)
        self._buffer.extend(found)
        self._buffered_bytes += sum(len(view.body) for view in found)
        if found:
            self._arrived()
