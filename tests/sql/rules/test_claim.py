"""The claim: every row of its table, and every way through it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.failures import Failure
from gantrymq.sql.rows.tables import CLEANED, DATABASE, Outcome
from gantrymq.sql.rules.claim import ATTEMPTS, COMMIT, ROLLBACK, Answer, Failed, Query, Rows, claim

ID, HERE, ELSEWHERE = "5" * 32, "here", "elsewhere"
IDENTITY = (DATABASE, 0, HERE)
OLDER, YOUNGER = (CLEANED, 0, "4" * 12), (CLEANED, 0, "6" * 12)
COMMITTED, ROLLED_BACK = (ID, Outcome.COMMITTED.value, "g"), (ID, Outcome.ROLLED_BACK.value, "g")
UNKNOWN = LocalTransactionState.UNKNOWN

FINDS: dict[str, Rows] = {
    "no identity": [],
    "no identity, and a row": [COMMITTED],
    "another database": [(DATABASE, 0, ELSEWHERE)],
    "another database with a row": [(DATABASE, 0, ELSEWHERE), COMMITTED],
    "committed": [IDENTITY, COMMITTED],
    "committed, and old": [IDENTITY, YOUNGER, COMMITTED],
    "rolled back": [IDENTITY, ROLLED_BACK],
    "rolled back, and old": [IDENTITY, YOUNGER, ROLLED_BACK],
    "no row": [IDENTITY],
    "no row, but older ones were cleaned": [IDENTITY, OLDER],
    "no row, and perhaps cleaned": [IDENTITY, YOUNGER],
}
DECIDED = ("committed", "committed, and old", "rolled back", "rolled back, and old")
NO_ROW = ("no row", "no row, but older ones were cleaned")
FAILURES: dict[str, Failed] = {failure.value: Failed(failure, f"it is {failure.value}") for failure in Failure}
AGAIN = (Failure.CONFLICT.value, Failure.DISCONNECTED.value)
INSERTED = "inserted"
READ_BACK: dict[str, Rows] = {
    INSERTED: [IDENTITY, ROLLED_BACK],
    "inserted in another database": [(DATABASE, 0, ELSEWHERE), ROLLED_BACK],
    "inserted where there is no identity": [ROLLED_BACK],
    "inserted, and not read back": [IDENTITY],
}
"""What a claim finds behind its insert."""
Path = tuple[tuple[Query, str], ...]


def answer_to(query: Query, name: str) -> Rows | Failed:
    if name in FAILURES:
        return FAILURES[name]
    return FINDS[name] if query is Query.FIND else READ_BACK[name]


def walk(names: tuple[str, ...] = ()) -> Iterator[tuple[Path, Answer]]:
    """Every way through the claim, with its end."""
    running = claim(ID, HERE)
    path: list[tuple[Query, str]] = []
    try:
        query = next(running)
        for name in names:
            path.append((query, name))
            query = running.send(answer_to(query, name))
    except StopIteration as end:
        yield tuple(path), end.value
        return
    for name in (*(FINDS if query is Query.FIND else READ_BACK), *FAILURES):
        yield from walk((*names, name))


WAYS = list(walk())


def expected(path: Path) -> Any:
    """What the table says about the last step; None: UNKNOWN."""
    query, last = path[-1]
    if query is Query.CLAIM:
        return ROLLBACK if last == INSERTED else None
    return {found: COMMIT if found[0] == "c" else ROLLBACK for found in DECIDED}.get(last)


def follows(step: tuple[Query, str], following: Query) -> bool:
    """Whether the table lets this query come after a step."""
    query, name = step
    if following is Query.CLAIM:
        return query is Query.FIND and name in NO_ROW
    return name in AGAIN or (query is Query.CLAIM and name == Failure.DUPLICATE.value)


def test_all_ways_are_walked() -> None:
    assert len(WAYS) > 1_000
    assert {path[0][0] for path, _ in WAYS} == {Query.FIND}


def test_every_way_ends_as_the_table_says() -> None:
    for path, answer in WAYS:
        wanted = expected(path)
        if wanted is None:
            assert answer.state is UNKNOWN and answer.reason, path
        else:
            assert answer == wanted, path


def test_every_step_is_followed_as_the_table_says() -> None:
    for path, _ in WAYS:
        for step, (following, _) in itertools.pairwise(path):
            assert follows(step, following), path
        query, name = path[-1]
        if query is Query.FIND and name in NO_ROW:
            pytest.fail(f"a transaction that is not there was not claimed: {path}")


def test_it_looks_three_times_at_most() -> None:
    assert max(sum(query is Query.FIND for query, _ in path) for path, _ in WAYS) == ATTEMPTS
    for path, answer in WAYS:
        if answer.state is UNKNOWN and follows(path[-1], Query.FIND):
            assert sum(query is Query.FIND for query, _ in path) == ATTEMPTS, "it gave up too early"


@pytest.mark.parametrize("failure", [failure for failure in Failure if failure.value not in AGAIN])
def test_an_error_of_the_database_is_unknown_with_its_words(failure: Failure) -> None:
    ends = {answer for path, answer in WAYS if path == ((Query.FIND, failure.value),)}
    assert ends == {Answer(UNKNOWN, f"it is {failure.value}", passing=True)}


def test_a_transaction_of_another_database_is_unknown_even_when_its_row_is_here() -> None:
    (answer,) = {answer for path, answer in WAYS if path == ((Query.FIND, "another database with a row"),)}
    assert answer.state is UNKNOWN
    assert answer.reason is not None and HERE in answer.reason and ELSEWHERE in answer.reason


def test_a_lost_claim_is_found_on_the_next_connection() -> None:
    path = ((Query.FIND, "no row"), (Query.CLAIM, "disconnected"), (Query.FIND, "rolled back"))
    assert (path, ROLLBACK) in WAYS
