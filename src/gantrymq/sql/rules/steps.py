"""What a local transaction with messages does, step by step. Pure: steps are values, and ``enlistment`` executes them.

| when                                         | steps                                                               |
|----------------------------------------------|---------------------------------------------------------------------|
| before the database commits (``prepare``)    | HalvesStored, InsertOutcome                                         |
| the database has committed (``committed``)   | EndHalves(COMMIT)                                                   |
| it rolled back, and no commit was tried      | EndHalves(ROLLBACK)                                                 |
| (``rolled_back``)                            |                                                                     |
| it failed once the outcome row was inserted: | Ask(...) as ``claim`` says, then EndHalves of the answer. UNKNOWN   |
| the commit may have succeeded (``settle``)   | tells the brokers the reason, and they ask a check-back later       |

The order of the first row is the promise: no outcome row may commit before every half message is safe on its broker,
and no half message may be committed before the outcome row is.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rules.claim import Answer, Failed, Query, Rows, claim


@dataclass(frozen=True, slots=True)
class HalvesStored:
    """Wait until all half messages are stored. Failing is raised into the steps."""


@dataclass(frozen=True, slots=True)
class InsertOutcome:
    """Insert the outcome row, in the local transaction itself."""

    transaction_id: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A query of the claim, on a connection of its own, in autocommit. Its answer: rows, or Failed."""

    query: Query
    transaction_id: str


@dataclass(frozen=True, slots=True)
class EndHalves:
    """End all half messages, in parallel."""

    answer: Answer


Step = HalvesStored | InsertOutcome | Ask | EndHalves
Steps = Generator[Step, Any, Answer]
_COMMIT = Answer(LocalTransactionState.COMMIT)
_ROLLBACK = Answer(LocalTransactionState.ROLLBACK)


def prepare(transaction_id: str) -> Generator[Step, Any, None]:
    yield HalvesStored()
    yield InsertOutcome(transaction_id)


def committed() -> Steps:
    yield EndHalves(_COMMIT)
    return _COMMIT


def rolled_back() -> Steps:
    yield EndHalves(_ROLLBACK)
    return _ROLLBACK


def settle(transaction_id: str, database: str) -> Steps:
    answer = yield from ask(transaction_id, database)
    yield EndHalves(answer)
    return answer


def ask(transaction_id: str, database: str) -> Generator[Ask, Rows | Failed, Answer]:
    """The claim as steps; for a check-back, too."""
    queries = claim(transaction_id, database)
    try:
        query = next(queries)
        while True:
            found: Rows | Failed = yield Ask(query, transaction_id)
            query = queries.send(found)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
