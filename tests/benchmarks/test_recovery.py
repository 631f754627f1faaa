"""What ``bench recovery`` makes of the instants it is told."""

from __future__ import annotations

import pytest
from benchmarks.recovery import IMMUNITY_S, Case, spread


def case(kind: str, checked_at: float) -> Case:
    return Case("GantryMQ", kind, {"h": 10.0}, {"h": 11.0}, {"h": checked_at}, {"h": 12.5}, times_delivered=1)


def test_times_are_told_from_the_kill_and_from_the_storing() -> None:
    figures = case("decisive", 12.0).figures()
    assert figures["from_kill_s"] == {"min": 1.5, "p50": 1.5, "p99": 1.5, "max": 1.5}
    assert figures["from_storing_s"]["p99"] == 2.5
    assert (figures["halves"], figures["lost"], figures["doubled"], figures["checks_too_early"]) == (1, 0, 0, 0)


def test_percentiles_are_of_the_times() -> None:
    assert spread(range(101)) == {"min": 0, "p50": 50, "p99": 99, "max": 100}
    assert spread([]) == {}


@pytest.mark.parametrize(
    ("kind", "checked_at", "too_early"),
    [
        ("plain", 12.0, 1),
        ("plain", 10.0 + IMMUNITY_S, 0),
        ("decisive", 10.5, 1),
        ("decisive", 11.5, 0),
    ],
)
def test_checks_of_living_senders_within_the_immunity_are_counted(kind: str, checked_at: float, too_early: int) -> None:
    assert case(kind, checked_at).too_early() == too_early


def test_what_did_not_come_and_what_came_twice_is_counted() -> None:
    observed = case("plain", 16.0)
    observed.killed["lost"] = observed.stored["lost"] = 11.0
    observed.times_delivered = 3
    figures = observed.figures()
    assert (figures["lost"], figures["doubled"]) == (1, 2)
