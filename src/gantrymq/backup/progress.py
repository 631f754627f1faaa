"""How far a backup or a restore is, for people who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Told after each part: bytes that are done, and bytes of all parts."""


def silent(done: int, total: int) -> None:
    """Tell nobody."""
