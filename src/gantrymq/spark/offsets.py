"""The offsets of a query in many queues: their JSON form and calculations with them. No I/O.

JSON, for options and for Spark's checkpoint: ``{"topic": {"broker": {"queue id": queue offset}}}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.message.queues import MessageQueue

Positions: TypeAlias = dict[MessageQueue, int]
"""For each queue the queue offset of the next message to read."""

LATEST: Final = -1
EARLIEST: Final = -2
"""In ``startingOffsets`` and ``endingOffsets``, -1 and -2 stand for the end and the beginning of a queue, as in Spark's
Kafka source."""

EXAMPLE: Final = '{"orders": {"broker-a": {"0": 120, "1": -2}}}'

Tree: TypeAlias = dict[str, dict[str, dict[str, int]]]


def to_tree(positions: Mapping[MessageQueue, int]) -> Tree:
    """Positions as nested dicts, in the order of the queues, so that equal positions give equal JSON."""
    tree: Tree = {}
    for queue in sorted(positions):
        tree.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = positions[queue]
    return tree


def from_tree(tree: Any, option: str) -> Positions:
    """The inverse of :func:`to_tree`. Raises ConfigError, which names ``option``, when ``tree`` has another form."""
    try:
        checked = msgspec.convert(tree, dict[str, dict[str, dict[int, int]]], strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"option {option} has the wrong form ({error}); write for example {EXAMPLE}") from error
    positions = {
        MessageQueue(topic, broker, queue_id): offset
        for topic, brokers in checked.items()
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }
    for queue, offset in positions.items():
        if offset < EARLIEST or queue.queue_id < 0:
            raise ConfigError(f"option {option}: {queue} has the offset {offset}; allowed are 0 and up, -1 and -2")
    return positions


def parse_positions(text: str, option: str) -> Positions:
    """Positions from the JSON text of an option. Raises ConfigError, which names the option."""
    try:
        tree = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"option {option} is no JSON ({error}); write for example {EXAMPLE}") from error
    return from_tree(tree, option)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The progress of a stream. Spark stores it and passes it back; nothing else survives a restart of the driver.

    ``base`` is where reading of each queue began. Every end offset contains it, because Spark does not store a first
    offset. Without it, a stream that starts at "latest" and fails in its first batch would begin later the next time,
    and lose the messages that arrived in between.
    """

    positions: Positions
    base: Positions

    def to_json(self) -> dict[str, Any]:
        return {"version": 1, "positions": to_tree(self.positions), "base": to_tree(self.base)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Read the JSON form. Raises ConfigError when the checkpoint was written by another program."""
        if value.get("version") != 1:
            raise ConfigError(f"the checkpoint holds offsets of version {value.get('version')!r}; this release reads 1")
        return cls(
            from_tree(value.get("positions", {}), "positions of the checkpoint"),
            from_tree(value.get("base", {}), "base of the checkpoint"),
        )

    def begin_of(self, queue: MessageQueue, end: StreamOffset) -> int:
        """The first offset of this queue in the batch that ends at ``end``."""
        return self.positions[queue] if queue in self.positions else end.base.get(queue, 0)


def covers(reached: Mapping[MessageQueue, int], target: Mapping[MessageQueue, int]) -> bool:
    """Whether ``reached`` is at ``target`` or beyond it, in every queue of ``target``."""
    return all(reached.get(queue, 0) >= offset for queue, offset in target.items())


def limited(begin: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int], max_rows: int | None) -> Positions:
    """The positions after at most ``max_rows`` messages, which are divided among the queues in proportion to their
    backlog.

    Every queue with messages advances by at least one, so that a long queue never blocks the others. If there are more
    such queues than ``max_rows``, there is still one row for each of them. A queue whose end is before ``begin`` goes
    back.
    """
    sizes = {queue: max(0, end[queue] - begin.get(queue, 0)) for queue in end}
    total = sum(sizes.values())
    if max_rows is None or total <= max_rows:
        return dict(end)
    moving = sum(size > 0 for size in sizes.values())
    to_share, rest = max(0, max_rows - moving), max(1, total - moving)
    return {
        queue: begin.get(queue, 0) + 1 + (size - 1) * to_share // rest if size else end[queue]
        for queue, size in sizes.items()
    }


def describe(queues: Iterable[MessageQueue], limit: int = 5) -> str:
    """Some queues by name, for an error message."""
    names = [str(queue) for queue in sorted(queues)]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
