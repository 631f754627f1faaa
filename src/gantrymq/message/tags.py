"""Tags: their hash, and the expressions with which consumers subscribe to them.

Source: MessageExtBrokerInner.tagsString2tagsCode; docs/protocol.md#tags.
"""

from __future__ import annotations

from functools import lru_cache
from operator import mul

_POWERS = [pow(31, exponent, 1 << 32) for exponent in range(255, -1, -1)]


def java_hash(text: str) -> int:
    """Java's String.hashCode: signed 32 bits over UTF-16 code units."""
    units: bytes | memoryview = (
        text.encode("latin-1") if text.isascii() else memoryview(text.encode("utf-16-le")).cast("H")
    )
    if len(units) <= len(_POWERS):
        value = sum(map(mul, units, _POWERS[len(_POWERS) - len(units) :]))
    else:
        value = 0
        for unit in units:
            value = (31 * value + unit) & 0xFFFFFFFF
    value = int(value) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


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
