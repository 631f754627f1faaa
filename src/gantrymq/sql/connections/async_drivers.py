"""What the protocol must know of asynchronous connections, and the database behind a function that makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql.connections.aiomysql_driver import AiomysqlDriver
from gantrymq.sql.connections.asyncpg_driver import AsyncpgDriver
from gantrymq.sql.connections.drivers import (
    Note,
    PsycopgDriver,
    check_runs,
    may_begin,
    not_supported,
    verify_end,
    verify_status,
)
from gantrymq.sql.rows.dialect import BEGIN, DatabaseKind, Dialect
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.transaction.database import Counted, Rows


class AsyncDriver(Protocol):
    """One transaction on one asynchronous connection; see ``Driver``."""

    mark: str
    held: Any
    """The connection itself, which has a weak reference."""

    @property
    def tells_later(self) -> bool:
        """``watch`` tells of a statement one turn of the event loop behind it."""

    @property
    def sees_all(self) -> bool:
        """``watch`` sees each statement; otherwise only what the driver does by itself, without a text."""

    def dialect(self) -> Dialect: ...

    async def begin(self) -> None: ...

    async def verify(self, proved: bool) -> None:
        """``proved``: the insert of the outcome row compares the mark."""

    async def verify_at_rollback(self) -> None: ...

    def check_runs(self) -> None:
        """See ``Driver.check_runs``."""

    async def run(self, statement: str, parameters: Any) -> Any:
        """A statement of the program; returns what is usual with this driver."""

    async def execute(self, statement: Statement) -> Rows: ...

    async def insert(self, statement: Statement) -> int: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> bool | None:
        """See ``Driver.rollback``."""

    def watch(self, note: Note) -> None: ...

    def unwatch(self) -> None: ...

    async def stand_alone(self) -> None:
        """Autocommit, for a check-back."""

    async def close(self) -> None: ...


class AsyncPsycopgDriver:
    """psycopg; see ``PsycopgDriver``."""

    tells_later: Final = False
    sees_all: Final = False

    def __init__(self, connection: Any) -> None:
        self._connection = self.held = connection
        self.mark = ""
        self._block: Any = None
        self._outermost = True

    async def begin(self) -> None:
        self._outermost = may_begin(self._connection)
        self._block = self._connection.transaction()
        self._transaction = await self._block.__aenter__()
        self.mark = proof.new_mark()
        await self.execute(proof.place_mark(self.dialect(), self.mark))

    def dialect(self) -> Dialect:
        return Dialect(DatabaseKind.POSTGRESQL, PsycopgDriver.parameter_style)

    async def verify(self, proved: bool) -> None:
        verify_status(self._connection)

    async def verify_at_rollback(self) -> None:
        """PostgreSQL commits nothing by itself."""

    async def run(self, statement: str, parameters: Any) -> Any:
        return await self._connection.execute(statement, parameters)

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

    async def close(self) -> None:
        await self._connection.close()


_DRIVERS: Final[dict[tuple[str, str], Callable[[Any], AsyncDriver]]] = {
    ("psycopg", "AsyncConnection"): AsyncPsycopgDriver,
    ("asyncpg", "Connection"): AsyncpgDriver,
    ("asyncpg", "PoolConnectionProxy"): AsyncpgDriver,
    ("aiomysql", "Connection"): AiomysqlDriver,
}
"""By the package and the name of a class."""


def async_driver_of(connection: Any) -> AsyncDriver:
    """Raises ConfigError for a connection of another driver."""
    for base in type(connection).__mro__:
        found = _DRIVERS.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found(connection)
    wanted = "psycopg.AsyncConnection, asyncpg.Connection and aiomysql.Connection"
    raise ConfigError(not_supported(connection, wanted, blocking=False))


class AsyncConnectionDatabase:
    """A new connection for every call; see ``ConnectionDatabase``."""

    driver_of = staticmethod(async_driver_of)

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self._dialect: Dialect | None = None

    async def connect(self) -> Any:
        """A new connection. Raises ConfigError for what is none."""
        coming = self._connect()
        if not hasattr(coming, "__await__"):
            close = getattr(coming, "close", None)
            if close is not None:
                close()
            raise ConfigError(
                "the function that connects must return something to await (psycopg.AsyncConnection.connect(...), "
                f"asyncpg.connect(...)), not {type(coming).__name__}; for blocking connections, use Transactions"
            )
        connection = await coming
        try:
            self._dialect = self.driver_of(connection).dialect()
        except ConfigError:
            closing: Any = connection.close() if hasattr(connection, "close") else None
            if hasattr(closing, "__await__"):
                await closing
            raise
        return connection

    async def dialect(self) -> Dialect:
        if self._dialect is None:
            await self.driver_of(await self.connect()).close()
        assert self._dialect is not None
        return self._dialect

    async def alone(self, statements: Sequence[Statement]) -> Rows:
        rows: Rows = ()
        driver = self.driver_of(await self.connect())
        try:
            await driver.stand_alone()
            for statement in statements:
                rows = await driver.execute(statement) or rows
        finally:
            await driver.close()
        return rows

    async def together(self, statements: Sequence[Counted]) -> bool:
        driver = self.driver_of(await self.connect())
        try:
            await driver.stand_alone()
            await driver.execute((BEGIN[driver.dialect().kind], ()))
            for text, parameters, count in statements:
                if await driver.insert((text, parameters)) != count:
                    await driver.execute(("ROLLBACK", ()))
                    return False
            await driver.execute(("COMMIT", ()))
        finally:
            await driver.close()
        return True
