"""Inserts rows into a table of PostgreSQL inside a transaction, and finds those that the server refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gantrymq.spark.pipelines.targets.exact_values import tuples

if TYPE_CHECKING:
    import pyarrow as pa

_OF_ROWS: Final = ("22", "23", "P0")
"""Classes of SQLSTATE: data that does not fit, a constraint that does not hold, a trigger that says no."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """The statements for the rows of one batch."""

    connection: Any
    rows: pa.Table
    temporary_table: Any
    copy: Any
    statements: Sequence[Any]
    """They bring the rows from the temporary table ``gantry_new`` to the table of the target."""

    @classmethod
    def of(cls, connection: Any, table: Any, rows: pa.Table, keys: Sequence[str]) -> Insertion:
        """``table``: its name as an SQL identifier."""
        from psycopg import sql

        columns = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
        key = sql.SQL(", ").join(map(sql.Identifier, keys))
        others = [name for name in rows.column_names if name not in keys]
        changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
        action = sql.SQL("DO UPDATE SET {}").format(changes) if others else sql.SQL("DO NOTHING")
        temporary_table = sql.SQL(
            "CREATE TEMPORARY TABLE gantry_new ON COMMIT DROP AS"
            " SELECT {}, 0::bigint AS gantry_order FROM {} WITH NO DATA"
        ).format(columns, table)
        copy = sql.SQL("COPY gantry_new ({}, gantry_order) FROM STDIN").format(columns)
        # The last row of a key counts, as if the rows came one after the other.
        upsert = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({key}) {columns} FROM gantry_new"
            " ORDER BY {key}, gantry_order DESC ON CONFLICT ({key}) {action}"
        ).format(table=table, columns=columns, key=key, action=action)
        return cls(connection, rows, temporary_table, copy, (upsert,))

    def all_but_refused(self) -> dict[int, str]:
        """Insert the rows, but those that the server refuses, which are returned with its reasons. Inside a
        transaction."""
        self.connection.execute(self.temporary_table)
        refused = self._part(0, len(self.rows))
        self.connection.execute("DROP TABLE gantry_new")
        return refused

    def _part(self, begin: int, end: int) -> dict[int, str]:
        """Halves that fail are halved again, in order, so each row meets the rows before it."""
        import psycopg

        self.connection.execute("SAVEPOINT gantry_part")
        try:
            self._insert(begin, end)
        except psycopg.DatabaseError as error:
            self.connection.execute("ROLLBACK TO SAVEPOINT gantry_part")
            if not is_of_rows(error):
                raise
            if end - begin == 1:
                return {begin: said_by(error)}
        else:
            self.connection.execute("RELEASE SAVEPOINT gantry_part")
            return {}
        middle = (begin + end) // 2
        return self._part(begin, middle) | self._part(middle, end)

    def _insert(self, begin: int, end: int) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute("TRUNCATE gantry_new")
            with cursor.copy(self.copy) as copy:
                for at, row in enumerate(tuples(self.rows.slice(begin, end - begin))):
                    copy.write_row((*row, at))
            for statement in self.statements:
                cursor.execute(statement)


def is_of_rows(error: Any) -> bool:
    """Whether other rows could be inserted."""
    import psycopg

    # The driver says by itself that a text must not have NUL.
    return (error.sqlstate or "").startswith(_OF_ROWS) or (
        error.sqlstate is None and isinstance(error, psycopg.DataError)
    )


def said_by(error: Any) -> str:
    """Why the server refuses a row."""
    parts = [error.diag.message_primary or str(error), error.diag.message_detail]
    return "PostgreSQL refuses the row: " + "; ".join(one for one in parts if one)
