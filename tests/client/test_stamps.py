"""Stamped properties say what they would say encoded one by one."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.stamps import Stamps, properties_text
from gantrymq.errors import MessageIllegal
from gantrymq.message import properties

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)
MARKS = {"TRAN_MSG": "true", "PGROUP": 'g"\\ä'}
NAMES = TEXT | st.sampled_from(["UNIQ_KEY", "WAIT", *MARKS])


def stamps(marks: dict[str, str]) -> Stamps:
    numbers = count()
    return Stamps(lambda now_ms: f"K{next(numbers)}", marks)


@given(st.dictionaries(NAMES, TEXT | st.just(""), max_size=5), st.booleans())
def test_like_properties_encoded_one_by_one(values: dict[str, str], half: bool) -> None:
    marks = MARKS if half else {}
    written = dict(values)
    text = msgspec.json.decode(stamps(marks).stamp(written, 1_700_000_000_000))
    added = {"UNIQ_KEY": "K0", "WAIT": "true"}
    assert written == {**added, **values} and list(written)[: len(values)] == list(values)
    wanted = {**values, **marks}
    wanted |= {name: value for name, value in added.items() if name not in values}
    assert text == properties.encode(wanted)


def test_a_message_keeps_its_id() -> None:
    made, values = stamps(MARKS), {"TAGS": "a"}
    first = made.stamp(values, 0)
    assert sorted(msgspec.json.decode(made.stamp(values, 0)).split("\x02")) == sorted(
        msgspec.json.decode(first).split("\x02")
    )
    made.mark(values)
    assert values == {"TAGS": "a", "UNIQ_KEY": "K0", "WAIT": "true"}
    other: dict[str, str] = {}
    made.mark(other)
    assert other == {"UNIQ_KEY": "K1", "WAIT": "true"}


def test_all_of_it_may_be_as_long_as_the_field_of_its_length_says() -> None:
    for marks in ({}, MARKS):
        added = len(properties.encode({**marks, "UNIQ_KEY": "K0", "WAIT": "true"}).encode())
        fits = {"a": "x" * (properties.MAX_BYTES - added - 3)}
        assert len(msgspec.json.decode(stamps(marks).stamp(dict(fits), 0)).encode()) == properties.MAX_BYTES
        too_long = {"a": fits["a"] + "x"}
        with pytest.raises(MessageIllegal, match="32767"):
            stamps(marks).stamp(too_long, 0)
        assert list(too_long) == ["a"]


def test_separators_and_length_are_refused_and_empty_values_vanish() -> None:
    for values in ({"a": "b\x01"}, {"a": "\x02b"}, {"a\x01b": "c"}, {"a\x02": "c"}):
        with pytest.raises(MessageIllegal, match="separator"):
            properties_text(values)
        with pytest.raises(MessageIllegal, match="separator"):
            stamps({}).stamp(dict(values), 0)
    with pytest.raises(MessageIllegal, match="32767"):
        properties_text({"a": "ä" * 20_000})
    assert properties_text({"a": "", "b": "c"}) == "b\x01c\x02"
