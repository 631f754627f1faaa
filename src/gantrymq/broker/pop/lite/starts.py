"""Where a group begins in a lite topic, when its subscription says so. Source: OffsetOption of 5.5.0."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.message.lite_topics import LITE_QUEUE
from gantrymq.store.message_store import MessageStore


class StartKind(enum.Enum):
    """How a client says it."""

    LAST = "where the group was; a new group: as pops begin"
    MIN = "at the first message"
    MAX = "behind the last message"
    OFFSET = "at a queue offset"
    TAIL = "so many messages before the end"
    TIME = "at the first message that was stored at this time (ms), or later"


@dataclass(frozen=True, slots=True)
class LiteStart:
    """One of them, with its number."""

    kind: StartKind
    number: int = 0


class LiteStarts:
    """Sets the offset of a group in a lite topic."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets

    def set(self, group: str, queue: str, start: LiteStart) -> None:
        """The next pop of the group begins there."""
        if start.kind is not StartKind.LAST:
            self._offsets.resets[group, queue, LITE_QUEUE] = self._place(queue, start)

    def _place(self, queue: str, start: LiteStart) -> int:
        first, end = self._store.queue_range(queue, LITE_QUEUE)
        wanted = {
            StartKind.MIN: first,
            StartKind.MAX: end,
            StartKind.OFFSET: start.number,
            StartKind.TAIL: end - start.number,
        }.get(start.kind)
        if wanted is None:
            wanted = self._store.offset_by_time(queue, LITE_QUEUE, start.number)
        return max(first, min(wanted, end))
