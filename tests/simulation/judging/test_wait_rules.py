"""The rules of waits, on histories written by hand."""

from __future__ import annotations

import pytest

from gantrymq.simulation.judging.checker import check
from gantrymq.simulation.judging.history import Event
from gantrymq.simulation.judging.wait_rules import NO_LONGER, NO_SHORTER

WAIT = {"at": 1_000, "event": "waits", "wait": "w", "kind": "timer", "ms": 10_000, "slack_ms": 700, "exact": True,
        "kept": True, "host": "b"}  # fmt: skip


def at(ms: int, event: str, **fields: object) -> Event:
    about = {"wait": "w"} if event == "over" else {"host": "b"}
    return {"at": ms, "event": event, **about, **fields}


def found(*events: Event, **changed: object) -> set[str]:
    return {violation.rule for violation in check([{**WAIT, **changed}, *events])}


FORWARD, BACK = at(2_000, "clock", skew_ms=60_000), at(2_000, "clock", skew_ms=-60_000)
STOP, START = at(3_000, "stopped"), at(4_000, "started")


@pytest.mark.parametrize(("events", "rules"), [
    ([at(11_000, "over")], set()),
    ([at(11_700, "over")], set()),
    ([at(11_701, "over")], {NO_LONGER}),
    ([at(10_600, "over")], {NO_SHORTER}),
    ([at(11_701, "fault", what="the end")], {NO_LONGER}),
    ([BACK, at(71_000, "over")], {NO_LONGER}),
    ([FORWARD, at(2_100, "over")], {NO_SHORTER}),
    ([STOP, START, at(11_000, "over")], set()),
    ([STOP, START, at(14_000, "over")], {NO_LONGER}),
    ([at(10_000, "stopped"), at(20_000, "started"), at(20_500, "over")], set()),
    ([BACK, STOP, START, at(14_000, "over")], set()),
    ([BACK, STOP, START, at(14_701, "over")], {NO_LONGER}),
    ([FORWARD, STOP, START, at(4_100, "over")], set()),
    ([STOP, at(3_500, "clock", skew_ms=-1), START, at(14_000, "over")], set()),
    ([STOP, START, at(5_000, "stopped"), at(6_000, "clock", skew_ms=9), at(7_000, "started"), at(17_000, "over")],
     set()),
])  # fmt: skip
def test_a_wait_is_judged_by_its_time(events: list[Event], rules: set[str]) -> None:
    assert found(*events) == rules


def test_what_a_stop_ends_may_be_over_with_it() -> None:
    assert found(STOP, at(3_001, "over"), kept=False) == set()
    assert found(STOP, at(3_001, "over")) == {NO_SHORTER}


def test_a_wait_that_began_behind_a_time_that_the_clock_had_shown_may_begin_anew() -> None:
    events = [at(0, "clock", skew_ms=3_600_000), at(500, "clock", skew_ms=0), WAIT, STOP, START, at(14_000, "over")]
    assert {violation.rule for violation in check(events)} == set()
