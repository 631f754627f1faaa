"""What the protocol must know of asynchronous connections, and the database behind a function that makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql.connections.drivers import (
    Note,
    PsycopgDriver,
    check_runs,
    may_begin,
    not_supported,
    verify_end,
    verify_status,
)
from gantrymq.sql.rows.dialect import Dialect, Kind
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.transaction.database import Rows


class AsyncPsycopgDriver:
    """One transaction on one asynchronous connection; see ``PsycopgDriver``."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.mark = ""
        self._block: Any = None
        self._outermost = True

    async def begin(self) -> None:
        self._outermost = may_begin(self._connection)
        self._block = self._connection.transaction()
        self._transaction = await self._block.__aenter__()
        self.mark = proof.new_mark()
        await self.execute(proof.place_mark(Dialect(Kind.POSTGRESQL, PsycopgDriver.parameter_style), self.mark))

    def verify(self) -> None:
        verify_status(self._connection)

    async def execute(self, statement: Statement) -> Rows:
        from psycopg import AsyncCursor
        from psycopg.rows import tuple_row

        cursor = AsyncCursor(self._connection, row_factory=tuple_row)
        await cursor.execute(statement[0], statement[1] or None)
        return await cursor.fetchall() if cursor.description is not None else []

    async def insert(self, statement: Statement) -> int:
        from psycopg import AsyncCursor

        return (await AsyncCursor(self._connection).execute(*statement)).rowcount

    async def commit(self) -> None:
        block, self._block = self._block, None
        await block.__aexit__(None, None, None)
        verify_end(self._transaction)
        if not self._outermost:
            await self._connection.commit()

    async def rollback(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            error = TransactionBroken("rolled back")
            await block.__aexit__(type(error), error, None)
        if block is None or not self._outermost:  # without a block: its commit failed
            await self._connection.rollback()

    def check_runs(self) -> None:
        check_runs(self._connection)

    def watch(self, note: Note) -> None:
        transaction = self._connection.transaction

        @asynccontextmanager
        async def watched(*arguments: Any, **options: Any) -> AsyncIterator[Any]:
            note.block(begins=True)
            inner: Any = None
            try:
                async with transaction(*arguments, **options) as inner:
                    yield inner
            finally:
                note.block(begins=False, kept=inner is not None and inner.status is inner.Status.COMMITTED)

        self._connection.transaction = watched

    def unwatch(self) -> None:
        vars(self._connection).pop("transaction", None)

    async def stand_alone(self) -> None:
        await self._connection.commit()  # settings that the user's function made
        await self._connection.set_autocommit(True)


def async_driver_of(connection: Any) -> AsyncPsycopgDriver:
    """Raises ConfigError for a connection of another driver."""
    for base in type(connection).__mro__:
        if base.__module__.partition(".")[0] == "psycopg" and base.__name__ == "AsyncConnection":
            return AsyncPsycopgDriver(connection)
    raise ConfigError(not_supported(connection, "psycopg.AsyncConnection", blocking=False))


class AsyncConnectionDatabase:
    """A new connection for every call; see ``ConnectionDatabase``."""

    driver_of = staticmethod(async_driver_of)

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect

    async def connect(self) -> Any:
        """A new connection. Raises ConfigError for what is none."""
        coming = self._connect()
        if not hasattr(coming, "__await__"):
            close = getattr(coming, "close", None)
            if close is not None:
                close()
            raise ConfigError(
                "the function that connects must return something to await (psycopg.AsyncConnection.connect(...)), not "
                f"{type(coming).__name__}; for blocking connections, use Transactions"
            )
        connection = await coming
        try:
            self.driver_of(connection)
        except ConfigError:
            closing: Any = connection.close() if hasattr(connection, "close") else None
            if hasattr(closing, "__await__"):
                await closing
            raise
        return connection

    async def dialect(self) -> Dialect:
        return Dialect(Kind.POSTGRESQL, PsycopgDriver.parameter_style)

    async def alone(self, statements: Sequence[Statement]) -> Rows:
        rows: Rows = ()
        connection = await self.connect()
        try:
            driver = self.driver_of(connection)
            await driver.stand_alone()
            for statement in statements:
                rows = await driver.execute(statement) or rows
        finally:
            await connection.close()
        return rows
