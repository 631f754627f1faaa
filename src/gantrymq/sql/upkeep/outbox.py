"""What waits in an outbox, for tools: of all producer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.rows.failures import Failure, is_database_error, read_failure
from gantrymq.sql.rows.outbox_statements import OutboxStatements
from gantrymq.sql.rows.outbox_table import started_ms
from gantrymq.sql.rules.claim import Rows

GROUPS: Final = 1_000
"""How many producer groups are shown, at most."""


class Asked(Protocol):
    """A database that can be asked; see ``transaction.database``."""

    def dialect(self) -> Dialect: ...

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows: ...


def outbox_groups(database: Asked, table: str, now_ms: int) -> list[tuple[str, int, float]]:
    """For each producer group: how many messages wait, and for how many seconds the oldest one does.

    ``now_ms``: by the clock of this process. Raises ConfigError when there is no such table.
    """
    statements = OutboxStatements(database.dialect(), table)
    try:
        rows = database.alone([(statements.groups, (GROUPS,))])
    except Exception as error:
        if is_database_error(error) and read_failure(error) is Failure.NO_TABLE:
            raise ConfigError(
                f"the database has no table {table}: only services with when_broker_is_away='row' or 'always' need "
                "it. `gantry sql ddl --dialect ...` prints the statement that creates it"
            ) from error
        raise
    return [
        (str(group), int(count), max(0.0, (now_ms - started_ms(str(oldest))) / 1000)) for group, count, oldest in rows
    ]
