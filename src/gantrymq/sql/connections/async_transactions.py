"""Local transactions on asynchronous connections of a driver: the same as ``transactions``, with ``await``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, ClassVar, Self
from weakref import WeakSet

from gantrymq.sql.connections.async_drivers import async_driver_of
from gantrymq.sql.connections.block import ConnectionBlock
from gantrymq.sql.transaction.enlistment import AsyncEnlistment


class AsyncConnectionTransaction(ConnectionBlock):
    """One local transaction: ``async with transactions.begin() as tx``. Leaving the block commits, an error rolls
    back."""

    driver_of = staticmethod(async_driver_of)
    _in_use: ClassVar = WeakSet[Any]()
    """A block whose task was thrown away does not take its own out."""
    _with = "async with"
    _on_loop = True

    def __init__(
        self, start: Callable[[], Awaitable[None]], enlist: Callable[[], AsyncEnlistment],
        connect: Callable[[], Awaitable[Any]], *, ours: bool,
    ) -> None:  # fmt: skip
        super().__init__(enlist, ours=ours)
        self._start = start
        self._connect = connect

    async def execute(self, statement: str, parameters: Any = None) -> Any:
        """Execute a statement, with parameters as the driver wants them. Returns its cursor (psycopg, aiomysql) or its
        rows (asyncpg)."""
        return await self._execute(statement, parameters)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """``async with tx.savepoint():`` rolls back what was done in it, and drops its messages, when an error leaves
        it."""
        name = await self._begin_savepoint()
        try:
            yield
            await self.execute(f"RELEASE SAVEPOINT {name}")
        except BaseException:
            await self._roll_back_to(name)
            raise

    async def __aenter__(self) -> Self:
        self._begin_once()
        await self._start()
        connection = await self._connect()
        driver = self.driver_of(connection)
        await self._enter(connection, driver, driver.held)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit(kind is not None)
