"""Each row of the tables in ``election/rules.py``."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.broker.replication.election.record import NOBODY, Member, Record, elected, first, yielding
from gantrymq.broker.replication.election.rules import Act, Seen, next_act
from gantrymq.errors import InvariantViolated

ME, OTHER, THIRD = (Member(number, number, f"10.0.0.{number}:10911", f"10.0.0.{number}:10912") for number in (1, 2, 3))
MINE = Record(4, ME, frozenset({1, 2}))
OTHERS = Record(4, OTHER, frozenset({1, 2}))
OTHERS_3 = Record(4, OTHER, frozenset({1, 2, 3}))
LEASE = 3.0


def act(record: Record | None, *, readable: bool = True, **more: Any) -> Act:
    return next_act(Seen(ME.disk, record, readable, lease_s=LEASE, **more))


PRIMARY = {"epoch": 4, "right_set": frozenset({1, 2})}


@pytest.mark.parametrize(
    ("record", "more", "wanted"),
    [
        (OTHERS, {}, Act.STEP_DOWN),
        (Record(5, ME, frozenset({1, 2})), {}, Act.STEP_DOWN),
        (None, {}, Act.STEP_DOWN),
        (yielding(MINE, 2), {}, Act.STEP_DOWN),
        (MINE, {"unbeaten_s": 3.1, "unsure_s": 3.1, "all_follow": False}, Act.STEP_DOWN),
        (MINE, {"unbeaten_s": 3.1, "unsure_s": 3.1, "all_follow": False, "readable": False}, Act.STEP_DOWN),
        (MINE, {"unbeaten_s": 30.0, "unsure_s": 30.0, "all_follow": True, "readable": False}, Act.BEAT),
        (MINE, {"unbeaten_s": 30.0, "unsure_s": 0.3, "all_follow": False, "hears_set": False}, Act.WAIT),
        (MINE, {"unbeaten_s": 30.0, "unsure_s": 30.0, "all_follow": False, "hears_set": False}, Act.STEP_DOWN),
        (MINE, {"unbeaten_s": 30.0, "unsure_s": 0.3, "all_follow": False}, Act.BEAT),
        (MINE, {"hears_set": False, "right_set": frozenset({1, 2, 3})}, Act.CHANGE_SET),
        (MINE, {"hears_set": False, "right_set": frozenset({1})}, Act.WAIT),
        (MINE, {"right_set": frozenset({1, 2, 3})}, Act.CHANGE_SET),
        (MINE, {"right_set": frozenset({1})}, Act.CHANGE_SET),
        (MINE, {"unbeaten_s": 1.0}, Act.BEAT),
        (MINE, {"unbeaten_s": 0.9}, Act.WAIT),
    ],
)
def test_a_primary(record: Record | None, more: dict[str, Any], wanted: Act) -> None:
    assert act(record, **{**PRIMARY, **more}) is wanted


@pytest.mark.parametrize(
    ("record", "more", "wanted"),
    [
        (OTHERS, {"readable": False, "still_s": 99.0}, Act.WAIT),
        (None, {"may_begin": True}, Act.CREATE),
        (None, {}, Act.WAIT),
        (MINE, {}, Act.STAND),
        (OTHERS, {"hears": True, "still_s": 99.0}, Act.WAIT),
        (Record(4, NOBODY, frozenset({1, 2})), {}, Act.STAND),
        (Record(4, NOBODY, frozenset({2})), {}, Act.WAIT),
        (OTHERS, {"still_s": 99.0, "shut": True, "elected_by_controller": True}, Act.WAIT),
        (MINE, {"elected_by_controller": True}, Act.STAND),
        (OTHERS, {"still_s": 3.1}, Act.STAND),
        (OTHERS, {"still_s": 2.9}, Act.WAIT),
        (OTHERS, {"shut": True}, Act.STAND),
        (yielding(OTHERS, 1), {"hears": True}, Act.STAND),
        (yielding(OTHERS, 1), {"readable": False}, Act.WAIT),
        (yielding(OTHERS_3, 3), {"shut": True}, Act.WAIT),
        (yielding(OTHERS_3, 3), {"still_s": 3.1}, Act.STAND),
        (yielding(OTHERS_3, 3), {"still_s": 3.1, "hears": True}, Act.WAIT),
        (yielding(MINE, 2), {}, Act.WAIT),
        (yielding(MINE, 2), {"still_s": 3.1}, Act.STAND),
        (Record(4, OTHER, frozenset({2, 3})), {"shut": True, "still_s": 99.0}, Act.WAIT),
    ],
)
def test_any_other(record: Record | None, more: dict[str, Any], wanted: Act) -> None:
    assert act(record, **more) is wanted


def test_whoever_is_elected_keeps_the_one_before_only_where_too_few_would_stay() -> None:
    three = Record(4, OTHER, frozenset({1, 2, 3}))
    assert elected(three, ME, least=2).in_sync == {1, 3}
    assert elected(OTHERS, ME, least=2).in_sync == {1, 2}, "nothing is acknowledged without it"
    assert elected(OTHERS, ME, least=1).in_sync == {1}
    assert elected(MINE, ME, least=2) == Record(5, ME, frozenset({1, 2}), 1), "a primary that was started again"
    assert elected(yielding(three, 1), ME, least=2) == Record(5, ME, frozenset({1, 3}), 2), "the record yields no more"
    assert first(ME).in_sync == {1}


def test_nobody_is_named_who_may_lack_something() -> None:
    with pytest.raises(InvariantViolated, match="in-sync set"):
        yielding(MINE, 3)
