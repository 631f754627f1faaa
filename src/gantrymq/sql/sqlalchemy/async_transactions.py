"""One local transaction in an AsyncSession of SQLAlchemy, and its database, which is asked in greenlets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.util import greenlet_spawn

from gantrymq.client.listener import ListenerAnswer, TransactionListener
from gantrymq.message.message import MessageView
from gantrymq.sql.sqlalchemy import last_statement
from gantrymq.sql.sqlalchemy.transactions import SessionBlock
from gantrymq.sql.transaction import local
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.database import Database
from gantrymq.sql.transaction.settings import TransactionsConfig


class GreenletChecker(OutcomeChecker):
    """Asks the database in a greenlet on the event loop, where an AsyncEngine lives."""

    async def check_local_transaction(self, message: MessageView) -> ListenerAnswer:  # type: ignore[override]
        answer: ListenerAnswer = await greenlet_spawn(super().check_local_transaction, message)
        return answer


def session_maker(engine: AsyncEngine) -> async_sessionmaker[AsyncSession]:
    """What makes the sessions of blocks. They are still to be attached."""
    last_statement.prepare_engine(engine.sync_engine)
    return async_sessionmaker(engine)


async def create_tables(database: Database, settings: TransactionsConfig) -> None:
    await greenlet_spawn(local.create_tables, database, settings)


async def opened(database: Database, settings: TransactionsConfig) -> tuple[local.Local, TransactionListener]:
    """What is known of the database, and who answers check-backs from it. Raises ConfigError without the table."""
    found: local.Local = await greenlet_spawn(local.Local, database, settings)
    return found, GreenletChecker(found.ask)


class AsyncLocalTransaction(SessionBlock[AsyncSession]):
    """One local transaction: ``async with transactions.begin() as tx``. Leaving the block commits, an error rolls
    back."""

    _with = "an `async with`"

    def __init__(self, sessions: async_sessionmaker[Any], start: Callable[[], Awaitable[None]]) -> None:
        super().__init__(sessions)
        self._start = start

    async def __aenter__(self) -> Self:
        self._check_new()
        await self._start()
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._end()
        try:
            if kind is None:
                await self._commit(session)
        finally:
            await asyncio.shield(session.close())

    async def _commit(self, session: AsyncSession) -> None:
        try:
            await session.commit()
        except Exception as error:
            await session.close()
            raised = self._raised(error, session)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
