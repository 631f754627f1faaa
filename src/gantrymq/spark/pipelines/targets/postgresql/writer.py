"""The target ``postgresql``: rows are copied to the server, and inserted or updated by their key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.job import PostgresqlTarget
from gantrymq.spark.pipelines.targets.databases import Databases, Part
from gantrymq.spark.pipelines.targets.port import NOBODY, RowRefused
from gantrymq.spark.pipelines.targets.postgresql.known_keys import known_keys
from gantrymq.spark.pipelines.targets.postgresql.limits import COLUMNS, Column, unfit
from gantrymq.spark.pipelines.targets.postgresql.rows import Insertion, is_of_rows
from gantrymq.spark.pipelines.targets.postgresql.server import PostgresqlServer
from gantrymq.spark.pipelines.targets.postgresql.stage import CopyStage, StagingTable
from gantrymq.spark.pipelines.targets.postgresql.stage import Part as CopiedPart
from gantrymq.spark.pipelines.targets.staging import Stage, Staged, TargetAway, refusal_in, rows_in
from gantrymq.sql.rules.creation import create
from gantrymq.sql.rules.runner import performed

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


class Write(Protocol):
    """How the rows of a batch come into a table."""

    @property
    def tables(self) -> Sequence[str]:
        """Statements for the tables that it needs beside it."""

    def written(self, rows: pa.Table) -> pa.Table:
        """The first rows of these, all of whose values come into the table."""

    def insertion(self, connection: Any, table: Any, rows: pa.Table) -> Insertion:
        """The statements. ``table``: its name as an SQL identifier. Inside the transaction of the batch."""


@dataclass(frozen=True, slots=True)
class Upserts:
    """Each row is inserted, or updates the one with its key."""

    key: Sequence[str]
    tables: Sequence[str] = ()

    def written(self, rows: pa.Table) -> pa.Table:
        return rows

    def insertion(self, connection: Any, table: Any, rows: pa.Table) -> Insertion:
        return Insertion.of(connection, table, rows, self.key)


class PostgresqlWriter:
    """Writes a batch in one database transaction, together with its number in the table ``gantry_batches``."""

    def __init__(self, target: PostgresqlTarget, name: str, databases: Databases, write: Write) -> None:
        """``write``: how the rows of a batch come into the table."""
        try:
            import psycopg
            from psycopg import sql
        except ImportError as error:
            raise ConfigError(
                f"the target postgresql needs the package psycopg; run: pip install 'gantrymq[postgresql]' ({error})"
            ) from error
        self._target = target
        self._name = name
        self._target_id = f"{name}: {target.table}"
        """A target that writes to another table is another one, also in a job that has a copy of the checkpoint."""
        self._table = sql.Identifier(*target.table.split("."))
        self._connected = databases.at(PostgresqlServer(target.dsn), name)
        self._write = write
        self._staged: pa.Table | None = None
        self._staging: StagingTable | None = None
        """The one that this run has made."""
        self._ready: Sequence[Staged] | None = None
        """What tasks have staged, and the transaction has."""
        self._inserted: pa.Table | None = None
        """The rows that were put into the transaction last."""
        try:
            performed(create([_CREATE, *write.tables]), self._alone)
            with self._connected() as connection:
                # Raises the server's error when the table does not exist or must not be read.
                connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._table))
                named = self._table.as_string(connection)
                self._columns = [Column(*row) for row in connection.execute(COLUMNS, (named,)).fetchall()]
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

    def refusals(self, query: str, batch: int, rows: pa.Table) -> Mapping[int, str]:
        """What the types of the columns cannot have; and if nothing is wrong with those, what the server refuses: then
        the rows are in the open transaction when this returns, and ``add`` commits it."""
        self._inserted = None
        self._connected.undo(self._name)
        if not len(rows) or self.has(query, batch):
            return {}
        found = unfit(self._write.written(rows), self._columns)
        if found:
            return found
        self._connected.begin(self._name)
        with self._connected() as connection:
            found = self._write.insertion(connection, self._table, rows).all_but_refused()
            if not found:
                connection.execute(_REMEMBER, (query, self._target_id, batch))
                self._inserted = rows
        if found:
            self._connected.undo(self._name)
        return found

    def stage(self, query: str, batch: int) -> Stage:
        import psycopg

        table = StagingTable.of(query, self._target_id)
        try:
            # Not in the transaction of the batch, which may be open for another target: the executors must see it.
            with psycopg.connect(self._target.dsn, autocommit=True) as connection:
                if table == self._staging:
                    table.clear(connection)
                else:
                    table.make(connection, self._table)
        except psycopg.OperationalError as error:
            raise TargetAway(f"targets.{self._name}: PostgreSQL cannot be reached: {str(error).strip()}") from error
        self._staging = table
        return CopyStage(self._target.dsn, table, self._columns)

    def accepts(self, query: str, batch: int, staged: Sequence[Staged]) -> bool:
        """Those that it accepts are in the open transaction when this returns."""
        if not isinstance(self._write, Upserts):
            self._staged = rows_in(staged)
            return self._staged is None or not self.refusals(query, batch, self._staged)
        import psycopg

        self._ready = None
        self._connected.undo(self._name)
        if refusal_in(staged) is not None:
            return False
        if not staged or self.has(query, batch):
            return True
        parts = [msgspec.json.decode(one.content, type=CopiedPart) for one in staged]
        self._connected.begin(self._name)
        try:
            with self._connected() as connection:
                StagingTable.of(query, self._target_id).insert(connection, self._table, parts, self._target.key)
                connection.execute(_REMEMBER, (query, self._target_id, batch))
        except psycopg.DatabaseError as error:
            if not is_of_rows(error):
                raise
            self._connected.undo(self._name)
            return False
        self._ready = staged
        return True

    def commit(self, query: str, batch: int, staged: Sequence[Staged]) -> int:
        if not isinstance(self._write, Upserts):
            return 0 if self._staged is None else self.add(query, batch, self._staged)
        if self._ready is not staged or self._connected.part(self._name) is Part.NONE:
            if not self.accepts(query, batch, staged):
                raise RowRefused(f"targets.{self._name}: a row of batch {batch} is refused: {refusal_in(staged)}")
            if self._ready is None:
                return 0
        if self._connected.part(self._name) is Part.OPEN:
            self._connected.commit()
        self._ready = None
        return sum(one.rows for one in staged)

    def add(self, query: str, batch: int, rows: pa.Table) -> int:
        if self._inserted is not rows or self._connected.part(self._name) is Part.NONE:
            refusals = self.refusals(query, batch, rows)
            if refusals:
                at, reason = next(iter(refusals.items()))
                raise RowRefused(f"targets.{self._name}: row {at} of batch {batch} is refused: {reason}")
            if self._inserted is None:
                return 0
        if self._connected.part(self._name) is Part.OPEN:
            self._connected.commit()
        self._inserted = None
        return len(rows)

    def others(self, query: str) -> Mapping[str, int]:
        asked = f"SELECT query, batch FROM {BATCHES} WHERE target = %s AND query NOT IN (%s, %s)"  # nosec B608 # the same
        with self._connected() as connection:
            return dict(connection.execute(asked, (self._target_id, query, NOBODY)).fetchall())

    def known(self, query: str, keys: pa.Table) -> pa.Table | None:
        # Of a table with another key the newest event of a row counts, so each of them must come in its turn.
        if not set(keys.column_names) <= set(self._target.key):
            return None
        with self._connected() as connection:
            return known_keys(connection, self._table, self._columns, keys)

    def rows(self) -> int:
        from psycopg import sql

        with self._connected() as connection:
            return int(connection.execute(sql.SQL("SELECT count(*) FROM {}").format(self._table)).fetchone()[0])

    def finish(self) -> None:
        """Every batch is committed already."""

    def close(self) -> None:
        import psycopg

        if self._staging is not None:
            with suppress(psycopg.Error, TargetAway), self._connected() as connection:
                self._staging.drop(connection)
        self._connected.close()
