"""For tests of ``store.log.safety``: a condition that the test lets confirm, and a log with positions only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gantrymq.message.send_status import SendStatus
from gantrymq.runtime.clock import Clock
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.conditions import Condition
from gantrymq.store.log.safety import LogSafety
from tests.support.sim_clock import SimClock

EVERYTHING = 1 << 62
"""A position after the end of every log. A replica with this position also confirms later writes."""


class LateReplica:
    """The condition "a replica has it". The test sets the position of the replica."""

    name = "the replica"
    expired = SendStatus.FLUSH_SLAVE_TIMEOUT
    absent = SendStatus.SLAVE_NOT_AVAILABLE

    def __init__(self, limit_ms: int | None = None, position: int = 0, *, available: bool = True) -> None:
        self.limit_ms = limit_ms
        self.position = position
        self.available = available
        self._changed: list[Callable[[], None]] = []

    def follow(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    def truncated(self, position: int) -> None:
        self.position = min(self.position, position)

    def confirm(self, position: int) -> None:
        """Confirm that everything before ``position`` is on the replica."""
        self.position = position
        self._call()

    def hold(self, position: int) -> None:
        """From now on confirm only what is before ``position``."""
        self.position = position

    def go(self) -> None:
        self.available = False
        self._call()

    def come(self) -> None:
        self.available = True
        self._call()

    def _call(self) -> None:
        for changed in list(self._changed):
            changed()


def empty_log() -> CommitLog:
    """A log without files, whose positions the test sets."""
    return CommitLog(OpenFiles(SimDisk()), "/log", 1 << 20, [])


def empty_dispatch() -> Dispatch:
    """Has the position up to which consumers could read."""
    return Dispatch(0, -1, 0, None)


def safety_of(
    log: CommitLog,
    dispatch: Dispatch | None = None,
    clock: Clock | None = None,
    conditions: Sequence[Condition] = (),
    **more: Any,
) -> LogSafety:
    return LogSafety(log, dispatch or empty_dispatch(), clock or SimClock(), conditions, **more)
