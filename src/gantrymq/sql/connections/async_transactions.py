"""Local transactions on asynchronous connections of a driver: the same as ``transactions``, with ``await``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, Unpack
from weakref import WeakSet

from gantrymq.client.listener import TransactionListener
from gantrymq.errors import Closed, ConfigError, TransactionBroken
from gantrymq.message.message import Message
from gantrymq.sql.async_transactions import AsyncTransactions
from gantrymq.sql.connections.async_drivers import AsyncConnectionDatabase, AsyncDriver, async_driver_of
from gantrymq.sql.connections.savepoints import LaterSavepoints, WatchedSavepoints
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.transaction.async_enlistment import AsyncEnlistment, AsyncLocal, AsyncOutcomeChecker
from gantrymq.sql.transaction.settings import TransactionsSettings

log = logging.getLogger("gantrymq.sql")
_in_use: Final[WeakSet[Any]] = WeakSet()
"""Connections that a block commits. A block whose task was thrown away does not take its own out."""


class AsyncConnectionTransactions(AsyncTransactions["AsyncConnectionTransaction"]):
    """The local transactions of asynchronous connections that a function makes; see ``AsyncTransactions``."""

    _local: AsyncLocal

    def __init__(
        self, group: str, connect: Callable[[], Awaitable[Any]], **settings: Unpack[TransactionsSettings]
    ) -> None:
        """``connect``: its result, awaited, is a new connection each time, which is closed here."""
        self._set_up(group, settings)
        self._database = AsyncConnectionDatabase(connect)

    async def create_table(self) -> None:
        await AsyncLocal(self._database, self._settings).create_tables()

    async def _connect(self) -> TransactionListener:
        self._local = AsyncLocal(self._database, self._settings, self._clock, self._rng)
        await self._local.open()
        return AsyncOutcomeChecker(self._local)

    def begin(self) -> AsyncConnectionTransaction:
        """``async with transactions.begin() as tx:`` is one local transaction, on a new connection."""
        return AsyncConnectionTransaction(self.start, self._enlist, self._database.connect, ours=True)

    def on(self, connection: Any) -> AsyncConnectionTransaction:
        """``async with transactions.on(connection) as tx:`` is one on your own connection; see
        ``ConnectionTransactions.on``."""

        async def given() -> Any:
            return connection

        return AsyncConnectionTransaction(self.start, self._enlist, given, ours=False)

    def _enlist(self) -> AsyncEnlistment:
        producer = self._producer()  # before the database: it says what to do when nothing is started
        return self._local.enlist(producer)


class AsyncConnectionTransaction:
    """One local transaction: ``async with transactions.begin() as tx``. Leaving the block commits, an error rolls
    back."""

    driver_of = staticmethod(async_driver_of)

    def __init__(
        self, start: Callable[[], Awaitable[None]], enlist: Callable[[], AsyncEnlistment],
        connect: Callable[[], Awaitable[Any]], *, ours: bool,
    ) -> None:  # fmt: skip
        self._start = start
        self._enlist = enlist
        self._connect = connect
        self._ours = ours
        self._connection: Any = None
        self._used = False
        self._enlistment: AsyncEnlistment | None = None
        self._driver: AsyncDriver
        self._savepoints: WatchedSavepoints
        self._made = 0
        self._broken: BaseException | None = None

    @property
    def connection(self) -> Any:
        """The connection to work with. Its ``commit`` belongs to the block."""
        if self._connection is None:
            raise Closed("this transaction is not running: use it in an `async with` block, once")
        return self._connection

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    async def execute(self, statement: str, parameters: Any = None) -> Any:
        """Execute a statement, with parameters as the driver wants them. Returns its cursor (psycopg, aiomysql) or its
        rows (asyncpg)."""
        _ = self.connection
        self._driver.check_runs()
        if not self._driver.sees_all:
            self._savepoints.executes(statement)
        return await self._driver.run(statement, parameters)

    def send(self, *messages: Message) -> None:
        """Send these messages when the block commits; see ``ConnectionTransaction.send``. Does not wait."""
        _ = self.connection
        if self._enlistment is None:
            self._enlistment = self._enlist()
        for message in messages:
            self._enlistment.send(message, self._savepoints.level)

    def _drop(self, belongs: Callable[[object], bool]) -> None:
        if self._enlistment is not None:
            self._enlistment.drop(belongs)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """``async with tx.savepoint():`` rolls back what was done in it, and drops its messages, when an error leaves
        it."""
        self._made += 1
        name = f"gantrymq_{self._made}"
        await self.execute(f"SAVEPOINT {name}")
        try:
            yield
            await self.execute(f"RELEASE SAVEPOINT {name}")
        except BaseException:
            await self._roll_back_to(name)
            raise

    async def _roll_back_to(self, name: str) -> None:
        self._savepoints.executes(f"ROLLBACK TO SAVEPOINT {name}")  # also when the connection is lost
        try:
            await self.execute(f"ROLLBACK TO SAVEPOINT {name}")
            await self.execute(f"RELEASE SAVEPOINT {name}")
        except BaseException as error:
            self._broken = error
            if not isinstance(error, Exception):
                raise

    async def __aenter__(self) -> Self:
        if self._used:
            raise ConfigError("this transaction was used already; begin another one with transactions.begin()")
        self._used = True
        await self._start()
        connection = await self._connect()
        driver = self.driver_of(connection)
        if driver.held in _in_use:
            raise ConfigError("a block commits this connection already; inside of it, use `async with tx.savepoint():`")
        _in_use.add(driver.held)
        self._connection, self._driver = connection, driver
        self._savepoints = (LaterSavepoints if driver.tells_later else WatchedSavepoints)(self._drop)
        try:
            await driver.begin()
            driver.watch(self._savepoints)
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ = self.connection
        try:
            if kind is None:
                await self._commit()
            else:
                await asyncio.shield(self._leave_with_error())
        finally:
            await asyncio.shield(self._leave())

    async def _commit(self) -> None:
        enlistment, commits = self._enlistment, False
        try:
            if self._broken is not None:
                raise TransactionBroken("a savepoint of this transaction could not be rolled back") from self._broken
            await self._savepoints.settled()
            await self._driver.verify(proved=enlistment is not None and len(enlistment) > 0)
            if enlistment is not None:
                self._savepoints.check()
                enlistment.mark = self._driver.mark
                await enlistment.prepare(self._driver.insert)
            commits = True
            await self._driver.commit()
        except BaseException as error:
            await asyncio.shield(self._give_up(certain=not commits))
            raised = error_after(error, enlistment)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
        else:
            if enlistment is not None:
                await enlistment.committed()

    async def _leave_with_error(self) -> None:
        """See ``ConnectionTransaction._leave_with_error``."""
        broken: TransactionBroken | None = None
        try:
            await self._driver.verify_at_rollback()
        except TransactionBroken as found:
            broken = found
        except Exception:  # noqa: BLE001 - the connection was lost, and the server rolls back
            log.debug("a connection was lost before the rollback")
        await self._give_up(certain=True)
        if broken is not None:
            raise broken

    async def _give_up(self, certain: bool) -> None:
        """Roll back, then settle. Who sees the error of the block wants that one, and not what comes of it here.

        ``certain``: no commit was tried.
        """
        try:
            await self._driver.rollback()
        except Exception:  # noqa: BLE001 - as above; a connection in an unknown state must not keep its locks
            with suppress(Exception):
                await self._driver.close()
        if self._enlistment is not None:
            try:
                if certain:
                    await self._enlistment.rolled_back()
                else:
                    await self._enlistment.failed()
            except Exception as error:  # noqa: BLE001 - as above
                log.warning("brokers will ask how transaction %s ended: %r", self.transaction_id, error)

    async def _leave(self) -> None:
        self._connection = None
        with suppress(Exception):
            self._driver.unwatch()
        _in_use.discard(self._driver.held)
        if self._ours:
            with suppress(Exception):  # it may be closed already, and what the block did is decided
                await self._driver.close()
