"""Waiting for the disk once for many records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from gantrymq.errors import StoreError
from gantrymq.transactions.ports import HalfStore

T = TypeVar("T")


class SharedWait(Generic[T]):
    """Tells ``ended`` how the write of records ended, for all that share their fate: 2 us less for each.

    What is appended between two writes is written together or not at all, and a sync covers whole writes. So whoever
    waits for the first record of a write waits for all of them.
    """

    def __init__(self, store: HalfStore, ended: Callable[[list[T], StoreError | None], None]) -> None:
        self._store = store
        self._ended = ended
        self._items: list[T] | None = None
        """Those of the records behind ``_written``; None: there are none."""
        self._written = -1

    def add(self, end: int, item: T) -> None:
        """``item`` belongs to a record that was appended just now and ends at log offset ``end``."""
        written = self._store.written
        if self._items is not None and self._written == written:
            self._items.append(item)
            return
        self._items = items = [item]
        self._written = written
        self._store.when_durable(end, partial(self._tell, items))

    def _tell(self, items: list[T], error: StoreError | None) -> None:
        if self._items is items:
            self._items = None
        self._ended(items, error)
