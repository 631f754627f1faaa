"""What waits in an outbox, for tools: of all producer groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.rows.failures import Failure, is_database_error, read_failure
from gantrymq.sql.rows.outbox_statements import OutboxStatements, order_columns
from gantrymq.sql.rows.outbox_table import started_ms
from gantrymq.sql.rules.claim import Rows
from gantrymq.sql.rules.relay import unordered

GROUPS: Final = 1_000
"""How many producer groups are shown, at most."""
KEYS: Final = 20
"""The same of ordering keys."""


class Asked(Protocol):
    """A database that can be asked; see ``transaction.database``."""

    def dialect(self) -> Dialect: ...

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows: ...


def outbox_groups(database: Asked, table: str, now_ms: int) -> list[tuple[str, int, float]]:
    """For each producer group: how many messages wait, and for how many seconds the oldest one does.

    ``now_ms``: by the clock of this process. Raises ConfigError when there is no such table.
    """
    statements = OutboxStatements(database.dialect(), table)
    return [
        (str(group), int(count), _age_s(oldest, now_ms))
        for group, count, oldest in _asked(database, table, statements.groups, GROUPS)
    ]


def outbox_keys(database: Asked, table: str, now_ms: int) -> list[tuple[str, str, int, float, str]]:
    """For the ordering keys that wait longest: the producer group, the key, how many messages wait, for how many
    seconds the oldest one does, and which half message it is already; empty: none.

    Raises ConfigError when there is no such table, or it has no keys.
    """
    dialect = database.dialect()
    if not database.alone([(order_columns(dialect.kind, table), ())]):
        raise ConfigError(unordered(table))
    return [
        (str(group), str(key), int(count), _age_s(oldest, now_ms), str(half))
        for group, key, count, oldest, half in _asked(database, table, OutboxStatements(dialect, table).keys, KEYS)
    ]


def _age_s(row: object, now_ms: int) -> float:
    return max(0.0, (now_ms - started_ms(str(row))) / 1000)


def _asked(database: Asked, table: str, statement: str, most: int) -> Rows:
    try:
        return database.alone([(statement, (most,))])
    except Exception as error:
        if is_database_error(error) and read_failure(error) is Failure.NO_TABLE:
            raise ConfigError(
                f"the database has no table {table}: only services with when_broker_is_away='row' or 'always' need "
                "it. `gantry sql ddl --dialect ...` prints the statement that creates it"
            ) from error
        raise
