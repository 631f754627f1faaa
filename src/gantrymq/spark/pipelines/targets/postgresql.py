"""The target ``postgresql``: rows are copied to the server, and inserted or updated by their key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import PostgresqlTarget
from gantrymq.sql.rules.creation import created

if TYPE_CHECKING:
    import pyarrow as pa

BATCHES = "gantry_batches"
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
        self._errors: Any = psycopg.Error
        self._target = target
        self._name = name
        try:
            self._connection: Any = psycopg.connect(target.dsn, autocommit=True)
            created([_CREATE], self._alone)
            self._table_columns()
        except psycopg.Error as error:
            raise ConfigError(
                f"targets.{name}: PostgreSQL refuses: {str(error).strip()}; check dsn and table"
            ) from error

    def _alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        for statement, _ in statements:
            self._connection.execute(statement)

    def has(self, query: str, batch: int) -> bool:
        asked = f"SELECT batch FROM {BATCHES} WHERE query = %s AND target = %s"  # nosec B608 # the same
        found = self._connection.execute(asked, (query, self._name)).fetchone()
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
        with self._connection.transaction(), self._connection.cursor() as cursor:
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
            cursor.execute(_REMEMBER, (query, self._name, batch))
        return len(rows)

    def keys_of_others(self, query: str, columns: Sequence[str]) -> pa.Table | None:
        return None  # a row with an equal key is updated

    def rows(self) -> int:
        from psycopg import sql

        table = sql.Identifier(*self._target.table.split("."))
        return int(self._connection.execute(sql.SQL("SELECT count(*) FROM {}").format(table)).fetchone()[0])

    def finish(self) -> None:
        """Every batch is committed already."""

    def close(self) -> None:
        self._connection.close()

    def _table_columns(self) -> None:
        """Raise the server's error when the table does not exist or must not be read."""
        from psycopg import sql

        table = sql.Identifier(*self._target.table.split("."))
        self._connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(table))


def _tuples(rows: pa.Table) -> Iterator[Sequence[Any]]:
    for batch in rows.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
