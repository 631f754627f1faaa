from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message import tags
from gantrymq.message.tags import hash_on, java_hash, parse_tag_expression, tags_code


def slow_java_hash(text: str) -> int:
    """String.hashCode as its documentation states it."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    ("text", "expected"), [("TagA", 2598919), ("TagB", 2598920), ("", 0), ("a", 97), ("中文", 646394), ("*", 42)]
)
def test_vectors(text: str, expected: int) -> None:
    """Source: docs/protocol.md#tags."""
    assert java_hash(text) == expected
    assert tags_code(text) == expected


@given(st.text() | st.text(min_size=200, max_size=300) | st.text("az", min_size=250, max_size=260))
def test_the_hash_is_javas(text: str) -> None:
    assert java_hash(text) == slow_java_hash(text)


@given(st.text() | st.text("az", max_size=300), st.text())
def test_a_hash_goes_on_from_the_beginning_of_its_text(text: str, more: str) -> None:
    whole = slow_java_hash(text + more) & 0xFFFFFFFF
    assert hash_on(hash_on(0, text), more) == whole
    assert tags._hash_each(tags._hash_each(0, text), more) == whole, "what the compiled core does, also here"


def test_long_texts_and_letters_beyond_the_basic_plane() -> None:
    for text in ("z" * 256, "z" * 257, "\U0001f680" * 200, "é" * 1000):
        assert java_hash(text) == slow_java_hash(text)


def test_no_tag_is_zero() -> None:
    assert tags_code(None) == 0


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", set()),
        ("", set()),
        ("   ", set()),
        (" * ", set()),
        ("A", {"A"}),
        ("A || B", {"A", "B"}),
        ("A||B||A", {"A", "B"}),
        (" A ||  || B ||", {"A", "B"}),
    ],
)
def test_subscription_expressions(expression: str, tags: set[str]) -> None:
    assert parse_tag_expression(expression) == tags
