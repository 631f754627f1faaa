"""Connections to databases: one for all targets of a job in one database, which is opened again after it was lost.

The targets share its transaction, too, in which each has a part. So a row can have a foreign key to one of another
target of the same batch, and all are committed at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Protocol

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.targets.staging import TargetAway


class Server(Protocol):
    """One kind of database, and where it is. Equal ones are the same database."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def quote(self) -> str:
        """Around the names of savepoints."""

    @property
    def begin(self) -> Sequence[str]:
        """The statements with which a transaction begins."""

    def connect(self) -> Any:
        """A connection in autocommit, with ``execute``, ``closed`` and ``close``."""

    def errors(self) -> type[Exception]:
        """All errors of the server and its driver."""

    def losses(self) -> type[Exception]:
        """Among others, that the connection is lost."""

    def gave_way(self, error: Any) -> bool:
        """Whether the server has ended a transaction for the sake of another one, as in a deadlock."""


class Part(Enum):
    """What became of the rows of one target."""

    NONE = "not inserted"
    """Or lost, with the connection or by a rollback."""
    OPEN = "in the open transaction"
    COMMITTED = "committed"


class DatabaseConnection:
    """One connection at a time, and at most one transaction."""

    def __init__(self, server: Server, target: str) -> None:
        """``target``: its name in the job, for errors. Raises ConfigError when the server cannot be reached now."""
        self._server = server
        self._target = target
        self._parts: dict[str, Part] = {}
        """In the order of their savepoints."""
        try:
            self._open: Any = server.connect()
        except server.errors() as error:
            raise ConfigError(
                f"targets.{target}: {server.name} refuses: {str(error).strip()}; check its keys"
            ) from error

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """The connection, which is opened again if it was lost. Raises TargetAway when it is lost meanwhile, or
        when its transaction gave way to another one."""
        try:
            if self._open.closed:
                self._parts = {}
                self._open = self._server.connect()
            yield self._open
        except self._server.losses() as error:
            if not self._open.closed:
                if not self._server.gave_way(error):
                    raise
                raise TargetAway(
                    f"targets.{self._target}: another transaction was in the way: {str(error).strip()}"
                ) from error
            raise TargetAway(
                f"targets.{self._target}: the connection to {self._server.name} was lost: {str(error).strip()}; start "
                "the server, or correct its address"
            ) from error

    def part(self, target: str) -> Part:
        return self._parts.get(target, Part.NONE)

    def begin(self, target: str) -> None:
        """Begin the part of a target in the transaction, which begins as well if there is none."""
        with self() as connection:
            if not self._is_in_transaction:
                self._parts = {}
                for statement in self._server.begin:
                    connection.execute(statement)
            connection.execute(f"SAVEPOINT {self._savepoint(target)}")
            self._parts[target] = Part.OPEN

    def undo(self, target: str) -> None:
        """Undo the open part of a target, and the parts that began behind it."""
        with self() as connection:
            if self.part(target) is Part.OPEN:
                connection.execute(f"ROLLBACK TO SAVEPOINT {self._savepoint(target)}")
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

    def _savepoint(self, target: str) -> str:
        # The name of a target has letters, digits, - and _ only.
        return f"{self._server.quote}{target}{self._server.quote}"


class Databases:
    """The databases of one job."""

    def __init__(self) -> None:
        self._open: dict[Server, DatabaseConnection] = {}

    def at(self, server: Server, target: str) -> DatabaseConnection:
        """The connection that all targets in this database share. Raises ConfigError."""
        if server not in self._open:
            self._open[server] = DatabaseConnection(server, target)
        return self._open[server]

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
