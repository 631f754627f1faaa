"""Which questions are asked about checks. The answers are read from real brokers in ``tests/cli``."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.admin.checks import spans


def test_near_ones_are_asked_about_together() -> None:
    assert spans([], 10) == []
    assert spans([7, 3, 12, 13, 99], 10) == [range(3, 13), range(13, 14), range(99, 100)]


@given(st.lists(st.integers(0, 1000)), st.integers(1, 50))
def test_each_number_is_in_one_span_and_none_is_too_wide(numbers: list[int], width: int) -> None:
    found = spans(numbers, width)
    assert all(len(span) <= width for span in found)
    assert all(sum(number in span for span in found) == 1 for number in numbers)
    assert all(one.stop <= other.start for one, other in pairwise(found))
