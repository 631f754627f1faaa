from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import MessageIllegal
from gantrymq.message import properties

NAME = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=5)
TABLES = st.dictionaries(NAME, NAME, max_size=5)
ANY_TEXT = st.text("AB\x01\x02é", max_size=30)
"""Few letters, so that separators, repeated names and empty parts meet."""


@given(TABLES)
def test_properties_survive_with_and_without_the_last_separator(table: dict[str, str]) -> None:
    text = properties.encode(table)
    assert properties.decode(text) == table
    assert properties.decode(text.removesuffix("\x02")) == table
    assert list(properties.decode(text)) == list(table)


def test_the_text_form() -> None:
    assert properties.encode({"TAGS": "TagA", "UNIQ_KEY": "7F"}) == "TAGS\x01TagA\x02UNIQ_KEY\x017F\x02"
    assert properties.encode({}) == ""
    assert properties.decode("") == {}


def test_empty_parts_vanish() -> None:
    assert properties.encode({"a": "", "": "x", "b": "y"}) == "b\x01y\x02"
    assert properties.decode("a\x01\x02\x01x\x02lonely\x02b\x01y") == {"b": "y"}


def test_a_value_may_hold_the_name_separator_when_others_wrote_it() -> None:
    assert properties.decode("a\x01b\x01c") == {"a": "b\x01c"}


@pytest.mark.parametrize("table", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x01"}, {"a": "\x02"}])
def test_separators_within_parts_are_refused(table: dict[str, str]) -> None:
    with pytest.raises(MessageIllegal, match="separator character"):
        properties.encode(table)


@given(ANY_TEXT, st.sampled_from(["", "A", "B", "AB", "é"]))
def test_find_agrees_with_decode(text: str, name: str) -> None:
    assert properties.find(text, name) == properties.decode(text).get(name)


def test_of_a_repeated_name_the_last_value_counts_everywhere() -> None:
    text = "TRAN_MSG\x01false\x02TRAN_MSG\x01true\x02TRAN_MSG\x01\x02"
    assert properties.decode(text) == {"TRAN_MSG": "true"}
    assert properties.find(text, "TRAN_MSG") == "true"


@given(ANY_TEXT, st.frozensets(st.sampled_from(["A", "B", "AB"])))
def test_without_takes_off_exactly_the_named(text: str, names: frozenset[str]) -> None:
    expected = {name: value for name, value in properties.decode(text).items() if name not in names}
    assert properties.decode(properties.without(text, names)) == expected


def test_without_gives_the_same_text_when_nothing_is_there_to_take_off() -> None:
    text = "TAGS\x01A"
    assert properties.without(text, properties.BROKER_ONLY) is text
    assert properties.without("REAL_TOPIC\x01T\x02" + text, properties.BROKER_ONLY) == "TAGS\x01A\x02"


@given(TABLES, TABLES)
def test_append_separates_what_was_not_separated(first: dict[str, str], second: dict[str, str]) -> None:
    addition = properties.encode(second)
    for text in (properties.encode(first), properties.encode(first).removesuffix("\x02")):
        assert properties.decode(properties.append(text, addition)) == {**first, **second}


def test_what_only_a_broker_sets_is_not_left_to_users() -> None:
    assert properties.BROKER_ONLY <= properties.RESERVED
    assert properties.CHECK_IMMUNITY_SECONDS not in properties.RESERVED


@given(st.text(alphabet="ab\x01\x02x", max_size=40), st.sampled_from(["a", "b", "ab", "x"]))
def test_a_finder_finds_what_find_finds(text: str, name: str) -> None:
    assert properties.finder(name)(text) == properties.find(text, name)
