"""Long lists of names: kept for a few seconds, filtered, shown page by page. Only the shown ones are asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

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

    def forget(self) -> None:
        """Ask anew the next time: something was changed."""
        self._until = 0.0

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


@dataclass(frozen=True, slots=True)
class Order:
    """By which column a list is sorted. In queries it is the name of the column, with ``-`` for the largest first."""

    column: str
    descending: bool = False

    @property
    def text(self) -> str:
        """As queries have it."""
        return f"-{self.column}" if self.descending else self.column

    @property
    def direction(self) -> str:
        """As ``aria-sort`` has it."""
        return "descending" if self.descending else "ascending"

    def after_click(self, column: str, largest_first: bool) -> str:
        """The order that a click on the head of a column asks for: the other way around when it is sorted already."""
        descending = not self.descending if column == self.column else largest_first
        return Order(column, descending).text


def order_of(text: str | None, columns: Collection[str], default: Order) -> Order:
    """The order that a query asks for; ``default`` for a column that there is not."""
    column = (text or "").removeprefix("-")
    return Order(column, (text or "").startswith("-")) if column in columns else default


def in_order(rows: Iterable[T], order: Order, value: Callable[[T, str], Any]) -> list[T]:
    """The rows sorted by the ``value`` of the column. Rows without one (None) come last, whichever way it is sorted."""
    together = list(rows)
    known = [row for row in together if value(row, order.column) is not None]
    unknown = [row for row in together if value(row, order.column) is None]
    return sorted(known, key=lambda row: value(row, order.column), reverse=order.descending) + unknown


async def details(names: Sequence[str], ask: Callable[[str], Awaitable[R]]) -> list[R]:
    """The answer for each name, in order."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> R:
        async with turns:
            return await ask(name)

    return await asyncio.gather(*(one(name) for name in names))
