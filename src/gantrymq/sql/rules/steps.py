"""What a local transaction with messages does, step by step. Pure: steps are values, and ``enlistment`` executes them.

| when                                         | steps                                                               |
|----------------------------------------------|---------------------------------------------------------------------|
| before the database commits (``prepare``)    | HalvesStored, InsertOutcome                                         |
| the same, and no broker has stored them in   | HalvesStored, InsertOutcome(by_row), InsertRows. With ``always``    |
| time, and ``when_broker_is_away`` is ``row`` | without the first one                                               |
| the database has committed (``committed``)   | EndHalves(COMMIT); by row: EndHalves(ROLLBACK), then the rows       |
| it rolled back, and no commit was tried      | EndHalves(ROLLBACK)                                                 |
| (``rolled_back``)                            |                                                                     |
| it failed once the outcome row was inserted: | Ask(...) as ``claim`` says, then EndHalves of the answer. UNKNOWN   |
| the commit may have succeeded (``settle``)   | tells the brokers the reason, and they ask a check-back later       |

The order of the first row is the promise: no outcome row may commit before every half message is safe on its broker,
and no half message may be committed before the outcome row is. Where messages go as rows, the outcome row comes first
all the same: it finds out whether this is the transaction of the block, and a row must not commit in another one.

All messages of a transaction go the same way. So the outcome row says which way that was, and a check-back knows of
each half message what becomes of it: those of a transaction by row are rolled back, also one that a broker has stored
while nobody heard its answer.
"""

from __future__ import annotations

import enum
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rules.claim import COMMIT, COMMIT_BY_ROW, Answer, Failed, Query, Rows, claim


@dataclass(frozen=True, slots=True)
class HalvesStored:
    """Wait until all half messages are stored. Failing is raised into the steps.

    Its answer: whether they are stored. False is possible only with Away.ROW: no broker has answered in time."""


@dataclass(frozen=True, slots=True)
class InsertOutcome:
    """Insert the outcome row, in the local transaction itself."""

    transaction_id: str
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class InsertRows:
    """Insert the messages into the outbox, in the local transaction itself."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A query of the claim, on a connection of its own, in autocommit. Its answer: rows, or Failed."""

    query: Query
    transaction_id: str


@dataclass(frozen=True, slots=True)
class EndHalves:
    """End all half messages, in parallel."""

    answer: Answer


Step = HalvesStored | InsertOutcome | InsertRows | Ask | EndHalves
Steps = Generator[Step, Any, Answer]
_ROLLBACK = Answer(LocalTransactionState.ROLLBACK)


class Away(enum.Enum):
    """What a local transaction does with its messages when no broker takes them: ``when_broker_is_away``."""

    REFUSE = "refuse"
    """It is rolled back."""
    ROW = "row"
    """They go into the outbox."""
    ALWAYS = "always"
    """They always go into the outbox. No commit waits for a broker."""


def prepare(transaction_id: str, away: Away = Away.REFUSE) -> Generator[Step, Any, None]:
    """``away``: ALWAYS also where it is known already that no broker answers."""
    by_row = away is Away.ALWAYS
    if not by_row:
        stored = yield HalvesStored()
        by_row = away is Away.ROW and stored is False
    yield InsertOutcome(transaction_id, by_row)
    if by_row:
        yield InsertRows()


def committed(by_row: bool = False) -> Steps:
    answer = COMMIT_BY_ROW if by_row else COMMIT
    yield EndHalves(answer)
    return answer


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
