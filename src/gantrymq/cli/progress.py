"""The progress of a long run: a bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from rich.console import Console
from rich.progress import track

from gantrymq.runtime.clock import Clock

LINE_EVERY_SECONDS: Final = 30.0
T = TypeVar("T")


def shown(items: Iterable[T], text: str, total: int, console: Console, clock: Clock) -> Iterator[T]:
    """Yield ``items``, of which there are ``total``, and show the progress of ``text`` on ``console``."""
    if console.is_terminal:
        yield from track(items, text, total, console=console)
        return
    begun = said = clock.monotonic()
    for number, item in enumerate(items, 1):
        yield item
        now = clock.monotonic()
        if now - said >= LINE_EVERY_SECONDS and number < total:
            said = now
            left = (now - begun) / number * (total - number)
            console.print(f"{text}: {number} of {total} in {now - begun:.0f} s, about {left:.0f} s left", markup=False)
