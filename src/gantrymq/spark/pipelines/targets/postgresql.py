"""The target ``postgresql``: rows are copied to the server, and inserted or updated by their key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import PostgresqlTarget
from gantrymq.spark.pipelines.others import NOBODY
from gantrymq.spark.pipelines.targets.postgresql_connection import PostgresqlConnection
from gantrymq.sql.rules.creation import created

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES = "gantry_batches"
NOTED = 0
"""The batch of ``NOBODY`` in the line that notes a table."""
_CREATE = f"""CREATE TABLE IF NOT EXISTS {BATCHES} (
    query text, target text, batch bigint NOT NULL, PRIMARY KEY (query, target))"""
_REMEMBER = (
    f"INSERT INTO {BATCHES} VALUES (%s, %s, %s) "  # nosec B608 # the name is a constant
    "ON CONFLICT (query, target) DO UPDATE SET batch = excluded.batch"
)


class PostgresqlWriter:
    """Writes a batch in one database transaction, together with its number in the table ``gantry_batches``."""

    def __init__(self, target: PostgresqlTarget, name: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ConfigError(
                f"the target postgresql needs the package psycopg; run: pip install 'gantrymq[postgresql]' ({error})"
            ) from error
        self._target = target
        self._target_id = f"{name}: {target.table}"
        """A target that writes to another table is another one, also in a job that has a copy of the checkpoint."""
        self._connected = PostgresqlConnection.to(target.dsn, name)
        try:
            created([_CREATE], self._alone)
            self._table_columns()
        except psycopg.Error as error:
            raise ConfigError(
                f"targets.{name}: PostgreSQL refuses: {str(error).strip()}; check dsn and table"
            ) from error

    def _alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        with self._connected() as connection:
            for statement, _ in statements:
                connection.execute(statement)

    def exists(self) -> bool:
        """Whether a run has noted the table. In a database that was made anew, none has."""
        return self.has(NOBODY, NOTED)

    def make(self) -> None:
        """Note the table."""
        with self._connected() as connection:
            connection.execute(_REMEMBER, (NOBODY, self._target_id, NOTED))

    def has(self, query: str, batch: int) -> bool:
        asked = f"SELECT batch FROM {BATCHES} WHERE query = %s AND target = %s"  # nosec B608 # the same
        with self._connected() as connection:
            found = connection.execute(asked, (query, self._target_id)).fetchone()
        return found is not None and found[0] >= batch

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if not len(rows) or self.has(query, batch):
            return 0
        from psycopg import sql

        table = sql.Identifier(*self._target.table.split("."))
        columns = sql.SQL(", ").join(map(sql.Identifier, rows.column_names))
        key = sql.SQL(", ").join(map(sql.Identifier, self._target.key))
        others = [name for name in rows.column_names if name not in self._target.key]
        changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
        action = sql.SQL("DO UPDATE SET {}").format(changes) if others else sql.SQL("DO NOTHING")
        with self._connected() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("CREATE TEMPORARY TABLE gantry_new ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                    columns, table
                )
            )
            with cursor.copy(sql.SQL("COPY gantry_new ({}) FROM STDIN").format(columns)) as copy:
                for row in _tuples(rows):
                    copy.write_row(row)
            # The last row of a key counts, as if the rows came one after the other.
            cursor.execute("ALTER TABLE gantry_new ADD COLUMN gantry_order bigserial")
            cursor.execute(
                sql.SQL(
                    "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({key}) {columns} FROM gantry_new"
                    " ORDER BY {key}, gantry_order DESC ON CONFLICT ({key}) {action}"
                ).format(table=table, columns=columns, key=key, action=action)
            )
            cursor.execute(_REMEMBER, (query, self._target_id, batch))
        return len(rows)

    def others(self, query: str) -> Mapping[str, int]:
        asked = f"SELECT query, batch FROM {BATCHES} WHERE target = %s AND query NOT IN (%s, %s)"  # nosec B608 # the same
        with self._connected() as connection:
            return dict(connection.execute(asked, (self._target_id, query, NOBODY)).fetchall())

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        # Of a table with another key the newest event of a row counts, so each of them must come in its turn.
        if not set(keys.column_names) <= set(self._target.key):
            return None
        import pyarrow as pa
        from psycopg import sql

        table = sql.Identifier(*self._target.table.split("."))
        columns = sql.SQL(", ").join(map(sql.Identifier, keys.column_names))
        with self._connected() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("CREATE TEMPORARY TABLE gantry_keys ON COMMIT DROP AS SELECT {}, 0 AS gantry_row FROM {}"
                        " WITH NO DATA").format(columns, table)
            )  # fmt: skip
            with cursor.copy(sql.SQL("COPY gantry_keys ({}, gantry_row) FROM STDIN").format(columns)) as copy:
                for number, row in enumerate(_tuples(keys)):
                    copy.write_row((*row, number))
            cursor.execute(
                sql.SQL("SELECT gantry_row FROM gantry_keys WHERE EXISTS (SELECT 1 FROM {} AS there WHERE {})").format(
                    table,
                    sql.SQL(" AND ").join(
                        sql.SQL("there.{0} = gantry_keys.{0}").format(sql.Identifier(name))
                        for name in keys.column_names
                    ),
                )
            )
            return keys.take(pa.array([row for (row,) in cursor.fetchall()], pa.int64()))

    def rows(self) -> int:
        from psycopg import sql

        table = sql.Identifier(*self._target.table.split("."))
        with self._connected() as connection:
            return int(connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchone()[0])

    def finish(self) -> None:
        """Every batch is committed already."""

    def close(self) -> None:
        self._connected.close()

    def _table_columns(self) -> None:
        """Raise the server's error when the table does not exist or must not be read."""
        from psycopg import sql

        table = sql.Identifier(*self._target.table.split("."))
        with self._connected() as connection:
            connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(table))


def _tuples(rows: pa.Table) -> Iterator[Sequence[Any]]:
    for batch in rows.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
