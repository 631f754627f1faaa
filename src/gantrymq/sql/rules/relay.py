"""How rows of the outbox become messages. Pure: who takes a row, and in which transaction it is deleted.

Taking a row is a local transaction with a message, as the user's own one was:

| step                                                                | the process dies behind it                     |
|---------------------------------------------------------------------|------------------------------------------------|
| a process takes rows: nobody else does, for some seconds            | somebody else takes them then                  |
| it sends their half messages, under a new transaction id            | a check-back finds no outcome: rolled back     |
| in one database transaction, it deletes the rows and inserts the    | a check-back finds the outcome, and commits    |
| outcome row. If one row is gone, all of it is rolled back           |                                                |
| it commits the half messages                                        | done                                           |

One transaction id is enough for many rows: all of them leave, or none. When a broker does not take one of their half
messages, none can leave, and each row then gets a transaction id and an outcome row of its own.

So two that took the same row by accident cannot both send it: only one of them deletes it.

Rows of one ordering key leave in the order of their numbers. A COMMIT may be lost, and its message become visible much
later, by a check-back. So the row stays until a broker has answered its COMMIT, and stops the later ones of its key:

| step                                                                | the process dies behind it                     |
|---------------------------------------------------------------------|------------------------------------------------|
| a process takes the oldest row of the key                           | somebody else takes it then                    |
| it sends the half message, to the queue of the key                  | a check-back finds no outcome: rolled back     |
| in one database transaction, it writes into the row which half      | whoever takes the row next repeats the COMMIT; |
| message it is, and inserts the outcome row. If the row is gone, or  | a check-back may commit it before              |
| is another half message already, all of it is rolled back           |                                                |
| it commits the half message, and the broker answers                 | the same: the broker answers that it is done   |
| it deletes the row, and takes the next one of the key               | done                                           |
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rows.failures import Failure
from gantrymq.sql.rows.outbox_statements import OutboxStatements, order_columns
from gantrymq.sql.rows.place import Place, engine_without_transactions, read_place, where
from gantrymq.sql.rules.claim import ATTEMPTS, Failed, Rows
from gantrymq.sql.rules.outcomes import Counted, Outcomes, Statement

PROBE: Final = 1
"""How many rows are sent as long as no broker answers."""


def find(kind: DatabaseKind, table: str) -> Generator[Sequence[Statement], Rows | Failed, Place]:
    """Where the outbox is; see ``place``. Raises ConfigError when it is missing, or has no transactions."""
    looked = yield [(f"SELECT id FROM {table} WHERE id = ''", ())]  # nosec B608 # the name was checked
    if isinstance(looked, Failed):
        raise ConfigError(missing(table) if looked.failure is Failure.NO_TABLE else unreadable(table, looked.reason))
    rows = yield [(where(kind, table), ())]
    row = None if isinstance(rows, Failed) or not rows else tuple(str(value) for value in rows[0])
    found = row if row is not None and len(row) == 3 else None
    engine = engine_without_transactions(kind, found)
    if engine is not None:
        raise ConfigError(
            f"the table {table} has the storage engine {engine}, which cannot roll anything back. Change it: "
            f"ALTER TABLE {table} ENGINE=InnoDB"
        )
    return read_place(kind, table, found)


def find_order(kind: DatabaseKind, table: str) -> Generator[Sequence[Statement], Rows | Failed, bool]:
    """Whether the outbox is there and has what ordering keys need. Raises ConfigError when the database does not say
    it: whoever takes rows and knows nothing of keys would break their order."""
    reason = ""
    for _ in range(ATTEMPTS):  # a pool may have connections that died
        rows = yield [(order_columns(kind, table), ())]
        if not isinstance(rows, Failed):
            return len(rows) > 0
        reason = rows.reason
    raise ConfigError(unreadable(table, reason))


def unordered(table: str) -> str:
    return (
        f"a message with an ordering key goes by a row of the table {table}, and the database has no such table with "
        "the columns order_key, seq and half. Call create_table() once, or migrate: add_ordering(op) of "
        "gantrymq.sql.alembic, `manage.py migrate gantrymq` of Django, or the statements of `gantry sql ddl --dialect "
        "...`, with --add-ordering for a table that is there. Then start the program again"
    )


def missing(table: str) -> str:
    return (
        f"the database has no table {table}, which when_broker_is_away='row' and 'always' need: call create_table() "
        "once, or put the statements of `gantry sql ddl --dialect ...` into your migrations. Or leave "
        "when_broker_is_away out, and a commit is refused while no broker answers"
    )


def unreadable(table: str, reason: str) -> str:
    return f"the table {table} cannot be read: {reason}"


def delivery(
    outcomes: Outcomes, outbox: OutboxStatements, parts: Sequence[tuple[Sequence[str], str]],
    became: Mapping[str, str], taken_ms: int,
) -> list[Counted]:  # fmt: skip
    """The database transaction in which rows leave the outbox. ``parts``: the ids of rows, and the id of the local
    transaction that their half messages name. ``became``: the half messages of those that have an ordering key; these
    rows stay, and nobody takes them for ``taken_ms``."""
    ids = tuple(row for rows, _ in parts for row in rows)
    transactions = [transaction for _, transaction in parts]
    statements: list[Counted] = [
        (outbox.become, (became[row], taken_ms, row), 1) for row in ids if row in became
    ]  # fmt: skip
    gone = tuple(row for row in ids if row not in became)
    if gone:
        statements.append((outbox.delete(len(gone)), gone, len(gone)))
    text, parameters = outcomes.insert(transactions[0])
    statements.append((text, parameters, 1))
    if len(transactions) > 1:
        text, parameters = outcomes.insert_more(transactions[1:])
        statements.append((text, parameters, len(transactions) - 1))
    return statements
