"""The id of a local transaction: 32 hexadecimal digits, of which the first 12 are the time of its start.

So ids sort by time. That keeps inserts at the end of the database's index, and lets the cleaning of old rows name a
range of ids. The time is that of the process that began the transaction, in milliseconds since 1970.
"""

from __future__ import annotations

from typing import Final

TIME_DIGITS: Final = 12
RANDOM_BYTES: Final = 10
SIZE: Final = TIME_DIGITS + 2 * RANDOM_BYTES


def make(now_ms: int, chance: bytes) -> str:
    """``chance``: RANDOM_BYTES of randomness."""
    return first_of(now_ms) + chance.hex()


def first_of(time_ms: int) -> str:
    """The smallest beginning of an id at this time: everything older sorts before it."""
    return f"{time_ms:0{TIME_DIGITS}x}"


def is_id(text: str) -> bool:
    """Whether a text from a message can be an id, and may be written into the database."""
    return len(text) == SIZE and all(digit in "0123456789abcdef" for digit in text)
