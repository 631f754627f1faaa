"""The same as ``transactions`` on an event loop, with an AsyncEngine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar, Unpack

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.util import greenlet_spawn

from gantrymq.client.config import TransactionProducerSettings
from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import Closed, ConfigError, GantryError, OutcomeUnknown, TransactionClaimed
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.sql import sqlalchemy_sessions
from gantrymq.sql.checker import OutcomeChecker
from gantrymq.sql.enlistment import Enlistment
from gantrymq.sql.failures import Failure, read_failure
from gantrymq.sql.local import Local, Settings, create_tables
from gantrymq.sql.sqlalchemy_database import SqlAlchemyDatabase
from gantrymq.sql.tables import INBOX, OUTCOMES
from gantrymq.sql.waiters import GreenletWaiter

log = logging.getLogger("gantrymq.sql")
T = TypeVar("T")


class AsyncOutcomeChecker(OutcomeChecker):
    """Asks the database in a greenlet on the event loop, where an AsyncEngine lives."""

    async def check_local_transaction(self, message: MessageView) -> ListenerAnswer:  # type: ignore[override]
        answer: ListenerAnswer = await greenlet_spawn(super().check_local_transaction, message)
        return answer


class AsyncTransactions:
    """The local transactions of one producer group in one database, on one event loop.

    ``Transactions(group, async_engine, ...)`` makes one, too. Start it with ``async with`` (or ``await start()``) where
    your application starts; ``begin`` starts it otherwise.
    """

    def __init__(
        self,
        group: str,
        engine: AsyncEngine,
        *,
        name_servers: str | Iterable[str],
        longest_transaction: float = 60.0,
        claim_timeout: float = 2.0,
        table: str = OUTCOMES,
        inbox_table: str = INBOX,
        **settings: Unpack[TransactionProducerSettings],
    ) -> None:
        """See ``Transactions``."""
        self._settings = Settings(
            group=group, name_servers=name_servers, longest_transaction=longest_transaction,
            claim_timeout=claim_timeout, table=table, inbox_table=inbox_table,
        )  # fmt: skip
        self._producer_settings = settings
        self._database = SqlAlchemyDatabase(engine.sync_engine)
        self._lock = asyncio.Lock()
        self._running: tuple[Local, TransactionProducer] | None = None
        self._closed = False
        self._sessions = async_sessionmaker(engine)
        self.attach(self._sessions)

    # Life.

    async def start(self) -> None:
        """Connect to the database and to the brokers. May be called again. Raises ConfigError without the table."""
        async with self._lock:
            if self._closed:
                raise Closed("these Transactions are closed; create new ones")
            if self._running is None:
                local: Local = await greenlet_spawn(Local, self._database, self._settings)
                producer = TransactionProducer(
                    self._settings.group, name_servers=self._settings.name_servers,
                    listener=AsyncOutcomeChecker(local.ask), **self._producer_settings,
                )  # fmt: skip
                await producer.start()
                self._running = local, producer

    async def close(self) -> None:
        """Wait for running transactions, and disconnect from the brokers. The engine stays open."""
        async with self._lock:
            self._closed = True
            if self._running is not None:
                await self._running[1].close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def create_table(self) -> None:
        """Create both tables unless they exist. For production, put ``gantry sql ddl`` into your migrations."""
        await greenlet_spawn(create_tables, self._database, self._settings)

    # Ways in.

    def attach(self, sessions: sqlalchemy_sessions.Sessions, *, trust_outer: bool = False) -> None:
        """Let the sessions of your own ``async_sessionmaker`` take messages; see ``Transactions.attach``. Attach it
        before it makes its first session."""
        sqlalchemy_sessions.attach(sessions, self._enlist, trust_outer)

    def begin(self) -> AsyncLocalTransaction:
        """``async with transactions.begin() as tx:`` is one local transaction, in a new session ``tx.session``."""
        return AsyncLocalTransaction(self._sessions, self.start)

    async def run(self, work: Callable[[AsyncLocalTransaction], Awaitable[T]], attempts: int = 5) -> T:
        """``await work(tx)`` in a local transaction, and again when the database could not serialize it; see
        ``Transactions.run``."""
        for attempt in range(1, attempts + 1):
            try:
                async with self.begin() as tx:
                    return await work(tx)
            except Exception as error:
                again = isinstance(error, TransactionClaimed) or read_failure(error) is Failure.CONFLICT
                if not again or attempt == attempts:
                    raise
                await SystemClock().sleep(SystemRng().random() * 0.01 * 2**attempt)
        raise ConfigError(f"attempts must be 1 or more, not {attempts!r}")

    def _enlist(self) -> Enlistment:
        if self._running is None:
            raise Closed("these Transactions are not started: use `async with transactions:` where the program starts")
        local, producer = self._running
        return local.enlist(producer, GreenletWaiter())


class AsyncLocalTransaction:
    """One local transaction: ``async with transactions.begin() as tx``. Leaving the block commits, an error rolls
    back."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession], start: Callable[[], Awaitable[None]]) -> None:
        self._sessions = sessions
        self._start = start
        self._session: AsyncSession | None = None
        self._enlistment: Enlistment | None = None

    @property
    def session(self) -> AsyncSession:
        """The session to work with. Its ``commit`` belongs to the block."""
        if self._session is None:
            raise Closed("this transaction is not running: use it in an `async with` block, once")
        return self._session

    def send(self, *messages: Message) -> None:
        """Send these messages when the block commits; see ``gantrymq.sql.send``."""
        for message in messages:
            sqlalchemy_sessions.send(self.session, message)
        self._enlistment = self.session.sync_session.info.get(sqlalchemy_sessions.ENLISTED)

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise ConfigError("this transaction is running already; begin another one with transactions.begin()")
        await self._start()
        self._session = self._sessions()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self.session, None
        try:
            if kind is None:
                await self._commit(session)
        finally:
            await asyncio.shield(session.close())

    async def _commit(self, session: AsyncSession) -> None:
        try:
            await session.commit()
        except GantryError:
            raise
        except Exception as error:
            await session.close()  # which settles it
            answer = None if self._enlistment is None else self._enlistment.answer
            if answer is None or answer.state is LocalTransactionState.ROLLBACK:
                raise
            if answer.state is LocalTransactionState.COMMIT:
                log.warning("transaction %s is committed, although the database raised %r", self.transaction_id, error)
                return
            raise OutcomeUnknown(self.transaction_id or "", answer.reason or "") from error
