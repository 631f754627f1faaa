"""What a caller gave: read as what it must be, or shown in the sentence that refuses it. It may be anything."""

from __future__ import annotations

import operator
import reprlib
from typing import Final

_SHOWN_CHARACTERS: Final = 60


def whole_number(value: object) -> int | None:
    """``value`` as an int when it is a whole number (numpy's, too); None for everything else, True and False included.

    1.0 is refused, because a caller who writes a fraction means something that would be cut off.
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
    """``value`` for a sentence: short, on one line, whatever it is."""
    try:
        text = _short.repr(value)
    except ValueError:  # a number of too many digits for Python to write
        text = f"an object of type {type(value).__name__}"
    return " ".join(text.split())


_short: Final = reprlib.Repr()
_short.maxstring = _short.maxother = _SHOWN_CHARACTERS
_short.maxlevel = 2
