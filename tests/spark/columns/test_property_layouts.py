"""Messages that look alike are read at once, with the results of the codec for one text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message import properties
from gantrymq.spark.columns import property_layouts
from gantrymq.spark.columns.property_layouts import LayoutTable, layout_table

texts = st.text("TAGSX\x01\x02ab", max_size=12)
items = st.lists(st.tuples(st.sampled_from(["TAGS", "KEYS", "a", "名"]), st.sampled_from(["v", "ab", "\x01", "值"])))
alike = items.map(lambda pairs: "".join(f"{name}\x01{value}\x02" for name, value in dict(pairs).items()))


def table(given_texts: list[str]) -> LayoutTable | None:
    """With other bytes between the texts, as in the answer to a pull."""
    data, starts, lengths = b"\x02", [], []
    for text in given_texts:
        starts.append(len(data))
        lengths.append(len(text.encode()))
        data += text.encode() + b"\x02a\x01"
    return layout_table(np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int64))


def check(given_texts: list[str], found: LayoutTable) -> None:
    decoded = [properties.decode(text) for text in given_texts]
    for name in ("TAGS", "KEYS", "a", "名", "absent"):
        values = found.find(name.encode()).to_pylist()
        assert [None if value is None else value.decode() for value in values] == [each.get(name) for each in decoded]
    maps = found.maps()
    maps.validate(full=True)
    assert [dict(each) for each in maps.to_pylist()] == decoded


@given(st.lists(alike | texts, max_size=6), st.integers(1, 40))
def test_any_texts_are_read_as_one_by_one_or_left_to_the_other_way(kinds: list[str], times: int) -> None:
    given_texts = kinds * times
    found = table(given_texts)
    if found is not None:
        check(given_texts, found)


@pytest.mark.parametrize(
    "kinds",
    [
        ["TAGS\x01a\x02KEYS\x01k\x02"],
        ["TAGS\x01a\x02KEYS\x01k\x02", "KEYS\x01k\x02TAGS\x01a\x02"],
        ["TAGS\x01a\x02", "a\x01\x01\x02", "", "TAGS\x01a"],
        ["TAGS\x01abc\x02", "TAGS\x01a\x02\x02", "TAGS\x01a\x01c\x02"],
    ],
)
def test_texts_of_clients_have_layouts(kinds: list[str]) -> None:
    given_texts = kinds * 100
    found = table(given_texts)
    if "\x02\x02" in "".join(kinds):
        assert found is None
    else:
        assert found is not None
        check(given_texts, found)


def test_many_lengths_are_left_to_the_other_way() -> None:
    given_texts = [f"KEYS\x01{'k' * number}\x02" for number in range(1, 40)]
    assert table(given_texts) is None
    assert table(given_texts * property_layouts.TEXTS_PER_LAYOUT) is not None
