"""The operations of the migrations: our tables, with the column types that each database needs. They have no models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import router, transaction
from django.db.migrations.operations.base import Operation

from gantrymq.django.django_database import dialect_of_connection, execute
from gantrymq.runtime.rng import SystemRng
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.outbox_table import OUTBOX, drop_order_ddl, order_ddl, outbox_ddl
from gantrymq.sql.rows.tables import INBOX, OUTCOMES, before_ddl, ddl
from gantrymq.sql.rules.claim import Failed
from gantrymq.sql.rules.outcomes import IDENTITY_BYTES, Outcomes, Statement, failed
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.transaction.database import Rows


class CreateGantryTables(Operation):
    """Creates ``gantrymq_outcomes`` and ``gantrymq_inbox``, in every database that the routers let this app into.

    Both tables are without models on purpose: nothing dumps, edits or empties them by accident. A copy of the row
    ``#database`` in another database would make check-backs believe that both are one.
    """

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if not router.allow_migrate(connection.alias, app_label):
            return
        dialect = dialect_of_connection(connection)
        for statement in (*before_ddl(dialect.kind), *ddl(dialect.kind)):
            schema_editor.execute(statement, params=None)
        if not schema_editor.collect_sql:  # what sqlmigrate prints may be executed in several databases
            _identify(connection, dialect)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            for table in (INBOX, OUTCOMES):
                schema_editor.execute(f"DROP TABLE {table}", params=None)

    def describe(self) -> str:
        return f"Create the tables {OUTCOMES} and {INBOX}"


class CreateGantryOutbox(Operation):
    """Creates ``gantrymq_outbox``, in the same databases, and as CreateGantryTables does it."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if router.allow_migrate(connection.alias, app_label):
            kind = dialect_of_connection(connection).kind
            for statement in (*before_ddl(kind), *outbox_ddl(kind, ordered=False)):
                schema_editor.execute(statement, params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            schema_editor.execute(f"DROP TABLE {OUTBOX}", params=None)

    def describe(self) -> str:
        return f"Create the table {OUTBOX}"


class AddGantryOrdering(Operation):
    """Adds to ``gantrymq_outbox`` what messages with an ordering key need."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _execute(app_label, schema_editor, order_ddl)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        _execute(app_label, schema_editor, drop_order_ddl)

    def describe(self) -> str:
        return f"Add the columns for ordering keys to {OUTBOX}"


def _execute(app_label: str, schema_editor: Any, statements: Callable[[DatabaseKind], Sequence[str]]) -> None:
    connection = schema_editor.connection
    if router.allow_migrate(connection.alias, app_label):
        kind = dialect_of_connection(connection).kind
        for statement in (*before_ddl(kind), *statements(kind)):
            schema_editor.execute(statement, params=None)


def _identify(connection: Any, dialect: Dialect) -> None:
    """Write the rows that are no transactions: the first ``start`` then only reads, beside a transaction that runs."""
    asking = Outcomes(dialect, "").identify(SystemRng().token(IDENTITY_BYTES).hex())
    performed(asking, partial(_asked, connection))


def _asked(connection: Any, statements: Sequence[Statement]) -> Rows | Failed:
    """In a savepoint, or a transaction of its own: another process may write the same rows at the same time."""
    rows: Rows = ()
    try:
        with transaction.atomic(using=connection.alias):
            for statement, parameters in statements:
                rows = execute(connection, statement, parameters)
    except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
        return failed(error)
    return rows
