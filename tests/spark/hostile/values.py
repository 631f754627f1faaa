"""Values by chance for one event: ordinary ones, those at the ends of their types, and those that a target refuses."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from decimal import Decimal

LONGEST_NOTE = 20
"""Of the column in PostgreSQL."""
DIVIDED_BY_ZERO_ONCE_IN = 3000
"""A query that fails has to be asked many times until the message is found."""
_TEXTS = (
    "",
    "a",
    "o'1",
    "zwölf",
    "😀",
    "\u2028",
    "a\tb",
    '"',
    "\\",
    "{}",
    "x\0y",
    "null",
    " spaces ",
    "\ufeff",
    "e\u0301",
)
_NOTES = (*_TEXTS, "n" * LONGEST_NOTE, "n" * (LONGEST_NOTE + 1), "n" * LONGEST_NOTE + "   ", "é" * LONGEST_NOTE)
_KINDS = ("card", "cash", "a/b", "..", "", "é", "50%", "x=y", "__HIVE_DEFAULT_PARTITION__", "k" * 300, "k\0", None)
CODES = {"1": True, "0": True, "-1": False, "x": None, "99999999999": None, "": None, None: None}
"""Of the condition ``cast(code as int) >= 0``: whether it holds; None: it is null or fails."""
VALID = "cast(code as int) >= 0"


@dataclass(frozen=True, slots=True)
class Values:
    """The columns of an event."""

    id: str | None
    n: int | None
    price: Decimal | None
    micros: int | None
    """The column ``at``: microseconds since 1970."""
    note: str | None
    kind: str | None
    code: str | None
    ratio: float | None


def values(chance: random.Random) -> Values:
    """The values of an event, most of which every target takes."""
    ordinary = Values(
        id=f"o-{chance.randrange(1 << 32)}", n=chance.randrange(1, 1 << 15), note=chance.choice(("", "ok", "gift")),
        price=Decimal(chance.randrange(10**9)).scaleb(-2), micros=chance.randrange(0, 4 * 10**15),
        kind=chance.choice(("card", "cash")), code="1", ratio=chance.random(),
    )  # fmt: skip
    if chance.random() < 0.6:
        return ordinary
    if chance.randrange(DIVIDED_BY_ZERO_ONCE_IN) == 0:
        return replace(ordinary, n=0)
    match chance.randrange(7):
        case 0:
            return replace(ordinary, id=chance.choice((*_TEXTS, None)))
        case 1:
            return replace(ordinary, n=chance.choice((1, -1, 32767, 32768, -32768, -32769, 2**31 - 1, -(2**31), None)))
        case 2:
            price = chance.choice(("99999999.99", "100000000.00", "-0.01", "0.00", "9999999999.99", "5", None))
            return replace(ordinary, price=None if price is None else Decimal(price))
        case 3:
            return replace(ordinary, micros=chance.choice((-62_135_596_800_000_000, 253_402_300_799_999_999, -1, None)))
        case 4:
            return replace(ordinary, note=chance.choice((*_NOTES, None)))
        case 5:
            return replace(ordinary, kind=chance.choice(_KINDS))
    return replace(ordinary, code=chance.choice(list(CODES)), ratio=chance.choice((0.1, -0.0, 1e308, 5e-324, None)))


def refused_by(one: Values) -> str | None:
    """Which target refuses this event."""
    if one.kind == "__HIVE_DEFAULT_PARTITION__" or len((one.kind or "").encode()) > 240:
        return "targets.directories"
    if one.n == 0:
        return "targets.delta"
    if (
        "\0" in (one.id or "") + (one.note or "")
        or len((one.note or "").rstrip(" ")) > LONGEST_NOTE
        or not -32768 <= (one.n or 0) <= 32767
        or abs(one.price or 0) >= 10**8
    ):
        return "targets.postgresql"
    return None
