"""A way to break the product on purpose, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gantrymq.simulation.run import Result, run

Patch = Callable[[Any, str, Any], None]
"""Sets an attribute of a module or class, until the mutation is over."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to break it, and within how many seeds it is to be found."""

    name: str
    apply: Callable[[Patch], None]
    within: int
    play: Callable[[int], Result] = run
    """Which kind of simulation shows it."""
