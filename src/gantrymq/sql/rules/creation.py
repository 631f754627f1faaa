"""How tables are made while other processes make the same ones. Pure.

``CREATE TABLE IF NOT EXISTS`` looks first and creates then. On PostgreSQL two of them at the same time both look, and
the second one fails at a unique index of the catalogue. It fails when the first one has committed, so the same
statement succeeds a moment later:

| where statements run                     | what is done                                                              |
|------------------------------------------|---------------------------------------------------------------------------|
| each alone, in autocommit (``create``)   | one that failed because of another process is repeated                    |
| in a transaction, which an error would   | ``before_ddl`` comes first: a lock until the end of that transaction, for |
| end (migrations)                         | which the others wait                                                     |

MySQL, MariaDB and SQLite let the second one wait. Source: PostgreSQL "CREATE TABLE", "Advisory Lock Functions".
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rules.claim import Rows
from gantrymq.sql.rules.outcomes import Statement

ATTEMPTS: Final = 5
_AGAIN: Final = frozenset({Failure.DUPLICATE, Failure.EXISTS, Failure.CONFLICT, Failure.LOCKED, Failure.DISCONNECTED})
Creating = Generator[Sequence[Statement], Rows, None]


def add(statements: Sequence[str]) -> Creating:
    """The same for statements that say nothing of what is there already: who finds it there goes on."""
    for statement in statements:
        try:
            yield from create([statement])
        except Exception as error:
            if read_failure(error) is not Failure.EXISTS:
                raise


def create(statements: Sequence[str]) -> Creating:
    """Each statement as a call in autocommit. Errors are raised into it, and raised again when they do not pass."""
    for statement in statements:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                yield [(statement, ())]
            except Exception as error:
                if attempt == ATTEMPTS or read_failure(error) not in _AGAIN:
                    raise
            else:
                break
