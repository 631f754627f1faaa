"""Metrics of timer messages: which are late, and which come soon."""

from __future__ import annotations

from collections import Counter

from gantrymq.broker.delivery.timer_metrics import BOUNDS_S, overdue, within

NOW = 1_000_000


def test_slots_that_are_over_are_late_by_the_first_of_them() -> None:
    assert overdue(Counter(), NOW) == (0, 0)
    assert overdue(Counter({NOW: 3, NOW + 1_000: 1}), NOW) == (0, 0)
    assert overdue(Counter({NOW - 4_000: 2, NOW - 1_000: 5, NOW - 9_000: 0, NOW + 1_000: 1}), NOW) == (7, 4_000)


def test_each_bound_counts_what_comes_until_then() -> None:
    by_slot = Counter({NOW - 1_000: 1, NOW + 5_000: 2, NOW + 6_000: 4, NOW + 300_000: 8, NOW + 90_000_000: 16})
    counts = {int(labels[2]): count for labels, count in within(by_slot, NOW)}
    assert counts == {5: 3, 60: 7, 300: 15, **dict.fromkeys(BOUNDS_S[3:], 15)}
