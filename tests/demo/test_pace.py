"""The pace of the demo: even, held in the middle, never backwards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.demo.pace import LONGEST_PAYING_SECONDS, SLOWEST_PACE, Pace


def test_small_runs_go_at_the_slowest_pace() -> None:
    pace = Pace(500, 250, 100.0)
    assert pace.limit(100.0, beyond_half=True) == 0
    assert pace.limit(104.0, beyond_half=True) == 4 * SLOWEST_PACE


def test_large_runs_take_no_longer_than_allowed() -> None:
    pace = Pace(20_000, 10_000, 0.0)
    assert pace.limit(LONGEST_PAYING_SECONDS, beyond_half=True) == 20_000


def test_it_waits_in_the_middle_and_goes_on_from_there() -> None:
    pace = Pace(500, 250, 0.0)
    assert pace.limit(11.0, beyond_half=False) == 250
    assert pace.limit(60.0, beyond_half=False) == 250
    assert pace.waits
    assert pace.limit(61.0, beyond_half=True) == 12 * SLOWEST_PACE
    assert not pace.waits


@given(steps=st.lists(st.tuples(st.floats(0, 30), st.booleans())))
def test_the_limit_stays_in_bounds_and_passes_the_middle_only_when_allowed(steps: list[tuple[float, bool]]) -> None:
    pace, now, allowed, last = Pace(200, 100, 0.0), 0.0, False, 0
    for seconds, permission in steps:
        now += seconds
        allowed = allowed or permission  # Spark comes once and stays
        limit = pace.limit(now, beyond_half=allowed)
        assert last <= limit <= (200 if allowed else 100)
        last = limit
