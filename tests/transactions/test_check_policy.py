"""When a half message is checked, left alone or parked: every combination of facts."""

from itertools import product

import pytest

from gantrymq.transactions.check_policy import FACTS, POLICY, Verdict, decide, immunity_ms
from gantrymq.transactions.states import ENDING, TERMINAL, State

COMBINATIONS = list(product(*FACTS.values()))


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_exactly_one_row_matches(facts: tuple[State, bool, bool, bool, bool, bool, bool, bool]) -> None:
    assert POLICY.matching(facts) == [decide(*facts)]


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_promises_hold(facts: tuple[State, bool, bool, bool, bool, bool, bool, bool]) -> None:
    state, immune, outstanding, exhausted, too_old, asked, online, crowded = facts
    verdict = decide(*facts)
    if verdict is Verdict.CHECK:
        assert state is State.OPEN and online, "a check needs an open half and a live producer"
        assert not immune, "a check is never sent before the immunity ends"
        assert not outstanding, "one check at a time"
        assert not crowded, "X6: no more checks than the producers can keep in mind"
    if verdict in (Verdict.PARK_OLD, Verdict.PARK_UNKNOWN):
        assert state is State.OPEN and not outstanding and not immune, "nobody loses a half that may still be decided"
        assert exhausted or too_old
        assert asked or exhausted or not online, "hole 7: what could be asked is asked before it is given up"
    if not online:
        assert verdict is not Verdict.CHECK, "hole 10: nobody online consumes no attempt"
    assert (verdict is Verdict.FORGET) == (state in TERMINAL)
    assert (verdict is Verdict.COME_BACK) == (state in ENDING | {State.STORING})


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
    """Acceptance row 17 for the scan, which has no lower bound (A6.1 g): garbage means transactionTimeOut."""
    assert immunity_ms(text, 6_000) == expected
