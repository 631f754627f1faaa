"""Work that is done once for everything that came in one turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from gantrymq.runtime.clock import Clock

T = TypeVar("T")


class Gathering(Generic[T]):
    """Collects items, and passes all of a turn to ``work`` behind it, in the order in which they came."""

    def __init__(self, clock: Clock, work: Callable[[list[T]], None]) -> None:
        self._clock = clock
        self._work = work
        self._items: list[T] = []

    def add(self, item: T) -> None:
        """``work`` gets it soon."""
        if not self._items:
            self._clock.call_soon(self._run)
        self._items.append(item)

    def _run(self) -> None:
        items, self._items = self._items, []
        self._work(items)
