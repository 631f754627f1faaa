"""Large work in small steps, so that the event loop serves others in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from gantrymq.errors import GantryError
from gantrymq.runtime.clock import Clock

T = TypeVar("T")

SLICE_S: Final = 0.005
"""After so long others have their turn."""


async def gathered(clock: Clock, steps: Iterator[T]) -> list[T]:
    """What all steps give. Between two of them others may change what the steps read."""
    found: list[T] = []
    began = clock.monotonic()
    for step in steps:
        found.append(step)
        if clock.monotonic() - began >= SLICE_S:
            await clock.sleep(0)
            began = clock.monotonic()
    return found


def gather(
    clock: Clock, steps: Iterator[T], done: Callable[[list[T]], None], failed: Callable[[GantryError], None]
) -> None:  # fmt: skip
    """The same for code without tasks: ``done`` is called with what all steps give, or ``failed`` with what one raises.
    Small work is done before this returns."""
    found: list[T] = []

    def turn() -> None:
        began = clock.monotonic()
        try:
            for step in steps:
                found.append(step)
                if clock.monotonic() - began >= SLICE_S:
                    clock.call_soon(turn)
                    return
        except GantryError as error:
            failed(error)
            return
        done(found)

    turn()
