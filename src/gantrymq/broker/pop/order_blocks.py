"""Orderly pops: a queue is blocked for its group while messages of the last batch are neither acknowledged nor
visible.

There is no check point and no retry topic: the committed offset is that of the first message that is not acknowledged,
and the next pop begins there. Pure: the time is an argument. ``content`` is what ``config/consumerOrderInfo.json``
contains. Source: ConsumerOrderInfoManager (QueueLevelConsumerManager of 5.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

EXPIRY_MS: Final = 24 * 3600 * 1000
"""A batch that no client asked about for this long is dropped, and no longer blocks its queue."""
_SEPARATOR: Final = "@"


@dataclass(slots=True)
class Block:
    """The last batch of a queue."""

    pop_time: int
    invisible_time: int
    offsets: tuple[int, ...]
    attempt_id: str | None
    consumed_at: int
    acked: set[int] = field(default_factory=set)
    visible_at: dict[int, int] = field(default_factory=dict)
    """Offset to when it is visible again, where that was changed."""
    counts: dict[int, int] = field(default_factory=dict)
    """Offset to earlier deliveries, where there were any."""
    ahead_ms: int = 0
    """How far the clock that said the times here is ahead of the one that the caller asks with."""
    holders: dict[int, str] = field(default_factory=dict)
    """Offset to the client for which a door prolongs its delivery."""

    def ends_at(self, now_ms: int) -> int | None:
        """When the queue opens without further acknowledgements, by the caller's clock; None when it is open."""
        times = [
            self.visible_at.get(offset, self.pop_time + self.invisible_time)
            for offset in self.offsets
            if offset not in self.acked
        ]
        latest = max(times, default=0) - self.ahead_ms
        return latest if latest > now_ms else None

    def is_old(self, now_ms: int) -> bool:
        """Whether no client asked about it for so long that it is dropped."""
        return now_ms + self.ahead_ms - self.consumed_at > EXPIRY_MS

    def next_offset(self) -> int:
        """The first message that is not acknowledged."""
        for offset in self.offsets:
            if offset not in self.acked:
                return offset
        return self.offsets[-1] + 1


@dataclass(frozen=True, slots=True)
class Acked:
    """What an acknowledgement did. ``commit``: the offset to commit, if any."""

    commit: int | None
    illegal: bool = False


class OrderBlocks:
    """Queue to last batch, by topic and group."""

    def __init__(self) -> None:
        self._table: dict[tuple[str, str], dict[int, Block]] = {}
        self.changed = False
        """Set with every change; cleared by the code that writes the file."""

    def blocked_until(self, topic: str, group: str, queue_id: int, attempt_id: str | None, now_ms: int) -> int | None:
        """When the queue opens; None when it is open. Whoever repeats the attempt of the batch may have it again."""
        block = self._table.get((topic, group), {}).get(queue_id)
        if block is None or (block.attempt_id is not None and block.attempt_id == attempt_id):
            return None
        return block.ends_at(now_ms)

    def popped(
        self,
        topic: str,
        group: str,
        queue_id: int,
        offsets: Sequence[int],
        pop_time: int,
        invisible_time: int,
        attempt_id: str | None,
        *,
        ahead_ms: int = 0,
    ) -> dict[int, int]:
        """A batch was handed out; offset to earlier deliveries of those that are not new. ``ahead_ms``: how far
        ``pop_time`` is ahead of the steady time."""
        queues = self._table.setdefault((topic, group), {})
        before = queues.get(queue_id)
        counts: dict[int, int] = {}
        if before is not None and attempt_id is not None and before.attempt_id == attempt_id:
            counts = dict(before.counts)
        elif before is not None:
            counts = {offset: before.counts.get(offset, 0) + 1 for offset in offsets if offset in before.offsets}
        queues[queue_id] = Block(
            pop_time, invisible_time, tuple(offsets), attempt_id, pop_time, counts=counts, ahead_ms=ahead_ms
        )
        self.changed = True
        return counts

    def ack(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> Acked:
        """A message of the last batch was consumed."""
        block = self._table.get((topic, group), {}).get(queue_id)
        if block is None:
            return Acked(offset + 1)
        if block.pop_time != pop_time:
            return Acked(None)
        if offset not in block.offsets:
            return Acked(None, illegal=True)
        block.acked.add(offset)
        self.changed = True
        return Acked(block.next_offset())

    def all(self) -> list[tuple[str, str, int, Block]]:
        """(topic, group, queue id, last batch) of every queue."""
        return [
            (topic, group, queue_id, block)
            for (topic, group), queues in self._table.items()
            for queue_id, block in queues.items()
        ]

    def last(self, topic: str, group: str, queue_id: int) -> Block | None:
        """The last batch of a queue."""
        return self._table.get((topic, group), {}).get(queue_id)

    def ahead_ms(self, topic: str, group: str, queue_id: int) -> int | None:
        """See ``Block``; None when there is no batch."""
        block = self._table.get((topic, group), {}).get(queue_id)
        return None if block is None else block.ahead_ms

    def change(
        self, topic: str, group: str, queue_id: int, offset: int, pop_time: int, visible_at: int, holder: str = ""
    ) -> None:  # fmt: skip
        """Change the time at which a message becomes visible again. ``holder``: for whom a door does that."""
        block = self._table.get((topic, group), {}).get(queue_id)
        if block is not None and block.pop_time == pop_time:
            block.visible_at[offset] = visible_at
            if holder:
                block.holders[offset] = holder
            else:
                block.holders.pop(offset, None)
            self.changed = True

    def open(self, topic: str, group: str, queue_id: int) -> None:
        """Forget the last batch: the group reads elsewhere now."""
        if self._table.get((topic, group), {}).pop(queue_id, None) is not None:
            self.changed = True

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        for key in [key for key in self._table if key[0] == topic]:
            del self._table[key]
            self.changed = True

    def read_from(self, topic: str, group: str, queue_id: int, position: int) -> None:
        """The group reads from ``position``; when that is not where its last batch stands, somebody moved it."""
        block = self._table.get((topic, group), {}).get(queue_id)
        if block is not None and block.next_offset() != position:
            self.open(topic, group, queue_id)

    def expire(self, now_ms: int) -> None:
        """Drop batches that no client asked about for too long."""
        for key, queues in list(self._table.items()):
            for queue_id in [queue for queue, block in queues.items() if block.is_old(now_ms)]:
                del queues[queue_id]
                self.changed = True
            if not queues:
                del self._table[key]

    # The file.

    def content(self) -> dict[str, Any]:
        return {
            "orderedConsumptionLevel": "QUEUE",
            "table": {
                f"{topic}{_SEPARATOR}{group}": {queue_id: _block_content(block) for queue_id, block in queues.items()}
                for (topic, group), queues in self._table.items()
            },
        }

    def load(self, content: Mapping[Any, Any], now_ms: int | None = None) -> None:
        """``now_ms``: a batch that was handed out behind it was so when the clock was ahead.

        Raises AttributeError, KeyError, IndexError, TypeError or ValueError for something else.
        """
        for key, queues in (content.get("table") or {}).items():
            topic, _, group = key.rpartition(_SEPARATOR)
            blocks = {int(queue_id): _block(value) for queue_id, value in queues.items() if value.get("o")}
            for block in blocks.values():
                block.ahead_ms = 0 if now_ms is None else max(block.pop_time - now_ms, 0)
            self._table[topic, group] = blocks


def _block_content(block: Block) -> dict[str, Any]:
    first = block.offsets[0]
    acked = sum(1 << place for place, offset in enumerate(block.offsets) if offset in block.acked)
    return {
        "a": block.attempt_id,
        "cm": acked if acked < 1 << 63 else acked - (1 << 64),
        "gh": dict(block.holders) or None,
        "i": block.invisible_time,
        "l": block.consumed_at,
        "o": [first, *(offset - first for offset in block.offsets[1:])],
        "oc": dict(block.counts) or None,
        "ot": dict(block.visible_at) or None,
        "popTime": block.pop_time,
    }


def _block(value: Mapping[Any, Any]) -> Block:
    first, *distances = (int(number) for number in value["o"])
    offsets = (first, *(first + distance for distance in distances))
    bits = int(value.get("cm") or 0)
    return Block(
        int(value["popTime"]), int(value.get("i") or 0), offsets, value.get("a"), int(value.get("l") or 0),
        {offset for place, offset in enumerate(offsets) if bits >> place & 1},
        {int(offset): int(time) for offset, time in (value.get("ot") or {}).items()},
        {int(offset): int(count) for offset, count in (value.get("oc") or {}).items()},
        holders={int(offset): str(holder) for offset, holder in (value.get("gh") or {}).items()},
    )  # fmt: skip
