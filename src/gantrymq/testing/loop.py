"""An event loop whose time passes only when there is nothing left to do at the present moment."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any


class NothingToDo(RuntimeError):
    """Everything waits for something that will never happen."""


class _VirtualTime(selectors.BaseSelector):
    """No files, no waiting: a wait that the loop asks for is over at once, and its seconds have passed."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, fileobj if isinstance(fileobj, int) else fileobj.fileno(), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingToDo("every task waits and no timer runs")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()


class VirtualLoop(asyncio.SelectorEventLoop):
    """``time()`` begins at 0 and jumps from one timer to the next; real files and sockets do not work on it."""

    def __init__(self) -> None:
        self._virtual = _VirtualTime()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now
