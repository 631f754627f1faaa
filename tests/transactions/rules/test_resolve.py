"""What an END_TRANSACTION does: every combination of facts."""

from itertools import product

import pytest

from gantrymq.message.transaction import Resolution
from gantrymq.protocol.hosts import pack_host
from gantrymq.transactions.rules.resolve import FACTS, RULES, EndAction, decide, is_sender
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Decision

COMBINATIONS = list(product(*FACTS.values()))


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_exactly_one_row_matches(facts: tuple[State | None, bool, bool, Resolution, bool]) -> None:
    assert RULES.matching(facts) == [decide(*facts)]


@pytest.mark.parametrize("facts", COMBINATIONS)
def test_promises_hold(facts: tuple[State | None, bool, bool, Resolution, bool]) -> None:
    state, right_group, member, resolution, topic_exists = facts
    action = decide(*facts)
    if action in (EndAction.COMMIT, EndAction.ROLL_BACK):
        assert state in (State.UNCONFIRMED, State.OPEN), "first decision wins"
        assert right_group and member, "hole 21: only the group that sent it ends it"
    if action is EndAction.COMMIT:
        assert resolution is Resolution.COMMIT and topic_exists
    if action is EndAction.ROLL_BACK:
        assert resolution is Resolution.ROLLBACK
    if resolution is Resolution.UNKNOWN:
        assert action not in (EndAction.COMMIT, EndAction.ROLL_BACK, EndAction.CONFLICT)


@pytest.mark.parametrize("decision", Decision)
def test_a_half_that_was_decided_is_ended_by_nobody_else(decision: Decision) -> None:
    for resolution, topic_exists in product(Resolution, (False, True)):
        action = decide(decision.state, True, True, resolution, topic_exists)
        assert action not in (EndAction.COMMIT, EndAction.ROLL_BACK, EndAction.AFTER_ENDING)
        assert (action is EndAction.NO_SUCH_HALF) == (decision in (Decision.NONE, Decision.QUARANTINED))


HERE, ALSO_HERE, THERE = (pack_host(text) for text in ("192.0.2.1:40001", "192.0.2.1:40002", "192.0.2.2:40001"))


@pytest.mark.parametrize(
    ("peer", "named", "is_answer", "may"),
    [
        (HERE, ("K", None), False, True),
        (HERE, ("", None), False, True),
        (HERE, ("K", "K"), True, False),
        (ALSO_HERE, ("K", None), False, True),
        (ALSO_HERE, ("offset id", "K"), False, True),
        (ALSO_HERE, ("offset id", None), False, False),
        (ALSO_HERE, ("K", "K"), True, False),
        (THERE, ("K", "K"), False, False),
    ],
)
def test_hole21_who_sent_a_half(peer: bytes, named: tuple[str | None, ...], is_answer: bool, may: bool) -> None:
    assert is_sender(peer, HERE, "K", named, is_answer) is may


def test_hole21_a_half_without_an_id_is_ended_by_its_own_connection_only() -> None:
    assert is_sender(HERE, HERE, "", ("", None), False)
    assert not is_sender(ALSO_HERE, HERE, "", ("", None), False)


def test_hole21_addresses_of_both_kinds_are_told_apart() -> None:
    six, also_six = pack_host("[2001:db8::1]:40001"), pack_host("[2001:db8::1]:40002")
    assert is_sender(also_six, six, "K", ("K",), False)
    assert not is_sender(pack_host("[2001:db8::2]:40002"), six, "K", ("K",), False)
    assert not is_sender(HERE, six, "K", ("K",), False)
