"""The same as ``transactions`` on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from gantrymq.client.listener import TransactionListener
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import Closed, ConfigError
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.rng import Rng, SystemRng
from gantrymq.sql.connections.async_drivers import AsyncConnectionDatabase
from gantrymq.sql.connections.async_transactions import AsyncConnectionTransaction
from gantrymq.sql.rules.failed_commit import pause_before_next
from gantrymq.sql.rules.steps import Away
from gantrymq.sql.transaction.checker import AsyncOutcomeChecker
from gantrymq.sql.transaction.enlistment import AsyncEnlistment, Enlistment
from gantrymq.sql.transaction.greenlet_database import for_loop
from gantrymq.sql.transaction.keywords import TransactionsSettings
from gantrymq.sql.transaction.local import AsyncLocal, Local
from gantrymq.sql.transaction.own_loop import OwnLoop
from gantrymq.sql.transaction.relay import STOP_S, Relay
from gantrymq.sql.transaction.settings import read_settings
from gantrymq.sql.transaction.waiters import GreenletWaiter
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age, clean_by_age
from gantrymq.sql.upkeep.hourly import EVERY_S, clean_for_ever
from gantrymq.sql.upkeep.open_halves import oldest_open

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from gantrymq.sql.sqlalchemy.async_transactions import AsyncLocalTransaction
    from gantrymq.sql.sqlalchemy.sessions import Sessions

T = TypeVar("T")
A = TypeVar("A", bound=AbstractAsyncContextManager[Any])
"""A local transaction: of a session, or of a connection."""


def is_of_sqlalchemy(engine: object) -> bool:
    return type(engine).__module__.partition(".")[0] == "sqlalchemy"


def is_async_engine(engine: object) -> bool:
    """Of what is of SQLAlchemy."""
    return type(engine).__name__ == "AsyncEngine"


class AsyncTransactions(Generic[A]):
    """The local transactions of one producer group in one database, on one event loop.

    ``Transactions(group, async_engine, ...)`` makes one, too. Start it with ``async with`` (or ``await start()``) where
    your application starts; ``begin`` starts it otherwise. For the keyword arguments see ``Transactions``.
    """

    @overload
    def __new__(
        cls, group: str, engine: AsyncEngine, **settings: Unpack[TransactionsSettings]
    ) -> AsyncSessionTransactions: ...

    @overload
    def __new__(
        cls, group: str, engine: Callable[[], Awaitable[Any]], **settings: Unpack[TransactionsSettings]
    ) -> AsyncConnectionTransactions: ...

    def __new__(cls, group: str, engine: Any, **settings: Any) -> Any:
        """For an AsyncEngine of SQLAlchemy, or a function whose result, awaited, is a new connection."""
        if cls is not AsyncTransactions:
            return super().__new__(cls)
        if callable(engine):  # also a plain function, which returns a coroutine
            return super().__new__(AsyncConnectionTransactions)
        if is_of_sqlalchemy(engine) and is_async_engine(engine):
            return super().__new__(AsyncSessionTransactions)
        raise ConfigError("AsyncTransactions takes an AsyncEngine; with an Engine, use Transactions")

    _local: Any
    """The database, once it is known: Local or AsyncLocal."""
    _database: Any

    def _set_up(self, group: str, settings: Mapping[str, Any]) -> None:
        self._settings, self._producer_settings = read_settings(group, settings)
        self._lock = asyncio.Lock()
        self._running: TransactionProducer | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._relay: Relay | None = None
        self._own: OwnLoop | None = None
        """The loop of the first start."""
        self._closed = False
        self._clock: Clock = SystemClock()
        self._rng: Rng = SystemRng()

    # Life.

    async def start(self) -> None:
        """Connect to the database and to the brokers. May be called again. Raises ConfigError without the table, and
        on another event loop than the first time."""
        if self._own is None:
            self._own = OwnLoop()
        self._own.check()
        async with self._lock:
            if self._closed:
                raise Closed("these Transactions are closed; create new ones")
            if self._running is None:
                producer = TransactionProducer(
                    self._settings.group, name_servers=self._settings.name_servers, listener=await self._connect(),
                    **self._producer_settings,
                )  # fmt: skip
                await producer.start()
                self._running = producer
                if self._local.rows:
                    rarely = self._settings.away is Away.REFUSE
                    self._relay = Relay(self._local, for_loop(self._database), producer, rarely=rarely)
                    self._relay.start()
                keep = self._settings.keep_rows
                if keep is not None:
                    self._upkeep = asyncio.get_running_loop().create_task(
                        clean_for_ever(lambda: self._clean(keep, every=EVERY_S))
                    )

    async def _connect(self) -> TransactionListener:
        """Ask the database what must be known of it; returns what answers check-backs."""
        raise NotImplementedError

    async def close(self) -> None:
        """Wait for running transactions, and disconnect from the brokers. The engine stays open."""
        if self._own is not None:
            self._own.check()
        async with self._lock:
            self._closed = True
            if self._upkeep is not None:
                self._upkeep.cancel()
                await asyncio.gather(self._upkeep, return_exceptions=True)
            if self._relay is not None:
                await self._relay.stop(STOP_S)
            if self._running is not None:
                await self._running.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_table(self) -> None:
        """Create our tables unless they exist. For production, put ``gantry sql ddl`` into your migrations."""
        raise NotImplementedError

    async def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the outcome rows of transactions that are older than this many seconds; see ``Transactions.clean``."""
        await self.start()
        await self._clean(check_age(older_than, self._settings.longest_transaction))

    async def _clean(self, older_than: float, every: float = 0.0) -> None:
        local, asked = self._local, (self._settings.name_servers, self._producer_settings)
        await clean_by_age(
            local.outcomes, for_loop(self._database).alone, local.clock.wall_ms(), older_than, every,
            lambda: oldest_open(*asked, local.identity),
        )  # fmt: skip

    # Ways in.

    def begin(self) -> A:
        """``async with transactions.begin() as tx:`` is one local transaction."""
        raise NotImplementedError

    async def run(self, work: Callable[[A], Awaitable[T]], attempts: int = 5) -> T:
        """``await work(tx)`` in a local transaction, and again when the database could not serialize it; see
        ``Transactions.run``."""
        for attempt in range(1, attempts + 1):
            try:
                async with self.begin() as tx:
                    return await work(tx)
            except Exception as error:
                pause_s = pause_before_next(error, attempt, attempts, self._rng.random())
                if pause_s is None:
                    raise
            await self._clock.sleep(pause_s)
        raise ConfigError(f"attempts must be 1 or more, not {attempts!r}")

    def _producer(self) -> TransactionProducer:
        if self._running is None:
            raise Closed("these Transactions are not started: use `async with transactions:` where the program starts")
        assert self._own is not None
        self._own.check()
        return self._running


class AsyncSessionTransactions(AsyncTransactions["AsyncLocalTransaction"]):
    """The local transactions of sessions on an AsyncEngine; see ``AsyncTransactions``."""

    _local: Local

    def __init__(self, group: str, engine: AsyncEngine, **settings: Unpack[TransactionsSettings]) -> None:
        from gantrymq.sql.sqlalchemy.async_transactions import session_maker
        from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase

        self._set_up(group, settings)
        self._database = SqlAlchemyDatabase(engine.sync_engine)
        self._sessions = session_maker(engine)
        self.attach(self._sessions)

    async def create_table(self) -> None:
        from gantrymq.sql.sqlalchemy.async_transactions import create_tables

        await create_tables(self._database, self._settings)

    async def _connect(self) -> TransactionListener:
        from gantrymq.sql.sqlalchemy.async_transactions import opened

        self._local, checker = await opened(self._database, self._settings)
        return checker

    def attach(self, sessions: Sessions | AsyncEngine, *, trust_outer: bool = False) -> None:
        """Let the sessions of your own ``async_sessionmaker``, or the connections of an AsyncEngine, take messages; see
        ``SessionTransactions.attach``. Attach it before it makes its first session or connection."""
        from sqlalchemy.ext.asyncio import AsyncEngine

        from gantrymq.sql.sqlalchemy.transactions import attach

        attach(sessions, self._enlist, self._database.engine, trust_outer, AsyncEngine)

    def begin(self) -> AsyncLocalTransaction:
        """``async with transactions.begin() as tx:`` is one local transaction, in a new session ``tx.session``."""
        from gantrymq.sql.sqlalchemy.async_transactions import AsyncLocalTransaction

        return AsyncLocalTransaction(self._sessions, self.start)

    def _enlist(self) -> Enlistment:
        producer = self._producer()  # before the database: it says what to do when nothing is started
        return Enlistment(self._local, producer, GreenletWaiter(), self._relay)


class AsyncConnectionTransactions(AsyncTransactions[AsyncConnectionTransaction]):
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
        return AsyncEnlistment(self._local, producer, self._relay)
