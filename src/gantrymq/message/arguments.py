"""Reads arguments of any type that a caller passed, and shows them in error messages."""

from __future__ import annotations

import operator
import reprlib
from typing import Final

_SHOWN_CHARACTERS: Final = 60


def whole_number(value: object) -> int | None:
    """``value`` as an int when it is a whole number (numpy's, too); None for everything else, True and False included.

    1.0 is refused like every float, because the fraction of a float would be lost.
    """
    if value.__class__ is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return int(operator.index(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, ArithmeticError):
        return None


def shown(value: object) -> str:
    """``value`` as a short text on one line, for an error message."""
    try:
        text = _short.repr(value)
    except ValueError:  # Python does not convert numbers of very many digits
        text = f"an object of type {type(value).__name__}"
    return " ".join(text.split())


_short: Final = reprlib.Repr()
_short.maxstring = _short.maxother = _SHOWN_CHARACTERS
_short.maxlevel = 2
