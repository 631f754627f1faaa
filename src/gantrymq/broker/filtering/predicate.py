"""What a selector becomes, and what is raised for a text that is no selector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Predicate: TypeAlias = Callable[[str], bool]
"""Properties text to "this message is wanted"."""


class SelectorInvalid(ValueError):
    """A selector that cannot be used; the text says why and where, and what would help."""
