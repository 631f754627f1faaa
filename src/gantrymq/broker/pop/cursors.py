"""The offset at which the next pop of a group begins, and the offset that may be committed.

A pop takes messages at once, and its check point becomes durable a little later. Until then the next pop continues
behind it, but the committed offset, which survives a crash, stays: if it were committed before the check point is
durable, messages could be lost. Pops of a queue are committed in the order in which they were made. A commit by
somebody else (a reset) has priority.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Group, topic, queue id."""


class CommittedOffsets(Protocol):
    """The durable part. ``broker.registries.offsets`` is the real one."""

    def get(self, group: str, topic: str, queue_id: int) -> int | None: ...

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...


@dataclass(slots=True, eq=False)
class _Line:
    committed: int | None
    """What was committed when this was looked at last."""
    next: int
    taken: deque[Taken] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Taken:
    """Messages before ``next`` were taken; to be ended by ``settle`` or ``give_back``."""

    place: Place
    line: _Line
    next: int
    settled: bool = False


class Cursors:
    """One for each group and queue that is being popped."""

    def __init__(self, offsets: CommittedOffsets) -> None:
        self._offsets = offsets
        self._lines: dict[Place, _Line] = {}

    def position(self, place: Place) -> int | None:
        """The first offset nobody of the group has taken; None when the group never read the queue."""
        committed = self._offsets.get(*place)
        line = self._lines.get(place)
        if line is None:
            return committed
        if line.committed != committed:
            del self._lines[place]
            return committed
        return line.next

    def take(self, place: Place, next_offset: int) -> Taken:
        """Messages up to ``next_offset`` are taken."""
        self.position(place)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = _Line(self._offsets.get(*place), next_offset)
        line.next = next_offset
        taken = Taken(place, line, next_offset)
        line.taken.append(taken)
        return taken

    def settle(self, taken: Taken) -> None:
        """The check point is durable (or nothing in the range was wanted)."""
        taken.settled = True
        line = taken.line
        if self._lines.get(taken.place) is not line or self._offsets.get(*taken.place) != line.committed:
            return
        while line.taken and line.taken[0].settled:
            line.committed = line.taken.popleft().next
            self._offsets.commit(*taken.place, line.committed)
        if not line.taken:
            del self._lines[taken.place]

    def give_back(self, taken: Taken) -> None:
        """The check point could not be written: messages taken since the last commit are popped again."""
        if self._lines.get(taken.place) is taken.line:
            del self._lines[taken.place]

    def jump(self, place: Place, offset: int) -> None:
        """Continue at ``offset``, whatever was taken."""
        self._lines.pop(place, None)
        self._offsets.commit(*place, offset)

    def recover(self, place: Place, offset: int) -> None:
        """At the start: messages before ``offset`` are known to have been popped."""
        if (self._offsets.get(*place) or 0) < offset:
            self._offsets.commit(*place, offset)
