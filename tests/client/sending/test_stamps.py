"""Properties that Stamps formats are equal to properties that are encoded one by one."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.sending.stamps import Stamps, properties_text
from gantrymq.errors import MessageIllegal
from gantrymq.message import properties
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES

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
    key, stamped = stamps(marks).stamp(written, 1_700_000_000_000)
    text = msgspec.json.decode(stamped)
    added = {"UNIQ_KEY": "K0", "WAIT": "true"}
    assert written == values and key == values.get("UNIQ_KEY", "K0")
    wanted = {**values, **marks}
    wanted |= {name: value for name, value in added.items() if name not in values}
    assert text == properties.encode(wanted)


def test_each_message_gets_an_id_but_one_that_has_it() -> None:
    made, values = stamps(MARKS), {"TAGS": "a"}
    assert [made.stamp(values, 0)[0], made.stamp({}, 0)[0], made.stamp(values, 0)[0]] == ["K0", "K1", "K2"]
    assert made.stamp({"UNIQ_KEY": "mine"}, 0)[0] == "mine"
    assert made.marked(values) == {"TAGS": "a", **MARKS, "UNIQ_KEY": "K3", "WAIT": "true"}
    assert stamps({}).marked({"UNIQ_KEY": "mine"}) == {"UNIQ_KEY": "mine", "WAIT": "true"}
    assert values == {"TAGS": "a"}


def test_all_of_it_may_be_as_long_as_the_field_of_its_length_says() -> None:
    for marks in ({}, MARKS):
        added = len(properties.encode({**marks, "UNIQ_KEY": "K0", "WAIT": "true"}).encode())
        fits = {"a": "x" * (MAX_PROPERTIES_BYTES - added - 3)}
        assert len(msgspec.json.decode(stamps(marks).stamp(fits, 0)[1]).encode()) == MAX_PROPERTIES_BYTES
        too_long = {"a": fits["a"] + "x"}
        with pytest.raises(MessageIllegal, match="32767"):
            stamps(marks).stamp(too_long, 0)


def test_separators_and_length_are_refused_and_empty_values_vanish() -> None:
    for values in ({"a": "b\x01"}, {"a": "\x02b"}, {"a\x01b": "c"}, {"a\x02": "c"}):
        with pytest.raises(MessageIllegal, match="separator"):
            properties_text(values)
        with pytest.raises(MessageIllegal, match="separator"):
            stamps({}).stamp(dict(values), 0)
    with pytest.raises(MessageIllegal, match="32767"):
        properties_text({"a": "ä" * 20_000})
    assert properties_text({"a": "", "b": "c"}) == "b\x01c\x02"
