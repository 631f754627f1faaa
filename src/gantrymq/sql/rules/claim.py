"""The claim: how a check-back learns the outcome of a local transaction, and makes sure that it cannot change. Pure.

A check-back first looks for the row of the transaction. If there is none, the local transaction may still be running
somewhere. So the check-back inserts a row that says "rolled back" under the same id: the primary key lets only one of
the two commit. Everything that is not certain is UNKNOWN, with a reason, and the broker asks again.

| step   | it finds                                     | then                                              |
|--------|----------------------------------------------|---------------------------------------------------|
| FIND   | another database's identity, or none         | UNKNOWN                                           |
| FIND   | committed                                    | COMMIT                                            |
| FIND   | committed, messages by row                   | COMMIT, but ROLLBACK for every half message of it |
| FIND   | rolled back                                  | ROLLBACK                                          |
| FIND   | no row, and rows of that age may be deleted  | UNKNOWN                                           |
| FIND   | no row                                       | CLAIM                                             |
| CLAIM  | the mark, beside the expected identity       | ROLLBACK: the local transaction cannot commit now |
| CLAIM  | inserted, and not read back there            | UNKNOWN: it went to another database              |
| CLAIM  | DUPLICATE                                    | FIND: the other side was faster                   |
| either | CONFLICT, DISCONNECTED                       | FIND, on a new connection; UNKNOWN the third time |
| either | LOCKED, READ_ONLY, NO_TABLE, OTHER           | UNKNOWN                                           |

A claim whose connection was lost may have been inserted; FIND then finds it. What CLAIM answers is what a FIND on the
same connection finds behind the insert: a function that connects may lead to another database each time.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.failures import Failure
from gantrymq.sql.rows.tables import CLEANED, DATABASE, Outcome

Rows = Sequence[Sequence[Any]]
ATTEMPTS: Final = 3
_AGAIN: Final = frozenset({Failure.CONFLICT, Failure.DISCONNECTED})


class Query(enum.Enum):
    """A statement on a connection of its own, in autocommit."""

    FIND = "find"
    CLAIM = "claim"
    """Its answer: what FIND finds behind it, on the same connection."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer to a query that failed."""

    failure: Failure
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a local transaction; UNKNOWN has a reason."""

    state: LocalTransactionState
    reason: str | None = None
    passing: bool = False
    """With UNKNOWN: the database failed, so asking again soon may help."""
    by_row: bool = False
    """With COMMIT: its messages are rows of the outbox."""

    @property
    def of_halves(self) -> LocalTransactionState:
        """How its half messages end. Of a transaction whose messages are rows, none may be delivered."""
        return LocalTransactionState.ROLLBACK if self.by_row else self.state


COMMIT: Final = Answer(LocalTransactionState.COMMIT)
ROLLBACK: Final = Answer(LocalTransactionState.ROLLBACK)
COMMIT_BY_ROW: Final = Answer(LocalTransactionState.COMMIT, by_row=True)
_OUTCOMES: Final = {
    Outcome.COMMITTED: COMMIT, Outcome.ROLLED_BACK: ROLLBACK, Outcome.BY_ROW: COMMIT_BY_ROW,
}  # fmt: skip


def unknown(reason: str) -> Answer:
    return Answer(LocalTransactionState.UNKNOWN, reason)


def claim(transaction_id: str, database: str) -> Generator[Query, Rows | Failed, Answer]:
    """Ask for queries, get their answers (rows, or Failed), and return the outcome.

    ``database``: the identity of the database that the local transaction ran in.
    """
    reason = ""
    for _ in range(ATTEMPTS):
        found = yield Query.FIND
        if not isinstance(found, Failed):
            answer = read_rows(found, transaction_id, database)
            if answer is not None:
                return answer
            found = yield Query.CLAIM
            if not isinstance(found, Failed):
                return read_rows(found, transaction_id, database) or unknown(
                    "the mark of this check-back cannot be read back: the connection leads to different databases"
                )
            if found.failure is Failure.DUPLICATE:
                reason = "the outcome row of this transaction is there for an insert, and not for a select"
                continue
        reason = found.reason
        if found.failure not in _AGAIN:
            break
    return Answer(LocalTransactionState.UNKNOWN, reason, passing=True)


def read_rows(rows: Rows, transaction_id: str, database: str) -> Answer | None:
    """What the rows of FIND say; None: there is no row of this transaction, and it can be claimed."""
    found = {row[0]: row for row in rows}
    identity = found.get(DATABASE)
    if identity is None:
        return unknown("the outcome table has no row #database: it is not the one that the producers use")
    if identity[2] != database:
        return unknown(
            f"the transaction ran in another database ({database}) than this check-back asks ({identity[2]}); "
            "give each database a producer group of its own"
        )
    row = found.get(transaction_id)
    if row is not None:
        return _OUTCOMES[Outcome(row[1])]
    cleaned = found.get(CLEANED)
    if cleaned is not None and transaction_id < cleaned[2]:
        return unknown("its outcome row may have been deleted, because the transaction is older than the rows we keep")
    return None
