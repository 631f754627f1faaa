"""The id of a local transaction: 32 hexadecimal digits, of which the first 12 are the time of its start.

So ids sort by time. That keeps inserts at the end of the database's index, and lets the cleaning of old rows name a
range of ids. The time is that of the process that began the transaction, in milliseconds since 1970.
"""

from __future__ import annotations

from typing import Final

TIME_DIGITS: Final = 12
RANDOM_DIGITS: Final = 20
CHANCES: Final = 16**RANDOM_DIGITS
SIZE: Final = TIME_DIGITS + RANDOM_DIGITS


def make(now_ms: int, chance: int) -> str:
    """``chance``: a random number below CHANCES. Ids are no secrets, so it need not come from the kernel, which every
    thread would have to wait for."""
    return f"{first_of(now_ms)}{chance:0{RANDOM_DIGITS}x}"


def first_of(time_ms: int) -> str:
    """The smallest beginning of an id at this time: everything older sorts before it."""
    return f"{time_ms:0{TIME_DIGITS}x}"


def is_id(text: str) -> bool:
    """Whether a text from a message can be an id, and may be written into the database."""
    return len(text) == SIZE and all(digit in "0123456789abcdef" for digit in text)
