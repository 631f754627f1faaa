"""The judge of hostile bodies sees what it is there for."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.spark.hostile.bodies import Fate, Made
from tests.spark.hostile.judge import Found, wrong
from tests.spark.hostile.strict_json import values_of
from tests.spark.hostile.values import Values

GOOD = Values("a", 1, Decimal("1.5"), 0, "", None, "1", 0.5)
MADE = [
    Made(b"0", Fate.EVENT, GOOD),
    Made(b"1", Fate.DEAD),
    Made(b"2", Fate.EITHER),
    Made(b"3", Fate.EVENT, replace(GOOD, note="x" * 21)),
    Made(b"4", Fate.EVENT, replace(GOOD, code="-1")),
]
ROW = {"id": "a", "n": 1, "price": Decimal("1.50"), "micros": 0, "note": "", "ratio": 0.5}
RIGHT = Found(
    {"one": [0, 2], "two": [2, 0]},
    {0: ROW, 2: {}},
    [(1, "the body is empty"), (3, "targets.two: too long"), (4, "the condition does not hold")],
)


def test_nothing_is_wrong() -> None:
    assert wrong(MADE, RIGHT) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(RIGHT, places={"one": [0, 2], "two": [0]}), "message 2 is not accounted for"),
        (replace(RIGHT, places={"one": [0, 2], "two": [2, 0, 0]}), "message 0 is not accounted for"),
        (replace(RIGHT, places={"one": [0], "two": [0]}), "message 2 is not accounted for"),
        (replace(RIGHT, dead=[*RIGHT.dead, (1, "the body is empty")]), "message 1 is not accounted for"),
        (replace(RIGHT, dead=[*RIGHT.dead, (0, "the body is empty")]), "message 0 is not accounted for"),
        (replace(RIGHT, places={"one": [0, 2, 9], "two": [0, 2]}), "one has a row of no message: 9"),
        (replace(RIGHT, rows={0: {**ROW, "price": Decimal(2)}}), "message 0 has other values in the table"),
        (replace(RIGHT, dead=[(1, "targets.one: no"), *RIGHT.dead[1:]]), "message 1 must be a dead letter because of"),
        (replace(RIGHT, dead=[*RIGHT.dead[:1], (3, "the body"), *RIGHT.dead[2:]]), "message 3 must be refused by"),
        (replace(RIGHT, dead=[*RIGHT.dead[:2], (4, "the body")]), "message 4 is not valid"),
        (replace(RIGHT, dead=[(1, "a\0"), *RIGHT.dead[1:]]), "message 1 has a reason that not every target"),
        (Found({"one": [2], "two": [2]}, {}, [*RIGHT.dead, (0, "no")]), "message 0 must not be a dead letter"),
    ],
)
def test_what_is_wrong_is_said(found: Found, said: str) -> None:
    lines = wrong(MADE, found)
    assert len(lines) == 1 and lines[0].startswith(said)


@pytest.mark.parametrize(
    ("body", "is_event"),
    [
        (b'{"n": 1, "price": 1.50, "at": "2026-01-31T12:00Z"}', True),
        (b'{"n": 1.0}', False),
        (b'{"price": 1.505}', False),
        (b'{"id": "a", "id": "b"}', False),
        (b'{"id": "a"}{}', False),
        (b'{"id": "\xff"}', False),
        (b'{"id": 5}', False),
    ],
)
def test_the_second_reader_of_json(body: bytes, is_event: bool) -> None:
    assert (values_of(body) is not None) == is_event
