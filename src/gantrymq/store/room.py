"""Who may still write when a disk gets full: messages are refused first, decisions about half messages last.

A send brings something new, so it is refused while there is still room for everything else. A decision ends what was
taken in before; without it no old log file could ever be deleted, and the full disk would stay full. Room is what is
free and what the reserve holds (``store.reserve``).

* ``OPEN``: nothing is refused.
* ``NO_MESSAGES``: sends are refused. The disk is fuller than ``diskSpaceWarningLevelRatio``; or room is left only for
  the reserve, a quarter of it, and what the open transactions need to be committed.
* ``NO_COPIES``: copies of messages are refused, too: delayed and timed messages that are due, retries, popped messages,
  transactions that are resumed. Room is left only for half of the reserve and what the open transactions need.
* ``NO_DECISIONS``: commits and parking are refused, too. Room is left only for a quarter of the reserve.

A rollback is never refused by a rule, nor is a file of settings or offsets: they are small, and the last quarter of the
reserve is theirs. Between two looks own writes are counted, so that sends stop in time however fast they come.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.errors import DiskFull
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Usage
from gantrymq.store.reserve import BLOCK_BYTES, LARGEST_SHARE, Reserve
from gantrymq.store.space import Space

log = logging.getLogger("gantrymq.store")

LOOK_SECONDS: Final = 10.0
"""How long an answer of the file system about its free space is believed."""
TIGHT_LOOK_SECONDS: Final = 1.0
"""The same while something is refused: whoever made room should not have to wait."""


class Use(enum.IntEnum):
    """What a write is for. Each is refused from the level of the same number on."""

    MESSAGE = 1
    COPY = 2
    DECISION = 3


class Level(enum.IntEnum):
    """How much is refused; see the table of this module."""

    OPEN = 0
    NO_MESSAGES = 1
    NO_COPIES = 2
    NO_DECISIONS = 3


class Reason(enum.StrEnum):
    """Why writes are refused."""

    RATIO = "ratio"
    RESERVE = "reserve"
    FULL = "full"
    FAILED = "failed"
    WAITING = "waiting"


REFUSED: Final = tuple(
    [(use.name.lower(), reason.value) for use in Use for reason in (Reason.RATIO, Reason.RESERVE, Reason.FULL)]
    + [("any", Reason.FAILED.value), ("message", Reason.WAITING.value)]
)
"""(use, reason) of what is counted as refused."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One file system, in bytes."""

    usage: Usage
    reserve: int
    """What the reserve holds there."""
    base: int
    """What it should hold at least; 0: there is none."""
    need: int
    """What the log grows by if every open transaction is committed."""


def level_of(facts: Facts, limit: float) -> tuple[Level, Reason]:
    """The table of this module. ``limit``: share of the file system above which sends are refused."""
    room, base = facts.usage.free + facts.reserve, facts.base
    if room < base // 4:
        return Level.NO_DECISIONS, Reason.RESERVE
    if room < base // 2 + (facts.need if base else 0):
        return Level.NO_COPIES, Reason.RESERVE
    if facts.usage.fullness > limit:
        return Level.NO_MESSAGES, Reason.RATIO
    if base and room < base + base // 4 + facts.need:
        return Level.NO_MESSAGES, Reason.RESERVE
    return Level.OPEN, Reason.RATIO


def base_of(wanted: int, usage: Usage) -> int:
    """Bytes of the reserve on a file system: what the settings want, and at most a sixteenth of it."""
    return min(wanted, usage.total // LARGEST_SHARE) // BLOCK_BYTES * BLOCK_BYTES


class Room:
    """Looks at the disk from time to time, keeps the reserve, and says what is refused.

    ``need``: see ``Facts``; the owner of the transactions sets it.
    """

    def __init__(self, space: Space, clock: Clock, limit: float, reserve: Reserve) -> None:
        self._space = space
        self._clock = clock
        self.limit: Final = limit
        self.reserve: Final = reserve
        self._shared = space.layout.log_directory == ""
        """Whether log and reserve lie on one file system. A log on a disk of its own has no reserve in a file: there
        an Apache broker would trip over it."""
        self.need: Callable[[], int] = lambda: 0
        self.level = Level.OPEN
        self._reason = Reason.RATIO
        self.closed: DiskFull | None = None
        """Why sends are refused; None: they are taken."""
        self.tight = False
        """Whether writes have to look for room first."""
        self.refused: dict[tuple[str, str], int] = dict.fromkeys(REFUSED, 0)
        """How many writes were refused since the start, by use and reason."""
        self._looked = clock.monotonic() - LOOK_SECONDS
        self._full_until = self._looked
        self._unmeasured = 0
        """Bytes that may be written before the next look."""

    @property
    def nearly_full(self) -> bool:
        """Whether messages are refused because too much of the disk is in use: then old log files have to go."""
        return self.tight and self._reason is not Reason.FULL

    # ---- asking

    def check(self, use: Use) -> None:
        """Raise DiskFull when writes for ``use`` are refused; the look at the disk is renewed when it is old."""
        if self.tight and self._clock.monotonic() - self._looked >= TIGHT_LOOK_SECONDS:
            self.look()
        if self.level >= use:
            self.refused[use.name.lower(), self._reason.value] += 1
            raise self._refusal(use)

    def _refusal(self, use: Use) -> DiskFull:
        if use is Use.MESSAGE and self.closed is not None:
            return self.closed
        path, _ = self._space.fullest()
        return DiskFull(
            f"the broker's disk is full: the file system of {path} has room for "
            f"{'decisions' if self.level == Level.NO_COPIES else 'rollbacks'} only; {_ADVICE}"
        )

    # ---- measuring

    def look(self) -> None:
        """Measure, refill the reserve or let it shrink, and say what is refused from now on."""
        now = self._clock.monotonic()
        self._looked = now
        need = self.need()
        if self.reserve.base and now >= self._full_until:
            self.reserve.fit(
                self.reserve.base + need if self._shared else self.reserve.base, self._space.of_queues().free
            )
        level, reason, room = self._worst(need)
        if level is Level.OPEN and now < self._full_until:
            level, reason = Level.NO_MESSAGES, Reason.FULL
        self._enter(level, reason)
        self._unmeasured = room // 2  # a half message costs its bytes twice: once now, once when it is committed

    def _worst(self, need: int) -> tuple[Level, Reason, int]:
        """Of both file systems: the level with its reason, and the bytes of the log until more is refused."""
        base = self.reserve.base
        log_usage = self._space.of_log()
        facts = Facts(log_usage, self.reserve.size if self._shared else 0, base, need)
        found = level_of(facts, self.limit)
        if not self._shared:
            files = level_of(Facts(self._space.of_queues(), self.reserve.size, base, 0), self.limit)
            found = max(found, files, key=lambda each: each[0])
        reachable = log_usage.used + log_usage.free
        by_ratio = int(reachable * self.limit) - log_usage.used
        by_reserve = log_usage.free + facts.reserve - base - base // 4 - need
        return *found, max(0, min(by_ratio, by_reserve) if base else by_ratio)

    def _enter(self, level: Level, reason: Reason) -> None:
        self.tight = level is not Level.OPEN
        if level is Level.OPEN:
            self.closed = None
        elif self.closed is None or level is not self.level or reason is not self._reason:
            self.closed = DiskFull(f"the broker's disk is full: {self._sentence(reason)}; {_ADVICE}")
        if level > self.level:
            log.error("%s (%s)", self.closed, _REFUSED_NOW[level])
        elif level < self.level:
            log.warning("the disk has room again: %s", _REFUSED_NOW[level])
        self.level, self._reason = level, reason

    def _sentence(self, reason: Reason) -> str:
        path, ratio = self._space.fullest()
        if reason is Reason.RATIO:
            return f"the file system of {path} is {ratio:.1%} full, above diskSpaceWarningLevelRatio ({self.limit:.0%})"
        if reason is Reason.FULL:
            return f"the file system of {path} took no more bytes, perhaps because of a quota"
        usage = self._space.of_log() if path == self._space.layout.log else self._space.of_queues()
        return (
            f"the file system of {path} has {usage.free} bytes free and {self.reserve.size} in the reserve, which are "
            "kept for open transactions and for deletion"
        )

    # ---- what the log reports

    def wrote(self, size: int) -> None:
        """So many bytes were written to the log."""
        self._unmeasured -= size
        if self._unmeasured < 0 or self._clock.monotonic() - self._looked >= LOOK_SECONDS:
            self.look()

    def make_room(self, size: int) -> bool:
        """Give back a part of the reserve when not much more than ``size`` bytes are free: a file system needs blocks
        of its own for a write. False when there is nothing left to give back."""
        usage = self._space.of_log() if self._shared else self._space.of_queues()
        missing = size + self.reserve.chunk - usage.free
        return self.reserve.release(missing) > 0 if missing > 0 else True

    def prepare(self, size: int) -> None:
        """Before the log writes ``size`` bytes on a disk that is nearly full."""
        if self._shared:
            self.make_room(size)

    def failed(self, size: int) -> None:
        """The disk took no more. Nothing new is taken for a while, whatever the file system says about its space: it
        may have a quota."""
        self._full_until = self._clock.monotonic() + TIGHT_LOOK_SECONDS
        if self._shared:
            self.reserve.release(size)
        self.refused["message", Reason.FULL.value] += 1
        self.look()

    def file_failed(self, size: int) -> bool:
        """A small file could not be written; whether it is worth while to try again."""
        given = self.reserve.release(size + BLOCK_BYTES) > 0
        if given:
            log.error("the disk is full: a part of the reserve is used for a file; %s", _ADVICE)
        return given


_ADVICE: Final = (
    "free space on it or make it larger, and decide open transactions (`gantry transactions list`), which keep old log "
    "files; then sends continue by themselves"
)
_REFUSED_NOW: Final = {
    Level.OPEN: "messages are taken",
    Level.NO_MESSAGES: "messages are refused, everything else goes on",
    Level.NO_COPIES: "messages are refused, and delayed messages and retries wait; transactions are decided",
    Level.NO_DECISIONS: "messages, copies and commits are refused; transactions can be rolled back",
}
