"""The life cycle of a half message: every pair of state and event."""

from itertools import product

import pytest

from gantrymq.errors import InvariantViolated
from gantrymq.transactions.rules.states import ENDING, TERMINAL, TRANSITIONS, Event, State, after


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_a_pair_is_in_the_table_or_illegal(state: State, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert after(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(InvariantViolated, match=f"{state.name} cannot take {event.name}"):
            after(state, event)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_follows_a_terminal_state(state: State) -> None:
    assert not [event for event in Event if (state, event) in TRANSITIONS]


@pytest.mark.parametrize("state", sorted(ENDING))
def test_a_decision_under_way_ends_by_the_disk_alone(state: State) -> None:
    assert {event for event in Event if (state, event) in TRANSITIONS} == {Event.DURABLE, Event.FAILED}
    assert TRANSITIONS[state, Event.FAILED] is State.OPEN
    assert TRANSITIONS[state, Event.DURABLE] in TERMINAL


def test_every_state_can_be_reached() -> None:
    reached = set(TRANSITIONS.values()) | {State.STORING}
    assert reached == set(State) - {State.SETTLED}, "only an Apache broker settles a half without saying how"


def test_the_texts_of_states_are_what_tools_print() -> None:
    assert [State.OPEN.text, State.ROLLED_BACK.text] == ["open", "rolled back"]
