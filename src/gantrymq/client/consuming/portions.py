"""The messages of a pull in portions, so that neither memory nor the event loop depends on what a few bytes grow to.

A pull brings 256 KiB, and some compressed bodies grow by a factor of a thousand and more. So bodies are decompressed
one by one: on the event loop as long as they are small together, then in a thread. A portion is handed on before the
next one is made. A body that grows over the limit of the consumer is never decompressed further than that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from gantrymq.client.consuming.pulling import readable
from gantrymq.client.large_bodies import ON_LOOP_BYTES
from gantrymq.client.results import RawPull
from gantrymq.message import flags, properties
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.message.tags import parse_tag_expression
from gantrymq.protocol.stored_message import scan

PORTION_BYTES: Final = 8 * 1024 * 1024
"""What is decompressed at once in a thread; a single body may be larger."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Some messages of a pull, or the one whose body is too large."""

    views: list[MessageView]
    too_large: MessageView | None
    """Its body is as it is stored, compressed. Then ``views`` is empty."""
    below: QueueOffset
    """Every message of the pull below this offset is in this portion or in an earlier one, or is not wanted."""


class Portions:
    """The messages of one pull that ``tags`` wants. ``most``: bytes of a body."""

    def __init__(self, raw: RawPull, queue: MessageQueue, tags: str, most: int) -> None:
        self._queue = queue
        self._wanted = parse_tag_expression(tags)
        self._most = most
        self._bounds = str(raw.min_offset), str(raw.max_offset)
        self._end = raw.next_offset
        self._records = scan(raw.data, check=False)
        self._next: StoredMessage | None = None
        """The record with which the next portion begins; the records behind it are not read yet."""
        self._large = False
        """Whether its body is too much for the event loop."""
        self.done = False

    async def next(self) -> Portion:
        """Call it until ``done``."""
        if self._large:
            return await asyncio.to_thread(self.read, PORTION_BYTES, in_thread=True)
        portion = self.read(ON_LOOP_BYTES, in_thread=False)
        if self._large and not portion.views and portion.too_large is None:
            return await asyncio.to_thread(self.read, PORTION_BYTES, in_thread=True)
        return portion

    def read(self, budget: int, *, in_thread: bool) -> Portion:
        """Decompress about ``budget`` bytes: exactly that at most on the event loop, one body more in a thread."""
        views: list[MessageView] = []
        self._large = False
        while (stored := self._next or next(self._records, None)) is not None:
            self._next = None
            if not stored.sys_flag & flags.COMPRESSED:
                view = readable(stored, self._queue, None)
            elif budget <= 0:
                return self._pause(views, stored)
            else:
                most = self._most if in_thread else min(self._most, budget)
                view = readable(stored, self._queue, most)
                budget -= len(view.body)
                if view.body_cut and most < self._most:
                    return self._pause(views, stored)
            if self._wanted and view.properties.get(properties.TAGS) not in self._wanted:
                continue
            view.properties[properties.MIN_OFFSET], view.properties[properties.MAX_OFFSET] = self._bounds
            if not view.body_cut:
                views.append(view)
            elif views:
                return self._pause(views, stored)
            else:
                return Portion([], replace(view, body=stored.body), QueueOffset(stored.queue_offset + 1))
        self.done = True
        return Portion(views, None, self._end)

    def _pause(self, views: list[MessageView], stored: StoredMessage) -> Portion:
        """The next portion begins with ``stored``, in a thread."""
        self._next, self._large = stored, True
        return Portion(views, None, stored.queue_offset)
