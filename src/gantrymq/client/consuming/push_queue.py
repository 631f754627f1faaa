"""Reads one queue for a push consumer: pulls messages, hands them to the listener, and tracks which are consumed.

Source: PullMessageService, DefaultMQPushConsumerImpl.pullMessage; docs/protocol.md#pulling,
docs/protocol.md#consumer-offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.client.config import PushConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.namespaces import without_namespace
from gantrymq.client.consuming.consume_window import ConsumeWindow
from gantrymq.client.consuming.filters import Filter
from gantrymq.client.consuming.offset_store import OffsetStore
from gantrymq.client.consuming.portions import Portions
from gantrymq.client.consuming.queue_pull import pause_after, pull_from
from gantrymq.client.metrics.figures import Backlog, ReadFigures
from gantrymq.client.results import PullStatus
from gantrymq.errors import GantryError
from gantrymq.message import properties, system_topics
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset

log = logging.getLogger("gantrymq.client")

HandOut = Callable[["PushQueue", list[MessageView]], None]
SetAside = Callable[[MessageView], Awaitable[None]]
"""What becomes of a message whose body is too large to be decompressed. Raises GantryError when it must be tried again.
"""
Moved = Callable[["PushQueue", QueueOffset], None]


class PushQueue:
    """One assigned queue. When it is dropped, its task ends, and the results of its last messages are ignored."""

    def __init__(
        self,
        endpoint: Endpoint,
        config: PushConfig,
        group: str,
        queue: MessageQueue,
        wanted: Filter,
        start: QueueOffset,
        progress: OffsetStore,
        hand_out: HandOut,
        moved: Moved,
        set_aside: SetAside,
        figures: ReadFigures,
    ) -> None:
        """``moved``: called when the broker does not have our offset. This object must then be replaced by a new one
        that begins at the offset given."""
        self._endpoint = endpoint
        self._config = config
        self._group = group
        self.queue = queue
        self._wanted = wanted
        self._progress = progress
        self._hand_out = hand_out
        self._moved = moved
        self._set_aside = set_aside
        self.figures: Final = figures
        self._window = ConsumeWindow(start)
        self._end = start
        """The end of the queue, when it was last pulled from."""
        self._offset = start
        self._stored: QueueOffset | None = None
        self._room = asyncio.Event()
        self.dropped = False
        self.pulled_ms = 0
        """When the last answer to a pull arrived, ms since 1970."""
        self.consumed_ms = 0
        """When the listener last finished messages of this queue, ms since 1970."""

    async def run(self) -> None:
        """Pull until cancelled or moved."""
        await self.store_offset()
        while not self.dropped:
            await self._wait_for_room()
            try:
                await self._pull()
            except GantryError as error:
                await pause_after(self._endpoint, self.queue, error)

    async def _wait_for_room(self) -> None:
        window, config = self._window, self._config
        while (
            window.count >= config.max_messages_per_queue
            or window.bytes_in_flight >= config.max_bytes_per_queue
            or window.span >= config.max_span_per_queue
        ):
            self._room.clear()
            await self._room.wait()

    async def _pull(self) -> None:
        # The pull reports the group's progress to the broker. In a broadcasting group it is stored in a file instead.
        commit = None if self._config.broadcasting else self._window.committable
        raw = await pull_from(self._endpoint, self._config, self._group, self.queue, self._offset, self._wanted, commit)
        self.pulled_ms = self._endpoint.clock.wall_ms()
        if raw.status is PullStatus.OFFSET_ILLEGAL:
            # The messages were deleted, or an operator reset the queue. Unfinished messages belong to the old position.
            log.warning("offset %d of %s does not exist; continuing at %d", self._offset, self.queue, raw.next_offset)
            self.dropped = True
            self._moved(self, raw.next_offset)
            return
        self._end = raw.max_offset
        portions = Portions(raw, self.queue, self._wanted.tags, self._config.max_body_bytes)
        while True:
            portion = await portions.next()
            if portion.too_large is not None:
                await self._set_aside(portion.too_large)
            self._take(portion.views, portion.below)
            if portions.done:
                return
            await self._wait_for_room()

    def _take(self, found: list[MessageView], below: QueueOffset) -> None:
        self._offset = below
        if found:
            self.figures.got([view.store_timestamp for view in found], len(found), self.pulled_ms)
        self._window.add(found)
        self._window.advance(below)
        if found:
            self._give(found)

    def _give(self, found: list[MessageView]) -> None:
        if self.queue.topic.startswith(system_topics.RETRY_PREFIX):
            for view in found:
                view.topic = view.properties.get(properties.RETRY_TOPIC, view.topic)
        if self._config.namespace:
            for view in found:
                view.topic = without_namespace(self._config.namespace, view.topic)
        self._hand_out(self, found)

    def finish(self, batch: list[MessageView]) -> None:
        """These messages are consumed, or were sent back to the broker."""
        self._window.finish(batch)
        self.consumed_ms = self._endpoint.clock.wall_ms()
        self._room.set()

    @property
    def backlog(self) -> Backlog:
        """What waits to be consumed."""
        window = self._window
        lag = max(0, self._end - window.committable)
        return Backlog(self.queue.topic, window.count, window.bytes_in_flight, lag)

    @property
    def window(self) -> ConsumeWindow:
        """The messages that were pulled and are not consumed yet."""
        return self._window

    async def store_offset(self) -> None:
        """Store the progress, if it has changed."""
        offset = self._window.committable
        if offset != self._stored and await self._progress.keep(self.queue, offset):
            self._stored = offset
