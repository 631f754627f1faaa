"""Waiting for the disk once for many records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from gantrymq.errors import StoreError
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.log.flush import Done
from gantrymq.store.log.limits import Late

T = TypeVar("T")


class Safety(Protocol):
    """The part of LogSafety that is needed here."""

    def when_safe(self, end: int, done: Done, late: Late | None = None) -> None: ...


class SharedWait(Generic[T]):
    """Tells ``ended`` how the write of records ended, for all that share their fate (`python -m benchmarks.forks`).

    What is appended between two writes is written together or not at all, and a log becomes safe by whole writes. So
    whoever waits for the first record of a write waits for all of them.
    """

    def __init__(
        self,
        safety: Safety,
        commit_log: CommitLog,
        ended: Callable[[list[T], StoreError | None], None],
        late: Callable[[list[T], Unconfirmed], None] | None,
    ) -> None:
        self._safety = safety
        self._log = commit_log
        self._ended = ended
        self._late = late
        self._items: list[T] | None = None
        """Those of the records behind ``_written``; None: there are none."""
        self._written = -1

    def add(self, end: int, item: T) -> None:
        """``item`` belongs to a record that was appended just now and ends at log offset ``end``."""
        written = self._log.written
        if self._items is not None and self._written == written:
            self._items.append(item)
            return
        self._items = items = [item]
        self._written = written
        late = self._late
        self._safety.when_safe(end, partial(self._end, items), None if late is None else partial(late, items))

    def _end(self, items: list[T], error: StoreError | None) -> None:
        if self._items is items:
            self._items = None
        if items:
            self._ended(items, error)
