"""What an END_TRANSACTION does: every combination of facts."""

from itertools import product

import pytest

from gantrymq.message.transaction import Resolution
from gantrymq.transactions.resolve import FACTS, RULES, STANDING_OF, Standing, Verdict, decide
from gantrymq.transactions.states import State

COMBINATIONS = list(product(*FACTS.values()))


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_exactly_one_row_matches(facts: tuple[Standing, bool, bool, Resolution, bool]) -> None:
    assert RULES.matching(facts) == [decide(*facts)]


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_promises_hold(facts: tuple[Standing, bool, bool, Resolution, bool]) -> None:
    standing, right_group, member, resolution, topic_exists = facts
    verdict = decide(*facts)
    if verdict in (Verdict.COMMIT, Verdict.ROLL_BACK):
        assert standing is Standing.OPEN, "first decision wins"
        assert right_group and member, "hole 21: only the group that sent it ends it"
    if verdict is Verdict.COMMIT:
        assert resolution is Resolution.COMMIT and topic_exists
    if verdict is Verdict.ROLL_BACK:
        assert resolution is Resolution.ROLLBACK
    if resolution is Resolution.UNKNOWN:
        assert verdict not in (Verdict.COMMIT, Verdict.ROLL_BACK, Verdict.CONFLICT)


@pytest.mark.parametrize("state", State)
def test_every_state_has_a_standing(state: State) -> None:
    assert (STANDING_OF[state] is Standing.OPEN) == (state is State.OPEN)
