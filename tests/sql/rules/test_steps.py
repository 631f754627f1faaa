"""What a local transaction does, in which order."""

from __future__ import annotations

from typing import Any

import pytest

from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.failures import Failure
from gantrymq.sql.rows.tables import DATABASE, Outcome
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.claim import COMMIT, ROLLBACK, Answer, Failed, Query

ID, HERE = "5" * 32, "here"


def played(work: Any, answers: list[Any]) -> tuple[list[steps.Step], Any]:
    """The steps, and what comes back. An exception among the answers is raised into them."""
    seen: list[steps.Step] = []
    try:
        step = next(work)
        while True:
            seen.append(step)
            answer = answers.pop(0) if answers else None
            step = work.throw(answer) if isinstance(answer, Exception) else work.send(answer)
    except StopIteration as end:
        return seen, end.value


def test_all_halves_are_stored_before_the_outcome_row_is_inserted() -> None:
    assert played(steps.prepare(ID), []) == ([steps.HalvesStored(), steps.InsertOutcome(ID)], None)


def test_without_its_halves_nothing_is_inserted() -> None:
    work = steps.prepare(ID)
    assert next(work) == steps.HalvesStored()
    with pytest.raises(RuntimeError, match="not stored"):
        work.throw(RuntimeError("not stored"))
    with pytest.raises(StopIteration):
        next(work)


def test_a_commit_and_a_rollback_end_the_halves() -> None:
    assert played(steps.committed(), []) == ([steps.EndHalves(COMMIT)], COMMIT)
    assert played(steps.rolled_back(), []) == ([steps.EndHalves(ROLLBACK)], ROLLBACK)


@pytest.mark.parametrize(
    ("answers", "outcome", "queries"),
    [
        ([[(DATABASE, 0, HERE), (ID, Outcome.COMMITTED, "g")]], COMMIT, [Query.FIND]),
        ([[(DATABASE, 0, HERE), (ID, Outcome.ROLLED_BACK, "g")]], ROLLBACK, [Query.FIND]),
        ([[(DATABASE, 0, HERE)], [(DATABASE, 0, HERE), (ID, 2, "g")]], ROLLBACK, [Query.FIND, Query.CLAIM]),
        (
            [Failed(Failure.READ_ONLY, "read-only")],
            Answer(LocalTransactionState.UNKNOWN, "read-only", passing=True),
            [Query.FIND],
        ),
    ],
)
def test_a_commit_that_may_have_failed_is_settled_by_the_row(
    answers: list[Any], outcome: Answer, queries: list[Query]
) -> None:
    seen, answer = played(steps.settle(ID, HERE), list(answers))
    assert answer == outcome
    assert seen == [*(steps.Ask(query, ID) for query in queries), steps.EndHalves(outcome)]


def test_a_check_back_asks_and_ends_nothing() -> None:
    seen, answer = played(steps.ask(ID, HERE), [[(DATABASE, 0, HERE), (ID, Outcome.COMMITTED, "g")]])
    assert (seen, answer) == ([steps.Ask(Query.FIND, ID)], COMMIT)
