"""Long lists of names: kept for a few seconds, filtered, shown page by page. Only the shown ones are asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from gantrymq.runtime.clock import Clock

T = TypeVar("T")
R = TypeVar("R")

ROWS: Final = 50
KEPT_S: Final = 5.0
AT_ONCE: Final = 8
"""Details that are asked for at the same time."""


@dataclass(slots=True)
class Kept(Generic[T]):
    """An answer that is used again for a few seconds, so that turning pages does not ask for a long list each time."""

    clock: Clock
    _value: T | None = None
    _until: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, ask: Callable[[], Awaitable[T]]) -> T:
        async with self._turn:
            if self._value is None or self.clock.monotonic() >= self._until:
                self._value = await ask()
                self._until = self.clock.monotonic() + KEPT_S
            return self._value


@dataclass(frozen=True, slots=True)
class NamesPage:
    """One page of a list of names."""

    names: list[str]
    number: int
    """From 1."""
    pages: int
    total: int
    """Names that fit the filter."""


def page_of(names: Sequence[str], word: str | None, number: int, rows: int = ROWS) -> NamesPage:
    """The names with ``word`` in them, in any letter case; a page that does not exist is the last one."""
    chosen = [name for name in names if word is None or word.lower() in name.lower()]
    pages = max((len(chosen) + rows - 1) // rows, 1)
    number = min(max(number, 1), pages)
    return NamesPage(chosen[(number - 1) * rows : number * rows], number, pages, len(chosen))


async def details(names: Sequence[str], ask: Callable[[str], Awaitable[R]]) -> list[R]:
    """The answer for each name, in order."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> R:
        async with turns:
            return await ask(name)

    return await asyncio.gather(*(one(name) for name in names))
