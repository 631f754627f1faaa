"""Judges a run: each message is in every table or in the dead letters, once, and nothing of it was changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.spark.hostile.bodies import Fate, Made
from tests.spark.hostile.values import CODES, Values, refused_by


@dataclass(frozen=True, slots=True)
class Found:
    """What a run has left behind."""

    places: Mapping[str, Sequence[int]]
    """By table: the message of each row."""
    rows: Mapping[int, Mapping[str, Any]]
    """By message: the columns in the widest table."""
    dead: Sequence[tuple[int, str]]
    """The message of each dead letter, and its reason."""
    changed: Sequence[str] = ()
    """Rows of a database whose values are not those of the widest table."""


def wrong(made: Sequence[Made], found: Found) -> list[str]:
    """What is wrong, one line for each message."""
    lines = list(found.changed)
    tables = {name: Counter(places) for name, places in found.places.items()}
    letters = Counter(place for place, _ in found.dead)
    reasons = dict(found.dead)
    for place, one in enumerate(made):
        counts = {name: table[place] for name, table in tables.items()}
        seen = f"{one.body!r:.300}: rows {counts}, dead letters {letters[place]}, reason {reasons.get(place)}"
        accepted = letters[place] == 0
        if set(counts.values()) != {int(accepted)} or letters[place] not in (0, 1):
            lines.append(f"message {place} is not accounted for: {seen}")
        elif (problem := _misjudged(one, reasons.get(place), found.rows.get(place))) is not None:
            lines.append(f"message {place} {problem}: {seen}")
    known = range(len(made))
    lines += [
        f"{name} has a row of no message: {one}" for name, table in tables.items() for one in table if one not in known
    ]
    return lines


def _misjudged(one: Made, reason: str | None, row: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the decision about a message that is where it is once."""
    if reason is not None and not (reason.isprintable() and 0 < len(reason) <= 500):
        return "has a reason that not every target can store"
    if one.fate is Fate.DEAD:
        return "must be a dead letter because of its body" if reason is None or reason.startswith("targets.") else None
    if one.fate is Fate.EITHER or one.values is None:
        return None
    if one.values.code not in CODES:
        return None  # only Spark knows what it takes for a number
    if CODES[one.values.code] is not True:
        return None if reason is not None and reason.startswith("the condition ") else "is not valid"
    refusing = refused_by(one.values)
    if refusing is not None:
        return None if reason is not None and reason.startswith("targets.") else f"must be refused by {refusing}"
    if reason is not None:
        return "must not be a dead letter"
    return None if row is not None and _same(one.values, row) else f"has other values in the table: {row}"


def _same(values: Values, row: Mapping[str, Any]) -> bool:
    price = None if values.price is None else Decimal(values.price)
    expected = (values.id, values.n, price, values.micros, values.note, values.ratio)
    return expected == tuple(row[name] for name in ("id", "n", "price", "micros", "note", "ratio"))
