"""The same as ``inbox`` on an event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, overload

from gantrymq.client.listener import is_async
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.inbox.base import Attempt, InboxBase, Listener, batches
from gantrymq.sql.inbox.effect import ATTEMPTS, Effect
from gantrymq.sql.inbox.sources import Source
from gantrymq.sql.rows.tables import InboxStatements, inbox_ddl
from gantrymq.sql.rules.creation import create
from gantrymq.sql.rules.runner import perform
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age, clean_inbox_by_age
from gantrymq.sql.upkeep.hourly import in_task

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
                again = await self._consume(function, batch, whole_batch)
                if again is not None:
                    return again
            if self._keep_rows is not None and self._hourly.is_due():
                in_task(functools.partial(self.clean, self._keep_rows))
            return ConsumeStatus.CONSUME_SUCCESS

        return listen

    async def _consume(self, function: Listener, batch: list[MessageView], whole_batch: bool) -> ReconsumeLater | None:
        for number in range(1, ATTEMPTS + 1):
            with Attempt(number) as attempt:
                async with self._transaction(batch) as tx:
                    if not tx.duplicate:
                        attempt.answered(await function(tx.messages if whole_batch else tx.message, tx))
            if attempt.done:
                return attempt.again
        raise AssertionError

    async def create_table(self) -> None:
        """Create the table unless it exists. For production, put ``gantry sql ddl`` into your migrations."""
        database: Any = self._source.database()
        await perform(create(inbox_ddl((await database.dialect()).kind, self._settings.table)), database.alone)

    async def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the rows of messages that were consumed more than this many seconds ago; see ``Inbox.clean``."""
        check_age(older_than)
        database: Any = self._source.database()
        statements = InboxStatements(await database.dialect(), self._settings.table)
        await perform(clean_inbox_by_age(statements, SystemClock().wall_ms(), older_than), database.alone)


class AsyncInboxTransaction(Effect):
    """``async with inbox.once(message) as tx:`` Leaving the block commits, an error rolls back."""

    async def __aenter__(self) -> Self:
        return await self._enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await self._exit(error)

    async def _open(self, local: Any) -> None:
        await local.__aenter__()

    async def _close(self, local: Any, error: BaseException | None) -> None:
        await local.__aexit__(None if error is None else type(error), error, None)

    async def _undo(self, local: Any, error: BaseException) -> None:
        await asyncio.shield(self._close(local, error))

    async def _insert(self, local: Any) -> set[str]:
        if hasattr(type(local), "session"):
            taken: set[str] = await local.session.run_sync(self._take_on_session)
            return taken
        return await perform(self._take(local._driver.dialect()), local._driver.execute)
