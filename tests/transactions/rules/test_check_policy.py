"""When a half message is checked, left alone or parked: every combination of facts."""

from itertools import product

import pytest

from gantrymq.transactions.rules.check_policy import (
    FACTS,
    POLICY,
    CheckAction,
    Immunity,
    decide,
    has_decisive_checkers,
    immunity_ms,
)
from gantrymq.transactions.rules.states import ENDING, TERMINAL, State

COMBINATIONS = list(product(*FACTS.values()))
Facts = tuple[State, Immunity, bool, bool, bool, bool, bool, bool]


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_exactly_one_row_matches(facts: Facts) -> None:
    assert POLICY.matching(facts) == [decide(*facts)]


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_promises_hold(facts: Facts) -> None:
    state, immunity, outstanding, exhausted, too_old, asked, online, crowded = facts
    action = decide(*facts)
    if action is CheckAction.CHECK:
        assert state is State.OPEN and online, "a check needs an open half and a live producer"
        assert immunity is not Immunity.LASTS, "a check is never sent before the immunity ends, unless it was waived"
        assert not outstanding, "one check at a time"
        assert not crowded, "X6: no more checks than the producers can keep in mind"
    if action in (CheckAction.PARK_OLD, CheckAction.PARK_UNKNOWN):
        assert state is State.OPEN and not outstanding and immunity is Immunity.OVER, (
            "nobody loses a half that may still be decided"
        )
        assert exhausted or too_old
        assert asked or exhausted or not online, "hole 7: what could be asked is asked before it is given up"
    if immunity is Immunity.LASTS and state is State.OPEN:
        assert action is CheckAction.WAIT_IMMUNITY, "the local transaction may still be running"
    if not online:
        assert action is not CheckAction.CHECK, "hole 10: nobody online consumes no attempt"
    assert (action is CheckAction.FORGET) == (state in TERMINAL)
    assert (action is CheckAction.COME_BACK) == (state in ENDING | {State.STORING, State.UNCONFIRMED})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, 6_000),
        ("", 6_000),
        ("-1", 6_000),
        ("100.5", 6_000),
        ("soon", 6_000),
        ("0", 6_000),
        ("٣", 6_000),
        ("9" * 40, 6_000),
        ("1", 1_000),
        ("7", 7_000),
        ("60", 60_000),
        ("100", 100_000),
    ],
)
def test_g17_immunity_of_a_message(text: str | None, expected: int) -> None:
    """G17, without a lower bound (docs/store.md#checks): garbage means transactionTimeOut."""
    assert immunity_ms(text, 6_000) == expected


@pytest.mark.parametrize("facts", [facts for facts in COMBINATIONS if facts[1] is Immunity.WAIVED])
def test_a_waived_immunity_only_adds_checks(facts: Facts) -> None:
    """Only half messages that would be checked after their immunity are checked early, and none is discarded early."""
    early, later = decide(*facts), decide(facts[0], Immunity.OVER, *facts[2:])
    given_up = {CheckAction.PARK_OLD, CheckAction.PARK_UNKNOWN}
    assert early is later or later in given_up
    assert early not in given_up


@pytest.mark.parametrize(
    ("text", "decisive"),
    [
        ("PGROUP\x01PG\x02", False),
        ("GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED\x01PG\x02", True),
        ("KEYS\x01k\x02GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED\x01PG", True),
        ("GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED\x01Other\x02", False),
        ("GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED\x01true\x02", False),
        ("X_GANTRY_CHECK_IMMUNITY_WHILE_CONNECTED\x01PG\x02", False),
    ],
)
def test_a_half_says_for_its_own_group_that_the_checkers_are_decisive(text: str, decisive: bool) -> None:
    """A message that another group got and sent on with all its properties says nothing about that group's."""
    assert has_decisive_checkers(text, "PG") is decisive
