"""Reads texts as numbers and compares numbers in the way Java does.

Source: Integer.parseInt, Double.valueOf, Double.compareTo.
"""

from __future__ import annotations

import re
import struct
from typing import Final

_WHOLE: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<name>NaN|Infinity)|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
_TRIMMED: Final = "".join(map(chr, range(33)))
MAX_DIGITS: Final = 400
"""Longer texts are no whole number of 64 bits, and reading them costs more with every digit."""


def whole(text: str, bits: int) -> int:
    """Raises ValueError when ``text`` is no whole number, or does not fit into so many bits."""
    if len(text) > MAX_DIGITS or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is no whole number")
    value = int(text)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"{value} does not fit into {bits} bits")
    return value


def double(text: str) -> float:
    """Raises ValueError when ``text`` is no number."""
    found = _DOUBLE.fullmatch(text.strip(_TRIMMED))
    if found is None:
        raise ValueError(f"{text[:40]!r} is no number")
    if found["name"]:
        value = float(found["name"])
    elif found["decimal"]:
        value = float(found["decimal"])
    else:
        try:
            value = float.fromhex(found["hex"])
        except OverflowError:
            value = float("inf")
    return -value if found["sign"] == "-" else value


def order(left: float, right: float) -> int:
    """Less than, equal to or greater than 0. NaN equals itself and is above all else; -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right != 0:
        return 0
    mine, other = _bits(left), _bits(right)
    return (mine > other) - (mine < other)


def _bits(value: float) -> int:
    """Doubles that are zero or not a number, in Java's order among themselves and to the others."""
    number: int = struct.unpack(">q", struct.pack(">d", float("nan") if value != value else value))[0]
    return number
