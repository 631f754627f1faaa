"""Tags: their hash, and the expressions with which consumers subscribe to them.

Source: MessageExtBrokerInner.tagsString2tagsCode; docs/protocol.md#tags.
"""

from __future__ import annotations

from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64  # machine integers where this is compiled; to CPython it is only an annotation

_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
_LOW: Final = bytes([_DIGITS[unit % 31] for unit in range(256)])
_HIGH: Final = bytes([_DIGITS[unit // 31] for unit in range(256)])
_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(257)]


def java_hash(text: str) -> int:
    """Java's String.hashCode: signed 32 bits over UTF-16 code units."""
    value = hash_on(0, text)
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


def hash_on(start: int, text: str) -> int:
    """Java's hash of a text, as an unsigned number. ``start``: the hash of what stands in front of ``text``."""
    if _INTERPRETED and text.isascii() and len(text) < len(_POWERS):
        # A hash is a number whose digits, to the base of 31, are the characters. Each of them is written as two digits
        # that are below 31, and int() adds them up: 0.4 us for 32 characters instead of 2 us by the loop below.
        units = text.encode()
        digits = int(units.translate(_LOW), 31) + 31 * int(units.translate(_HIGH), 31) if units else 0
        return (start * _POWERS[len(units)] + digits) & 0xFFFFFFFF
    return _hash_each(start, text)


def hash_behind(start: int, tail: str) -> int:
    """``hash_on`` for a short text that comes again and again, such as the last digits of ids."""
    power, value = _power_and_hash(tail)
    return (start * power + value) & 0xFFFFFFFF


@lru_cache(maxsize=8192)
def _power_and_hash(text: str) -> tuple[int, int]:
    return hash_on(1, text) - hash_on(0, text) & 0xFFFFFFFF, hash_on(0, text)


def _hash_each(start: int, text: str) -> int:
    """Unit by unit: 0.1 us for 32 characters where it is compiled."""
    value: i64 = start
    if text.isascii():
        data = text.encode()
        size: i64 = len(data)
        for at in range(size):  # compiled, to go through the bytes themselves would make an object of each
            value = (31 * value + data[at]) & 0xFFFFFFFF
    else:
        for unit in memoryview(text.encode("utf-16-le")).cast("H"):
            value = (31 * value + unit) & 0xFFFFFFFF
    return value


_INTERPRETED: Final = isinstance(_hash_each, FunctionType)
"""A compiled function is of another type."""


@lru_cache(maxsize=4096)
def tags_code(tags: str | None) -> int:
    """The number that a consume-queue entry contains for a tag; 0 without a tag."""
    return java_hash(tags) if tags else 0


@lru_cache(maxsize=1024)
def parse_tag_expression(expression: str) -> frozenset[str]:
    """``"A || B"`` to its tags; the empty set means every message (``*``, empty or blank)."""
    if not expression or expression.strip() in ("", "*"):
        return frozenset()
    return frozenset(tag.strip() for tag in expression.split("||") if tag.strip())
