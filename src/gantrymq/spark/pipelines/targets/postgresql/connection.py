"""Connections to PostgreSQL: one for all targets of a job in one database, which is opened again after it was lost.

The targets share its transaction, too, in which each has a part. So a row can have a foreign key to one of another
target of the same batch, and all are committed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.targets.staging import TargetAway

_TAKES_TURNS: Final = ("40001", "40P01")
"""SQLSTATE of a transaction that the server has ended for the sake of another one, as in a deadlock."""


class Part(Enum):
    """What became of the rows of one target."""

    NONE = "not inserted"
    """Or lost, with the connection or by a rollback."""
    OPEN = "in the open transaction"
    COMMITTED = "committed"


class PostgresqlConnection:
    """One connection at a time, and at most one transaction."""

    def __init__(self, dsn: str, target: str) -> None:
        """``target``: its name in the job, for errors. Raises ConfigError when the server cannot be reached now."""
        import psycopg

        self._dsn = dsn
        self._target = target
        self._parts: dict[str, Part] = {}
        """In the order of their savepoints."""
        try:
            self._open: Any = psycopg.connect(dsn, autocommit=True)
        except psycopg.Error as error:
            raise ConfigError(
                f"targets.{target}: PostgreSQL refuses: {str(error).strip()}; check dsn and table"
            ) from error

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """The connection, which is opened again if it was lost. Raises TargetAway when it is lost meanwhile, or
        when its transaction gave way to another one."""
        import psycopg

        try:
            if self._open.closed:
                self._parts = {}
                self._open = psycopg.connect(self._dsn, autocommit=True)
            yield self._open
        except psycopg.OperationalError as error:
            if not self._open.closed:
                if error.sqlstate not in _TAKES_TURNS:
                    raise
                raise TargetAway(
                    f"targets.{self._target}: another transaction was in the way: {str(error).strip()}"
                ) from error
            raise TargetAway(
                f"targets.{self._target}: the connection to PostgreSQL was lost: {str(error).strip()}; start the "
                "server, or correct dsn"
            ) from error

    def part(self, target: str) -> Part:
        return self._parts.get(target, Part.NONE)

    def begin(self, target: str) -> None:
        """Begin the part of a target in the transaction, which begins as well if there is none."""
        with self() as connection:
            if not self._is_in_transaction:
                self._parts = {}
                connection.execute("BEGIN")
                # A constraint that waits for the commit would fail where it is too late to leave a row out.
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            connection.execute(_savepoint("SAVEPOINT {}", target))
            self._parts[target] = Part.OPEN

    def undo(self, target: str) -> None:
        """Undo the open part of a target, and the parts that began behind it."""
        with self() as connection:
            if self.part(target) is Part.OPEN:
                connection.execute(_savepoint("ROLLBACK TO SAVEPOINT {}", target))
                names = list(self._parts)
                for name in names[names.index(target) :]:
                    del self._parts[name]
                if not self._parts:
                    connection.execute("ROLLBACK")

    def undo_all(self) -> None:
        """Undo all open parts."""
        with self() as connection:
            if self._is_in_transaction:
                connection.execute("ROLLBACK")
            self._parts = {}

    def commit(self) -> None:
        """Commit all open parts."""
        with self() as connection:
            connection.execute("COMMIT")
            self._parts = dict.fromkeys(self._parts, Part.COMMITTED)

    def close(self) -> None:
        self._open.close()

    @property
    def _is_in_transaction(self) -> bool:
        return Part.OPEN in self._parts.values()


class Databases:
    """The databases of one job, by their connection strings."""

    def __init__(self) -> None:
        self._open: dict[str, PostgresqlConnection] = {}

    def at(self, dsn: str, target: str) -> PostgresqlConnection:
        """The connection that all targets with this connection string share. Raises ConfigError."""
        if dsn not in self._open:
            self._open[dsn] = PostgresqlConnection(dsn, target)
        return self._open[dsn]

    def close(self) -> None:
        for one in self._open.values():
            one.close()

    def undo(self, target: str) -> None:
        for one in self._open.values():
            one.undo(target)

    def undo_all(self) -> None:
        """Nothing of a batch that was not committed stays, and nobody takes it for stored."""
        for one in self._open.values():
            one.undo_all()


def _savepoint(statement: str, target: str) -> Any:
    from psycopg import sql

    return sql.SQL(statement).format(sql.Identifier(target))
