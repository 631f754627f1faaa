"""What a replay sends, in parts that have a number. The plan is written down before the first message is sent.

So a replay that was interrupted continues with the same parts, although the archive may have got more messages
meanwhile, and may have merged its files. A part has a name: a sink that is exactly once adds a named write once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from gantrymq.errors import ConfigError, StoreFormatUnknown
from gantrymq.runtime.disk import Disk, read_whole, write_durably

PART_ROWS: Final = 500_000
"""A part has about this many messages. All of them become visible together, and Spark has to send them within the
option ``undecidedTimeout`` of the sink."""
VERSION: Final = 1
T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages go where: the settings that must not change while a replay is continued."""

    archive: str
    topic: str | None
    from_ms: int
    to_ms: int | None
    to_topic: str


class QueueRange(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one archived queue."""

    broker_name: str
    queue_id: int
    first: int
    """The queue offset of the first message,"""
    end: int
    """and the one behind the last."""


class Part(msgspec.Struct, frozen=True):
    """Messages of one topic and day, which are sent by one write."""

    topic: str
    day: str
    ranges: tuple[QueueRange, ...]


class Plan(msgspec.Struct, frozen=True):
    """A whole replay."""

    version: int
    name: str
    """A random name."""
    wanted: Wanted
    parts: tuple[Part, ...]

    def write_id(self, number: int) -> str:
        """The name of the write of a part."""
        return f"replay {self.name} part {number}"


def parts_of(topic: str, day: str, queues: Iterable[QueueRange], rows: int, part_rows: int = PART_ROWS) -> list[Part]:
    """The messages of one day in parts of about ``part_rows``, each queue in its order."""
    count = max(1, -(-rows // part_rows))
    whole = sorted(queues, key=lambda one: (one.broker_name, one.queue_id))
    cut = [tuple(one for queue in whole if (one := _share(queue, number, count))) for number in range(count)]
    return [Part(topic, day, ranges) for ranges in cut if ranges]


def _share(queue: QueueRange, number: int, count: int) -> QueueRange | None:
    """The share of a part in the offsets of a queue; None when it is empty."""
    size = queue.end - queue.first
    first, end = queue.first + size * number // count, queue.first + size * (number + 1) // count
    return QueueRange(queue.broker_name, queue.queue_id, first, end) if first < end else None


class ReplayFiles:
    """The plan and how far it is carried out, in files of one directory."""

    def __init__(self, directory: str, disk: Disk) -> None:
        self._plan = f"{directory}/plan.json"
        self._done = f"{directory}/done.json"
        self._directory = directory
        self._disk = disk

    def plan(self, wanted: Wanted) -> Plan | None:
        """The plan that was begun; None at the first run. Raises ConfigError when it is one of another replay, and
        StoreFormatUnknown when it cannot be read."""
        if not self._disk.exists(self._plan):
            return None
        plan = _decoded(read_whole(self._disk, self._plan), Plan, self._plan)
        if plan.version != VERSION:
            raise StoreFormatUnknown(f"{self._plan} has version {plan.version}; this release reads version {VERSION}")
        different = [name for name in Wanted.__struct_fields__ if getattr(plan.wanted, name) != getattr(wanted, name)]
        if different:
            raise ConfigError(
                f"the checkpoint {self._directory} belongs to a replay with another {' and another '.join(different)}; "
                "give a new directory, or repeat the command as it was"
            )
        return plan

    def begin(self, plan: Plan) -> None:
        write_durably(self._disk, self._plan, msgspec.json.encode(plan))

    def unsent(self, plan: Plan) -> Iterator[tuple[int, Part]]:
        """The parts that are not sent yet, each with its number. Asking for the next one says that one is sent."""
        done = 0
        if self._disk.exists(self._done):
            done = _decoded(read_whole(self._disk, self._done), int, self._done)
        for number in range(done, len(plan.parts)):
            yield number, plan.parts[number]
            write_durably(self._disk, self._done, msgspec.json.encode(number + 1))


def _decoded(data: bytes, kind: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise StoreFormatUnknown(f"{path} is no file of a replay: {error}; give another checkpoint") from error
