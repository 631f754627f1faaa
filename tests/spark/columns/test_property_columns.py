"""Finding a property in many texts at once gives what the codec for one text gives."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message import properties
from gantrymq.spark.columns.property_columns import PropertyTable
from gantrymq.spark.columns.ranges import take_ranges, text_column

texts = st.lists(st.text("TAGSX\x01\x02ab", max_size=24), max_size=8)
names = st.sampled_from(["T", "TAG", "TAGS", "XTAGS", "a", "TAGSTAGS", "GSTAGSTAGS"])


def table(given_texts: list[str]) -> PropertyTable:
    return PropertyTable.of(pa.array([text.encode() for text in given_texts], pa.binary()))


@given(texts, names)
def test_one_name(given_texts: list[str], name: str) -> None:
    found = table(given_texts).find(name.encode()).to_pylist()
    assert [value.decode() if value is not None else None for value in found] == [
        properties.decode(text).get(name) for text in given_texts
    ]


@given(texts)
def test_all_names(given_texts: list[str]) -> None:
    maps = table(given_texts).maps()
    maps.validate(full=True)
    assert [dict(items) for items in maps.to_pylist()] == [properties.decode(text) for text in given_texts]
    assert all(len(items) == len(dict(items)) for items in maps.to_pylist())


def test_ranges_of_a_buffer() -> None:
    taken = take_ranges(b"abcdef", [0, 2, 5], [2, 2, 6], [True, True, False])
    assert taken.to_pylist() == [b"ab", b"", None]
    assert text_column(pa.array([b"\xffx", None], pa.binary())).to_pylist() == ["\ufffdx", None]
