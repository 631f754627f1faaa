"""Which messages are invisible until when, which must be revived, which part of the revive topic is no longer needed,
and how many check points there were.

All this is derived from the records of the revive topic and nothing else; there is no I/O and no clock. A check point
is open until each of its messages is acknowledged. When its time is over, ``due`` returns it to be revived, and its
messages are acknowledged, as by a consumer, when they are safe in the retry topic.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gantrymq.broker.metrics.lag import NONE, Invisible, Place
from gantrymq.broker.pop.check_point import Ack, CheckPoint, Key
from gantrymq.message.system_topics import normal_topic

MAX_EARLY: Final = 100_000
"""Acknowledgements that may wait for their check points. A store that comes from Apache holds check points that appear
only when they are due; beyond this number their messages may come a second time."""


@dataclass(slots=True, eq=False)
class OpenPoint:
    """A check point with messages that are not acknowledged."""

    point: CheckPoint
    revive_queue: int
    revive_offset: int
    pending: set[int]
    """Queue offsets not acknowledged."""
    due_at: int
    """By the steady time; later than the check point says after a revival failed."""
    busy: bool = field(default=False)
    """Being revived."""
    moving: set[int] = field(default_factory=set)
    """Queue offsets of messages that are being written elsewhere together with their acknowledgements."""


_First: TypeAlias = tuple[str, str, int, int, int]
"""Topic, group, queue, offset, and the time of the pop that began a delivery."""


def _first_of(point: CheckPoint) -> _First:
    """A prolonged delivery is alone in its check point."""
    return (point.topic, point.group, point.queue_id, point.start_offset, point.first_pop)


class Ledger:
    """Check points that are open."""

    def __init__(self, max_early: int = MAX_EARLY) -> None:
        self._max_early = max_early
        self._open: dict[Key, OpenPoint] = {}
        self._times: list[tuple[int, int, OpenPoint]] = []
        """Heap of (due, number, point); entries of closed points are dropped when they come up."""
        self._number = 0
        self._first: dict[int, list[tuple[int, int, OpenPoint]]] = {}
        """Revive queue to a heap of (revive offset, number, point), dropped likewise."""
        self._taken_in: dict[int, int] = {}
        """Revive queue to its last record that was taken in."""
        self._early: dict[Key, set[int]] = {}
        self._prolonged: dict[_First, OpenPoint] = {}
        """Of deliveries that a door has prolonged, by what their client's receipt handle says."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenPoint]:
        return iter(list(self._open.values()))

    def open(
        self, revive_queue: int, revive_offset: int, point: CheckPoint, *, late: bool = False, due_at: int | None = None
    ) -> OpenPoint:  # fmt: skip
        """Take in a check point. One with the same key is replaced: it names the same messages.

        ``due_at``: when it is to be revived, by the clock that ``due`` is asked with; None: when it says itself.

        ``late``: it was parked in a timer, so acknowledgements that were taken in before are its own. Those of another
        one are not: when the clock is set back, a new check point can have the key of one that was acknowledged.
        """
        pending = {point.start_offset + distance for distance in point.distances}
        acked = self._early.pop(point.key, set())
        if late:
            pending -= acked
        opened = OpenPoint(point, revive_queue, revive_offset, pending, point.visible_at if due_at is None else due_at)
        old = self._open.get(point.key)
        if old is not None:
            self._close(old)
            old.pending.clear()
        if pending:
            self._open[point.key] = opened
            if point.holder:
                self._prolonged[_first_of(point)] = opened
            self._number += 1
            heapq.heappush(self._times, (opened.due_at, self._number, opened))
            heapq.heappush(self._first.setdefault(revive_queue, []), (revive_offset, self._number, opened))
        return opened

    def forget(self, opened: OpenPoint) -> None:
        """The record could not be written: as if there had never been one."""
        opened.pending.clear()
        if self._open.get(opened.point.key) is opened:
            self._close(opened)

    def get(self, key: Key) -> OpenPoint | None:
        return self._open.get(key)

    def acked_early(self, key: Key, offset: int) -> bool:
        """Whether a message of a check point that is not open was acknowledged."""
        return offset in self._early.get(key, ())

    def ack(self, ack: Ack, *, keep: bool = False) -> None:
        """Messages were consumed, or are safe elsewhere. ``keep``: the check point may still come."""
        opened = self._open.get(ack.key)
        if opened is None:
            if keep and len(self._early) < self._max_early:
                self._early.setdefault(ack.key, set()).update(ack.offsets)
            return
        opened.pending.difference_update(ack.offsets)
        if not opened.pending:
            self._close(opened)

    def _close(self, opened: OpenPoint) -> None:
        point = opened.point
        del self._open[point.key]
        if point.holder and self._prolonged.get(_first_of(point)) is opened:
            del self._prolonged[_first_of(point)]

    def prolonged(self, topic: str, group: str, queue_id: int, offset: int, first_pop: int) -> OpenPoint | None:
        """The check point of a delivery that began with the pop of that time, and that a door has prolonged since."""
        return self._prolonged.get((topic, group, queue_id, offset, first_pop))

    def all_prolonged(self) -> list[OpenPoint]:
        """Of all deliveries that doors have prolonged."""
        return list(self._prolonged.values())

    def passed(self, revive_queue: int, revive_offset: int) -> None:
        """A record of the revive topic was taken in."""
        if revive_offset > self._taken_in.get(revive_queue, -1):
            self._taken_in[revive_queue] = revive_offset

    # Reviving.

    def next_due(self) -> int | None:
        """When the next check point is to be revived, by the steady time."""
        times = self._times
        while times and (not times[0][2].pending or times[0][2].busy or times[0][0] != times[0][2].due_at):
            heapq.heappop(times)
        return times[0][0] if times else None

    def due(self, now_ms: int, max_messages: int) -> list[OpenPoint]:
        """Check points whose time has come, the oldest first, with about ``max_messages`` messages; ``ack`` or
        ``postpone`` each.
        """
        found: list[OpenPoint] = []
        count = 0
        while count < max_messages:
            at = self.next_due()
            if at is None or at > now_ms:
                break
            opened = heapq.heappop(self._times)[2]
            opened.busy = True
            count += len(opened.pending)
            found.append(opened)
        return found

    def postpone(self, opened: OpenPoint, until_ms: int) -> None:
        """Reviving did not succeed; ``due`` hands it out again at ``until_ms``."""
        opened.busy = False
        opened.due_at = until_ms
        self._number += 1
        heapq.heappush(self._times, (until_ms, self._number, opened))

    # What is not needed any more.

    def committable(self, revive_queue: int) -> int | None:
        """The last record of a revive queue before the first that is still needed; None when none was taken in."""
        last = self._taken_in.get(revive_queue)
        waiting = self._first.get(revive_queue, [])
        while waiting and not waiting[0][2].pending:
            heapq.heappop(waiting)
        return waiting[0][0] - 1 if waiting else last

    def revive_queues(self) -> list[int]:
        """Those of which something was taken in."""
        return list(self._taken_in)


CHECK_POINT: Final = "CK"
ACK: Final = "ACK"
"""Source: PopReviveMessageType."""


@dataclass(frozen=True, slots=True)
class PopCounts:
    """By topic, which is the user's also for messages that came back, and group."""

    written: Counter[tuple[str, str, str, bool]] = field(default_factory=Counter)
    """Records of the revive topic, by their type too, and whether they were stored."""
    revived: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Check points whose time was over before all was acknowledged, by revive queue too."""
    returned: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages that were put into a retry topic."""

    def put(self, entry: CheckPoint | Ack, stored: bool) -> None:
        """A record of the revive topic was stored, or could not be."""
        if isinstance(entry, CheckPoint):
            topic, group, kind = entry.topic, entry.group, CHECK_POINT
        else:
            topic, group, kind = entry.key[0], entry.key[1], ACK
        self.written[normal_topic(topic, group), group, kind, stored] += 1

    def came_back(self, points: Iterable[tuple[OpenPoint, int]]) -> None:
        """Check points were revived, each with so many messages."""
        for opened, messages in points:
            topic, group = normal_topic(opened.point.topic, opened.point.group), opened.point.group
            self.revived[topic, group, opened.revive_queue] += 1
            if messages:
                self.returned[topic, group] += messages


def invisible(points: Iterable[OpenPoint]) -> dict[Place, Invisible]:
    """Of all open check points."""
    found: dict[Place, Invisible] = {}
    for opened in points:
        if opened.pending:
            place = opened.point.topic, opened.point.group, opened.point.queue_id
            before, first = found.get(place, NONE), min(opened.pending)
            found[place] = Invisible(
                before.messages + len(opened.pending), min(before.first, first) if before.messages else first
            )
    return found
