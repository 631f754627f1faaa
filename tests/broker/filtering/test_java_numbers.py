"""Numbers as Java reads and orders them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.filtering.java_numbers import double, order, whole

INFINITY = float("inf")


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5.0), (" 5.5\t", 5.5), ("5.", 5.0), (".5", 0.5), ("+1e3", 1000.0), ("5d", 5.0), ("5.0F", 5.0),
     ("0x1p3", 8.0),
     ("-0X.8P1f", -1.0), ("Infinity", INFINITY), ("-Infinity", -INFINITY),
     ("1e999", INFINITY), ("0x1p9999", INFINITY)],
)  # fmt: skip
def test_doubles(text: str, value: float) -> None:
    assert double(text) == value


@pytest.mark.parametrize("text", ["", " ", "x", "5x", "1_000", "inf", "nan", "0x10", "1e", "--5", "5 5", "\u00a05"])
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(ValueError, match="is no number"):
        double(text)


@pytest.mark.parametrize("text", ["", "x", "5.0", " 5", "1_0", "2147483648", "-2147483649", "1" * 10_000])
def test_what_is_no_whole_number_of_32_bits(text: str) -> None:
    with pytest.raises(ValueError):
        whole(text, 32)


def test_whole_numbers() -> None:
    assert [whole(text, 32) for text in ("+5", "-2147483648", "007", "٣")] == [5, -(1 << 31), 7, 3]
    assert whole("9223372036854775807", 64) == (1 << 63) - 1


@given(st.floats(), st.floats())
def test_the_order_is_total(left: float, right: float) -> None:
    mine = order(left, right)
    assert mine == -order(right, left)
    if not math.isnan(left) and not math.isnan(right) and left != right:
        assert mine == (1 if left > right else -1)
    assert (mine == 0) == (repr(left) == repr(right))
    if math.isnan(left) and not math.isnan(right):
        assert mine == 1
