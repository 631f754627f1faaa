"""Transactions with an AsyncEngine of SQLAlchemy: its sessions take messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, Unpack

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.util import greenlet_spawn

from gantrymq.client.listener import ListenerAnswer, TransactionListener
from gantrymq.errors import Closed, ConfigError
from gantrymq.message.message import Message, MessageView
from gantrymq.sql.async_transactions import AsyncTransactions
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.sqlalchemy import core, last_statement, still_open
from gantrymq.sql.sqlalchemy import sessions as sqlalchemy_sessions
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.sqlalchemy.running import ENLISTED, STRICT
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.local import Local, create_tables
from gantrymq.sql.transaction.settings import TransactionsSettings
from gantrymq.sql.transaction.waiters import GreenletWaiter


class AsyncOutcomeChecker(OutcomeChecker):
    """Asks the database in a greenlet on the event loop, where an AsyncEngine lives."""

    async def check_local_transaction(self, message: MessageView) -> ListenerAnswer:  # type: ignore[override]
        answer: ListenerAnswer = await greenlet_spawn(super().check_local_transaction, message)
        return answer


class AsyncSessionTransactions(AsyncTransactions["AsyncLocalTransaction"]):
    """The local transactions of sessions on an AsyncEngine; see ``AsyncTransactions``."""

    _local: Local

    def __init__(self, group: str, engine: AsyncEngine, **settings: Unpack[TransactionsSettings]) -> None:
        self._set_up(group, settings)
        self._database = SqlAlchemyDatabase(engine.sync_engine)
        self._sessions = async_sessionmaker(engine)
        last_statement.prepare_engine(engine.sync_engine)
        self.attach(self._sessions)

    async def create_table(self) -> None:
        await greenlet_spawn(create_tables, self._database, self._settings)

    async def _connect(self) -> TransactionListener:
        self._local = await greenlet_spawn(Local, self._database, self._settings)
        return AsyncOutcomeChecker(self._local.ask)

    def attach(self, sessions: sqlalchemy_sessions.Sessions | AsyncEngine, *, trust_outer: bool = False) -> None:
        """Let the sessions of your own ``async_sessionmaker``, or the connections of an AsyncEngine, take messages; see
        ``SessionTransactions.attach``. Attach it before it makes its first session or connection."""
        if isinstance(sessions, AsyncEngine):
            core.attach(sessions, self._enlist)
            return
        sqlalchemy_sessions.attach(sessions, self._enlist, trust_outer)
        still_open.watch(sqlalchemy_sessions.class_of(sessions), self._database.engine)

    def begin(self) -> AsyncLocalTransaction:
        """``async with transactions.begin() as tx:`` is one local transaction, in a new session ``tx.session``."""
        return AsyncLocalTransaction(self._sessions, self.start)

    def _enlist(self) -> Enlistment:
        producer = self._producer()  # before the database: it says what to do when nothing is started
        return self._local.enlist(producer, GreenletWaiter())


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
        self._enlistment = self.session.sync_session.info.get(ENLISTED)

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    async def __aenter__(self) -> Self:
        if self._session is not None:
            raise ConfigError("this transaction is running already; begin another one with transactions.begin()")
        await self._start()
        self._session = self._sessions()
        self._session.info[STRICT] = True
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
        except Exception as error:
            await session.close()  # which settles it
            self._enlistment = session.sync_session.info.get(sqlalchemy_sessions.LAST)  # whoever sent it
            raised = error_after(error, self._enlistment)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
