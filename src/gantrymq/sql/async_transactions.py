"""The same as ``transactions`` on an event loop: what the two kinds of AsyncTransactions share."""

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
from gantrymq.sql.rules.failed_commit import may_run_again
from gantrymq.sql.transaction.async_enlistment import perform
from gantrymq.sql.transaction.greenlet_database import for_loop
from gantrymq.sql.transaction.own_loop import OwnLoop
from gantrymq.sql.transaction.settings import TransactionsSettings, read_settings
from gantrymq.sql.transactions import ASYNC_CONNECT, kind_at, kind_for
from gantrymq.sql.upkeep import cleaning
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age
from gantrymq.sql.upkeep.hourly import EVERY_S, clean_for_ever
from gantrymq.sql.upkeep.open_halves import oldest_open

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from gantrymq.sql.connections.async_transactions import AsyncConnectionTransactions
    from gantrymq.sql.sqlalchemy.async_transactions import AsyncSessionTransactions

T = TypeVar("T")
A = TypeVar("A", bound=AbstractAsyncContextManager[Any])
"""The kind of local transaction: of a session, or of a connection."""


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
            return super().__new__(kind_at(*ASYNC_CONNECT))
        kind = kind_for(engine)
        if isinstance(kind, type) and issubclass(kind, AsyncTransactions):
            return super().__new__(kind)
        raise ConfigError("AsyncTransactions takes an AsyncEngine; with an Engine, use Transactions")

    _local: Any
    """The database, once it is known: Local or AsyncLocal."""
    _database: Any

    def _set_up(self, group: str, settings: Mapping[str, Any]) -> None:
        self._settings, self._producer_settings = read_settings(group, settings)
        self._lock = asyncio.Lock()
        self._running: TransactionProducer | None = None
        self._upkeep: asyncio.Task[None] | None = None
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
        """Create both tables unless they exist. For production, put ``gantry sql ddl`` into your migrations."""
        raise NotImplementedError

    async def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the outcome rows of transactions that are older than this many seconds; see ``Transactions.clean``."""
        await self.start()
        await self._clean(check_age(older_than, self._settings.longest_transaction))

    async def _clean(self, older_than: float, every: float = 0.0) -> None:
        local, alone = self._local, for_loop(self._database).alone
        horizon_ms = await perform(cleaning.horizon_of(local.outcomes, local.clock.wall_ms(), older_than, every), alone)
        if horizon_ms is not None:
            oldest = await oldest_open(self._settings.name_servers, self._producer_settings, local.identity)
            await perform(cleaning.clean_outcomes(local.outcomes, cleaning.horizon_id(horizon_ms, oldest)), alone)

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
                if not may_run_again(error) or attempt == attempts:
                    raise
                await self._clock.sleep(self._rng.random() * 0.01 * 2**attempt)
        raise ConfigError(f"attempts must be 1 or more, not {attempts!r}")

    def _producer(self) -> TransactionProducer:
        if self._running is None:
            raise Closed("these Transactions are not started: use `async with transactions:` where the program starts")
        assert self._own is not None
        self._own.check()
        return self._running
