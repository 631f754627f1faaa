"""What the records of a control topic mean: first one wins, and the verdict about a half message never changes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.spark.sink.ids import Attempt, BatchId
from gantrymq.spark.sink.rules import (
    Abandoned,
    BatchDecision,
    ControlRecord,
    ControlState,
    Ended,
    Verdict,
    Winner,
    decode_record,
    encode_record,
)

Q = "0123456789ABCDEF"
COMMIT, ROLL_BACK, UNDECIDED = Verdict.COMMIT, Verdict.ROLL_BACK, Verdict.UNDECIDED


def decided(batch: int, *tokens: str) -> BatchDecision:
    return BatchDecision(Q, batch, tuple([Winner(token, 1, ()) for token in tokens]))


def abandoned(batch: int, token: str) -> Abandoned:
    return Abandoned(Q, batch, token)


def state_of(*records: ControlRecord) -> ControlState:
    state = ControlState()
    for record in records:
        state.apply(record)
    return state


def verdict(state: ControlState, batch: int, token: str) -> Verdict:
    return state.verdict(Attempt(BatchId(Q, batch), token))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], UNDECIDED),
        ([decided(2, "a")], UNDECIDED),
        ([decided(3, "a")], COMMIT),
        ([decided(3, "b")], ROLL_BACK),
        ([decided(4, "a")], ROLL_BACK),
        ([abandoned(3, "a")], ROLL_BACK),
        ([abandoned(3, "b")], UNDECIDED),
        ([abandoned(2, "a")], UNDECIDED),
        ([decided(3, "a"), decided(3, "b")], COMMIT),
        ([decided(3, "b"), decided(3, "a")], ROLL_BACK),
        ([decided(3, "a"), abandoned(3, "a")], COMMIT),
        ([abandoned(3, "a"), decided(3, "a", "b")], ROLL_BACK),
        ([abandoned(3, "b"), decided(3, "a", "b")], UNDECIDED),
        ([abandoned(3, "b"), decided(3, "a", "b"), decided(3, "a")], COMMIT),
        ([decided(4, "x"), decided(3, "a")], ROLL_BACK),
    ],
)
def test_the_verdict_about_attempt_a_of_batch_3(records: list[ControlRecord], expected: Verdict) -> None:
    assert verdict(state_of(*records), 3, "a") is expected


def test_the_topics_of_a_query_are_those_of_all_its_decisions() -> None:
    """A decision of an older version says nothing about topics."""
    assert state_of().topics(Q) == frozenset()
    to_a, to_b = (BatchDecision(Q, batch, (Winner("t", 1, (), (name,)),)) for batch, name in enumerate("ab"))
    assert state_of(to_a, to_b).topics(Q) == {"a", "b"}
    assert state_of(to_a, BatchDecision(Q, 1, (Winner("t", 0, ()),))).topics(Q) == {"a"}
    assert state_of(to_a, decided(1, "old")).topics(Q) is None


RECORDS = st.one_of(
    st.builds(decided, st.integers(0, 3), st.sampled_from("abc"), st.sampled_from("abc")),
    st.builds(abandoned, st.integers(0, 3), st.sampled_from("abc")),
    st.builds(Ended, st.just(Q), st.integers(0, 3)),
)


@given(st.lists(RECORDS, max_size=12))
def test_a_verdict_changes_only_when_a_later_batch_is_decided(records: list[ControlRecord]) -> None:
    state, before = ControlState(), {}
    for record in records:
        state.apply(record)
        for batch, token in itertools.product(range(4), "abc"):
            now = verdict(state, batch, token)
            old = before.get((batch, token), UNDECIDED)
            # A later decision is made only when the half messages of this batch are ended.
            assert old in (UNDECIDED, now) or (old is COMMIT and state.last_batch(Q) > batch)
            before[batch, token] = now


def test_other_queries_do_not_matter() -> None:
    state = state_of(decided(7, "a"))
    assert state.verdict(Attempt(BatchId("F" * 16, 7), "a")) is UNDECIDED
    assert state.knows(Q)
    assert not state.knows("F" * 16)


def test_a_decided_batch_is_unfinished_until_its_end_is_noted() -> None:
    state = state_of(decided(1, "a"), Ended(Q, 0))
    assert [decision.batch for decision in state.unfinished()] == [1]
    state.apply(Ended(Q, 1))
    assert state.unfinished() == []
    state.apply(decided(2, "a"))
    assert [decision.batch for decision in state.unfinished()] == [2]


@given(RECORDS)
def test_records_are_read_as_they_were_written(record: ControlRecord) -> None:
    assert decode_record(encode_record(record)) == record
