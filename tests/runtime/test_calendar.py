"""Any number may come as a time."""

from __future__ import annotations

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.cli import show
from gantrymq.runtime.calendar import iso, utc_of


@given(st.integers(0, 4_000_000_000_000))
def test_a_date_comes_back(time_ms: int) -> None:
    assert round(datetime.fromisoformat(iso(time_ms)).timestamp() * 1000) == time_ms


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_can_be_shown(time_ms: int) -> None:
    assert iso(time_ms) and show.clock_time(time_ms)
    assert (show.when(time_ms) is None) == (time_ms <= 0)


def test_what_is_no_date_is_shown_as_it_is() -> None:
    micros = 1_790_000_000_000_000
    assert iso(micros) == show.when(micros) == "1790000000000000 ms" and utc_of(-1) is None
