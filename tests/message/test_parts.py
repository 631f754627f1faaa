"""What a message may be made of."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from gantrymq.errors import MessageIllegal
from gantrymq.message.message import Message

BAD: list[tuple[dict[str, Any], str]] = [
    *(({"body": body}, "body must be bytes") for body in (None, 5, 1.5, [1, 2], {"a": 1}, (1,), {1}, object())),
    ({"body": "\ud800"}, "body contains half a character"),
    *(({"topic": topic}, "topic must be a text") for topic in (None, 5, b"T", ["T"], {})),
    *(({"tags": tags}, "tags must be a text") for tags in (5, b"x", ["A"], False)),
    ({"tags": "\udfff"}, "tags contains half a character"),
    *(({"keys": keys}, "keys must be") for keys in (7, b"x", bytearray(b"x"), [None], [b"k"], [True], 1.5)),
    *(({"properties": values}, "properties must be a mapping") for values in (5, "a=b", [("a", "b")], {1})),
    ({"properties": {5: "x"}}, "the name of a property must be a text, not 5"),
    ({"properties": {"n": None}}, "the property 'n' must be a text, not None"),
    ({"properties": {"n": b"x"}}, "the property 'n' must be a text"),
    ({"properties": {"n": True}}, "the property 'n' must be a text"),
    *(({"flag": flag}, "flag must be a whole number") for flag in (2**40, 2**31, -(2**31) - 1, "1", None, True, 1.0)),
    *(({"delay_level": level}, "delay_level must be a whole number") for level in (99, -1, "3", None, True, 3.0)),
    *(({"delay_ms": delay}, "delay_ms must be a whole number") for delay in ("1", -1, 1.5, None, 10**30)),
    *(({"deliver_at_ms": at}, "deliver_at_ms must be a whole number") for at in ("1", -1, 1.5, None, 10**30)),
    *(({"wait": wait}, "wait must be True or False") for wait in (0, 1, None, "no")),
    ({"delay_level": 1, "delay_ms": 1}, "delivered once"),
    *(({"unique_key": key}, "unique_key must be a text of 1 to 128") for key in ("", 5, "a b", "ä", "x" * 129, b"x")),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_an_impossible_argument_is_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(MessageIllegal, match=words):
        Message(**{"topic": "T", "body": b"x", **arguments})


def test_bodies_are_copied() -> None:
    given = bytearray(b"abc")
    messages = [Message("T", given), Message("T", memoryview(given)), Message("T", memoryview(given)[::2])]  # type: ignore[arg-type]
    given[0] = 0
    assert [message.body for message in messages] == [b"abc", b"abc", b"ac"]


def test_numbers_among_keys_and_properties_are_written_in_digits() -> None:
    message = Message("T", b"x", keys=["a", 7], properties={"n": 5, "price": Decimal("1.50"), "zero": 0})  # type: ignore
    assert message.keys == ["a", "7"]
    assert message.properties == {"n": "5", "price": "1.50", "zero": "0", "KEYS": "a 7"}


def test_nothing_given_is_nothing_set() -> None:
    message = Message("T", b"x", tags="", keys=[], properties={}, flag=0, delay_level=0, delay_ms=0, deliver_at_ms=0)
    assert message.properties == {} and Message("T", b"x", tags=None, keys=None, properties=None).properties == {}


def test_the_order_of_properties() -> None:
    message = Message("T", b"x", wait=False, delay_level=3, keys="k", tags="t", properties={"p": "v"})
    assert list(message.properties) == ["p", "TAGS", "KEYS", "DELAY", "WAIT"]
