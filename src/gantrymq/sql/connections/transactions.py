"""Local transactions on DB-API connections, for programs without an ORM: psycopg, sqlite3 and PyMySQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

from gantrymq.sql.connections.block import ConnectionBlock
from gantrymq.sql.connections.drivers import driver_of
from gantrymq.sql.rules.runner import run_blocking
from gantrymq.sql.transaction.enlistment import Enlistment


class ConnectionTransaction(ConnectionBlock):
    """One local transaction: ``with transactions.begin() as tx``. Leaving the block commits, an error rolls back."""

    _in_use: ClassVar = set[int]()
    """The ``id`` of each: a connection of sqlite3 has no weak reference."""
    _with = "with"

    def __init__(self, enlist: Callable[[], Enlistment], connect: Callable[[], Any], *, ours: bool) -> None:
        super().__init__(enlist, ours=ours)
        self._connect = connect

    def execute(self, statement: str, parameters: Any = None) -> Any:
        """Execute a statement; returns its cursor. Parameters are written as the driver wants them."""
        return self._execute(statement, parameters)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """``with tx.savepoint():`` rolls back what was done in it, and drops its messages, when an error leaves it.

        A SAVEPOINT that you execute yourself does not drop messages.
        """
        name = run_blocking(self._begin_savepoint)
        try:
            yield
            self.execute(f"RELEASE SAVEPOINT {name}")
        except BaseException:
            run_blocking(self._roll_back_to, name)
            raise

    def __enter__(self) -> Self:
        self._begin_once()
        connection = self._connect()
        run_blocking(self._enter, connection, driver_of(connection), id(connection))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_blocking(self._exit, kind is not None)
