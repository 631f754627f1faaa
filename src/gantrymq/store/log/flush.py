"""Group commit: callers wait for positions, and one sync after the other answers all callers it covers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from gantrymq.errors import StoreError
from gantrymq.runtime.disk import Disk
from gantrymq.store.log.commit_log import CommitLog

Done = Callable[[StoreError | None], None]
Told = Callable[[Any, StoreError | None], None]
"""``Done`` for many: called with what one of them gave, and the error."""


class Waiters:
    """Calls to make when a position is reached, in the order they came."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Told, Any]] = deque()

    def add(self, end: int, told: Told, item: Any) -> None:
        self._waiting.append((end, told, item))

    def __len__(self) -> int:
        return len(self._waiting)

    def reached(self, position: int) -> None:
        """Answer all callers that wait for a position up to ``position``."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            _end, told, item = waiting.popleft()
            told(item, None)

    def fail(self, behind: int, error: StoreError) -> None:
        """Tell all callers that wait for a position after ``behind`` that it will not become durable."""
        waiting = self._waiting
        failed = [entry for entry in waiting if entry[0] > behind]
        kept = [entry for entry in waiting if entry[0] <= behind]
        # In place: whoever is told by ``reached`` may append, and that may fail.
        waiting.clear()
        waiting.extend(kept)
        for _end, told, item in failed:
            told(item, error)


def pass_on(done: Done, error: StoreError | None) -> None:
    """A ``Told`` for one that is called without anything else."""
    done(error)


class Flusher:
    """Syncs what is written; each sync starts when the previous one has ended.

    ``flushed`` is called after every sync, with None or the error. After an error there is no second try: the kernel
    may have dropped the pages, so a later success would mean nothing.
    """

    def __init__(self, disk: Disk, log: CommitLog, flushed: Callable[[OSError | StoreError | None], None]) -> None:
        self._disk = disk
        self._log = log
        self._flushed = flushed
        self.running = False
        self.failed = False

    def start(self) -> None:
        """Begin a sync unless one is running, has failed, or nothing is there to sync."""
        log = self._log
        if self.running or self.failed or not log.dirty:
            return
        target = log.written
        self.running = True
        self._disk.sync_later(log.unsynced_files(), lambda error: self._ended(target, error))

    def _ended(self, target: int, error: BaseException | None) -> None:
        self.running = False
        if error is None:
            self._log.made_durable(target)
            self._flushed(None)
            return
        self.failed = True
        if not isinstance(error, (OSError, StoreError)):
            raise error
        self._flushed(error)
