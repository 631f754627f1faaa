"""The compiled form of a selector, and the error for a text that is not a selector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Predicate: TypeAlias = Callable[[str], bool]
"""Properties text to "this message is wanted"."""


class SelectorInvalid(ValueError):
    """A selector that cannot be used; the text says why and where, and what would help."""
