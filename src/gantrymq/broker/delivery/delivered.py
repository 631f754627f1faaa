"""What was delivered and is not yet counted in the files of the cursors: it is found again in the log.

A delayed message, a timer message and a popped message that comes back are each copied to the topic that consumers
read. The cursors that say how far this came (``delayOffset.json``, ``timercheck``) are written later, as in Apache's
broker, so a start that believed them alone would deliver again what was copied since. But a copy says which record it
was made of, in the field that only half messages use otherwise: copy and progress are one write. A start reads the log
from the position in ``gantry/delivered`` on, and skips what has its copy there.

Copies that are not on the disk are never counted, also with ASYNC_FLUSH: what a power cut takes is delivered again.
The file is private. Without it the cursors of Apache's files count, and what was copied since comes twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.errors import ConfigError, StoreError
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker")

FILE_NAME: Final = "gantry/delivered"
SAVE_SECONDS: Final = 2.0
"""A start after a crash reads the log of so long, if something was delivered in that time."""
GROWN_BYTES: Final = 64 * 1024 * 1024
"""The position is also written when the log has grown by this much, so that no start has more of it to read."""
NOWHERE: Final = 1 << 62
"""A position behind every log."""


def mark_of(log_offset: int) -> int:
    """What a copy has in its field for half messages: one more than the place of the record that it was made of. 0 says
    that a message is not a copy."""
    return log_offset + 1


@dataclass(frozen=True, slots=True)
class Noted:
    """What the file says."""

    position: int
    """Log offset; copies before it are counted below."""
    levels: Mapping[int, int]
    """Delay level to the first queue offset that is not delivered."""
    timer_read_ms: int
    """Slots of timer messages before this time are delivered."""
    timer_ahead_ms: int
    """How far the time of the timer was ahead of the wall clock, and"""
    timer_ms: int
    """that time, when this was written."""
    given_up: tuple[tuple[str, str, int, int], ...] = ()
    """(group, topic, queue, offset) of orderly messages that are dead letters and may come again; see
    ``pop.dead_letters``."""


@dataclass(slots=True)
class Delivering:
    """What one of those who deliver says when the file is written."""

    settle: Callable[[int], None]
    """Count what has its copies before this log offset."""
    held_from: Callable[[], int]
    """Log offset of the first copy that is not counted; ``NOWHERE`` when there is none."""
    write: Callable[[dict[str, Any]], None]
    """Add the fields of the file."""


@dataclass(slots=True)
class Delivered:
    """The file, and what a start finds behind its position."""

    store: MessageStore
    time: SteadyTime
    file: LazyFile
    noted: Noted | None = None
    copies: dict[int, int] = field(default_factory=dict)
    """Log offset of a record to that of its last copy, for copies behind the position."""
    earlier: dict[int, list[int]] = field(default_factory=dict)
    """The other copies of records that have several: a message comes back to each group by itself."""
    whole: bool = False
    """The copies are those of the whole log, so most of them were counted long ago."""
    parts: list[Delivering] = field(default_factory=list)
    doubtful_from: int = NOWHERE
    """Copies from this log offset on may be in the log although whoever made them was told that they are not."""
    _saved: tuple[int, int] = (0, 0)
    """Position and number of steps of the clock in the file."""

    @classmethod
    def open(cls, store: MessageStore, disk: Disk, time: SteadyTime, *, promoted: bool = False) -> Delivered:
        """Read the file and the log behind it. ``promoted``: the log is that of another broker, whose copies say what
        was delivered; where there is no file, all of it is read."""
        path = store.path(FILE_NAME)
        found = cls(store, time, LazyFile(disk, path, lasting=True))
        try:
            found.noted = _noted(read_json(disk, path) or {})
        except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("%s cannot be read, a crash before may deliver messages again: %s", path, error)
        if found.noted is not None and found.noted.position > store.max_log_offset:
            log.warning("%s is of a longer log and is ignored; a crash before may deliver messages again", path)
            found.noted = None
        if found.noted is None and promoted:
            found.noted = Noted(store.min_log_offset, {}, 0, 0, 0)
            found.whole = True
        if found.noted is not None:
            found._find_copies(found.noted.position)
        return found

    @classmethod
    def unread(cls, store: MessageStore, disk: Disk, time: SteadyTime) -> Delivered:
        """For a broker that delivers nothing by itself."""
        return cls(store, time, LazyFile(disk, store.path(FILE_NAME), lasting=True))

    def _find_copies(self, position: int) -> None:
        copies = self.copies
        for made_of, place in self.store.copies(position):
            before = copies.get(made_of)
            if before is not None:
                self.earlier.setdefault(made_of, []).append(before)
            copies[made_of] = place

    def copies_of(self, log_offset: int) -> list[int]:
        """Where the copies of a record are, in the order of the log."""
        last = self.copies.get(log_offset)
        return [] if last is None else [*self.earlier.get(log_offset, ()), last]

    def begin(self) -> None:
        """Write the file before anything is delivered: from here on a start knows where to read."""
        try:
            self.save()
        except (StoreError, OSError) as error:
            log.warning("a crash in the next seconds may deliver messages again: %s", error)
            self.file.dirty = True

    def changed(self) -> None:
        """Something was counted."""
        self.file.dirty = True

    def save_later(self) -> None:
        """Write what changed; raises StoreError or OSError when the file cannot be made."""
        self.time.wall_ms()
        if self.store.flushed - self._saved[0] >= GROWN_BYTES or self.time.steps != self._saved[1]:
            self.file.dirty = True
        self.file.write_later(self.content)

    def note(self) -> None:
        """Something changed that a start has to know soon: it is written now, and the loop does not wait for it."""
        self.changed()
        try:
            self.save_later()
        except (StoreError, OSError) as error:
            log.error("what was delivered cannot be noted at the moment: %s", error)

    def save(self) -> None:
        """Write now, durably; raises StoreError."""
        self.file.write(self.content())

    def content(self) -> dict[str, Any]:
        """What the file holds."""
        flushed = self.store.flushed
        for part in self.parts:
            part.settle(flushed)
        position = min([flushed, self.doubtful_from, *(part.held_from() for part in self.parts)])
        fields: dict[str, Any] = {"position": position}
        for part in self.parts:
            part.write(fields)
        self._saved = (position, self.time.steps)
        return fields


def _noted(content: Mapping[Any, Any]) -> Noted | None:
    """Raises KeyError, TypeError, ValueError or AttributeError when something is missing."""
    if not content:
        return None
    timer = content.get("timer") or {}
    return Noted(
        int(content["position"]),
        {int(level): int(offset) for level, offset in content.get("levels", {}).items()},
        int(timer.get("read", 0)), int(timer.get("ahead", 0)), int(timer.get("time", 0)),
        tuple((str(group), str(topic), int(queue), int(at)) for group, topic, queue, at in content.get("givenUp", ())),
    )  # fmt: skip
