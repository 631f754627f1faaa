"""The comparison without Spark names exactly the orders that break the promise."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.demo.verify import compare

ORDER_IDS = st.sampled_from([f"o-{number}" for number in range(8)])


def test_all_well() -> None:
    verdict = compare({"o-1", "o-2"}, Counter({"o-1": 1, "o-2": 1}))
    assert (verdict.missing, verdict.doubled, verdict.phantom) == (0, 0, 0)
    assert verdict.named == {"missing": [], "doubled": [], "phantom": []}


def test_each_kind_is_named() -> None:
    verdict = compare({"lost", "twice", "fine"}, Counter({"twice": 2, "fine": 1, "ghost": 1}))
    assert verdict.named == {"missing": ["lost"], "doubled": ["twice"], "phantom": ["ghost"]}


@given(paid=st.sets(ORDER_IDS), delivered=st.lists(ORDER_IDS))
def test_it_agrees_exactly_when_both_are_the_same_without_repetition(paid: set[str], delivered: list[str]) -> None:
    verdict = compare(paid, Counter(delivered))
    agrees = verdict.missing == verdict.doubled == verdict.phantom == 0
    assert agrees == (sorted(paid) == sorted(delivered))
