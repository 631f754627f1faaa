"""The same as ``inbox`` on an event loop."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, overload

from gantrymq.client.listener import is_async
from gantrymq.client.message_listener import read_answer
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.inbox.base import InboxBase, Listener, batches
from gantrymq.sql.inbox.effect import ATTEMPTS, ComeAgain, Effect, InboxSettings
from gantrymq.sql.inbox.sources import Source
from gantrymq.sql.rows.tables import InboxStatements, inbox_ddl
from gantrymq.sql.rules.creation import create
from gantrymq.sql.rules.failed_commit import may_run_again
from gantrymq.sql.transaction.async_enlistment import perform
from gantrymq.sql.upkeep import cleaning
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age
from gantrymq.sql.upkeep.hourly import in_task

log = logging.getLogger("gantrymq.sql")
AsyncListening = Callable[[Sequence[MessageView]], Awaitable[Any]]


class AsyncInbox(InboxBase):
    """What one consumer group has consumed, in one database, on one event loop. See ``Inbox``.

    ``database``: an AsyncEngine, an async_sessionmaker, a function whose result, awaited, is a new
    connection (psycopg, asyncpg, aiomysql), or AsyncTransactions. ``Inbox(group, async_engine)`` makes one, too.
    """

    on_loop = True

    def _checked(self, source: Source) -> Source:
        if not source.is_async:
            raise ConfigError("this database does not belong on an event loop: use Inbox")
        return source

    @overload
    def once(self, what: MessageView) -> AsyncInboxTransaction: ...

    @overload
    def once(self, what: Listener) -> AsyncListening: ...

    @overload
    def once(self, *, whole_batch: bool = False) -> Callable[[Listener], AsyncListening]: ...

    def once(self, what: Any = None, *, whole_batch: bool = False) -> Any:
        """``@inbox.once`` for a function ``async def ship(message, tx)``; ``async with inbox.once(message) as tx:`` for
        a block. Everything else is as in ``Inbox.once``."""
        return self._once(what, whole_batch)

    def _transaction(self, messages: Sequence[MessageView]) -> Any:
        return AsyncInboxTransaction(self._source, self._settings, messages)

    def _listening(self, function: Any, *, whole_batch: bool) -> Any:
        if not callable(function) or not is_async(function):
            raise ConfigError(f"once takes a message, or an `async def` function of (message, tx), not {function!r}")

        @functools.wraps(function)
        async def listen(messages: Sequence[MessageView] | MessageView) -> Any:
            for batch in batches(messages, whole_batch):
                again = await self._consume_async(function, batch, whole_batch)
                if again is not None:
                    return again
            if self._keep_rows is not None and self._hourly.is_due():
                in_task(functools.partial(self.clean, self._keep_rows))
            return ConsumeStatus.CONSUME_SUCCESS

        return listen

    async def _consume_async(
        self, function: Listener, batch: list[MessageView], whole_batch: bool
    ) -> ReconsumeLater | None:
        for attempt in range(1, ATTEMPTS + 1):
            again: ReconsumeLater | None = None
            try:
                async with self._transaction(batch) as tx:
                    if tx.duplicate:
                        return None
                    again = read_answer(await function(tx.messages if whole_batch else tx.message, tx))
                    if again is not None:
                        raise ComeAgain
            except ComeAgain:
                return again
            except Exception as error:
                if attempt == ATTEMPTS or not may_run_again(error):
                    raise
                log.info("a listener is called again, because the database could not serialize it: %s", error)
            else:
                return None
        raise AssertionError

    async def create_table(self) -> None:
        """Create the table unless it exists. For production, put ``gantry sql ddl`` into your migrations."""
        database: Any = self._source.database()
        await perform(create(inbox_ddl((await database.dialect()).kind, self._settings.table)), database.alone)

    async def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the rows of messages that were consumed more than this many seconds ago; see ``Inbox.clean``."""
        check_age(older_than)
        database: Any = self._source.database()
        dialect = await database.dialect()
        now_ms = await perform(cleaning.now_of(dialect.kind, SystemClock().wall_ms()), database.alone)
        statements = InboxStatements(dialect, self._settings.table)
        await perform(cleaning.clean_inbox(statements, now_ms - round(older_than * 1000)), database.alone)


class AsyncInboxTransaction(Effect):
    """``async with inbox.once(message) as tx:`` Leaving the block commits, an error rolls back."""

    def __init__(self, source: Source, settings: InboxSettings, messages: Sequence[MessageView]) -> None:
        super().__init__(settings, messages)
        self._source = source

    async def __aenter__(self) -> Self:
        self._begin_once()
        for attempt in range(1, ATTEMPTS + 1):
            local = self._source.begin()
            await local.__aenter__()
            try:
                taken = await self._insert(local)
            except BaseException as error:
                await asyncio.shield(local.__aexit__(type(error), error, error.__traceback__))
                raised = self._failed_to_take(error, attempt)
                if raised is error:
                    raise
                if raised is not None:
                    raise raised from error
            else:
                break
        if self._taken(taken):
            self._local = local
        else:
            await asyncio.shield(local.__aexit__(ComeAgain, ComeAgain(), None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        local, self._local = self._local, None
        if local is None:
            return self._swallows(error)
        if kind is None:
            try:
                self._check_same(local)
            except ConfigError as wrong:
                await asyncio.shield(local.__aexit__(type(wrong), wrong, None))
                raise
        await local.__aexit__(kind, error, trace)
        return False

    async def _insert(self, local: Any) -> set[str]:
        if hasattr(type(local), "session"):
            taken: set[str] = await local.session.run_sync(self._take_on_session)
            return taken
        return await perform(self._take(local._driver.dialect()), local._driver.execute)
