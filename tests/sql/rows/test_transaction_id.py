"""Ids of local transactions sort by the time of their start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.sql.rows import transaction_id

TIMES = st.integers(0, 16**transaction_id.TIME_DIGITS - 1)
CHANCE = st.integers(0, transaction_id.CHANCES - 1)


@given(TIMES, CHANCE)
def test_an_id_is_one(time_ms: int, chance: int) -> None:
    made = transaction_id.make(time_ms, chance)
    assert transaction_id.is_id(made) and len(made) == transaction_id.SIZE


@given(TIMES, CHANCE, TIMES, CHANCE)
def test_ids_sort_by_time(one_ms: int, one: int, other_ms: int, other: int) -> None:
    ids = transaction_id.make(one_ms, one), transaction_id.make(other_ms, other)
    if one_ms != other_ms:
        assert (ids[0] < ids[1]) == (one_ms < other_ms)
    assert (ids[0] < transaction_id.first_of(other_ms)) == (one_ms < other_ms), "what is older, and nothing else"


@given(st.text(max_size=40))
def test_other_texts_are_no_ids(text: str) -> None:
    hexadecimal = len(text) == 32 and set(text) <= set("0123456789abcdef")
    assert transaction_id.is_id(text) == hexadecimal


def test_an_id_sorts_behind_the_rows_that_are_no_transactions() -> None:
    assert transaction_id.make(0, 0) > "#database" > "#cleaned"
