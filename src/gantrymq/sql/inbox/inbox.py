"""The inbox: the effect of a message in the consumer's own database happens exactly once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, overload

from gantrymq.client.listener import is_async
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.inbox.base import Attempt, InboxBase, Listener, batches
from gantrymq.sql.inbox.effect import ATTEMPTS, Effect
from gantrymq.sql.inbox.sources import Source, source_of
from gantrymq.sql.rows.tables import InboxStatements, inbox_ddl
from gantrymq.sql.rules.creation import create
from gantrymq.sql.rules.runner import performed, run_blocking
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age, clean_inbox_by_age
from gantrymq.sql.upkeep.hourly import in_thread

Listening = Callable[[Sequence[MessageView]], Any]
"""A listener for PushConsumer."""


class Inbox(InboxBase):
    """What one consumer group has consumed, in one database. Share one object among all threads.

    The effect of a message and a row with its id commit in one transaction of your database. A message whose row is
    there is skipped, however often it comes.

    ``group``: the consumer group. ``database``: an Engine, a sessionmaker, a function that returns a new connection, or
    a Transactions object, whose messages then commit together with the effect. ``key``: a function of a message that
    returns what makes two messages the same, as ``lambda message: message.keys[0]``; by default that is the topic with
    the message's id. ``table``: the name of the table, perhaps with a schema. ``keep_rows``: seconds that rows are kept
    (7 days); once an hour, older ones are deleted in the background. None: for ever.
    """

    def __new__(cls, group: str, database: Any, **settings: Any) -> Any:
        """An AsyncInbox for what belongs on an event loop."""
        if cls is Inbox and source_of(database, on_loop=False).is_async:
            from gantrymq.sql.inbox.async_inbox import AsyncInbox

            return AsyncInbox(group, database, **settings)
        return super().__new__(cls)

    def _checked(self, source: Source) -> Source:
        if source.is_async:
            raise ConfigError("this database belongs on an event loop: use AsyncInbox")
        return source

    @overload
    def once(self, what: MessageView) -> InboxTransaction: ...

    @overload
    def once(self, what: Listener) -> Listening: ...

    @overload
    def once(self, *, whole_batch: bool = False) -> Callable[[Listener], Listening]: ...

    def once(self, what: Any = None, *, whole_batch: bool = False) -> Any:
        """``@inbox.once`` for a function ``def ship(message, tx)``, which becomes a listener of PushConsumer;
        ``with inbox.once(message) as tx:`` for a block.

        An error rolls back, and the message comes again. So does an answer that wants it again (RECONSUME_LATER,
        ReconsumeLater). The function is not called for a message that was consumed before. Each message of a batch is a
        transaction of its own; the first one that fails ends the batch, so that an order is kept, and those behind it
        come again, too. With ``@inbox.once(whole_batch=True)`` the function gets a list of messages, those that were
        not consumed before, and all of them are one transaction. A function whose transaction the database could not
        serialize is called again.

        In a block, everything goes by ``tx``: for a message that was consumed before, the first use of ``tx`` leaves
        the block, without an error. What is not done by ``tx`` (an e-mail) stands behind ``if not tx.duplicate``.
        """
        return self._once(what, whole_batch)

    def _transaction(self, messages: Sequence[MessageView]) -> InboxTransaction:
        return InboxTransaction(self._source, self._settings, messages)

    def _listening(self, function: Any, *, whole_batch: bool) -> Listening:
        if not callable(function) or is_async(function):
            raise ConfigError(
                f"once takes a message, or a function of (message, tx) that is no `async def`, not {function!r}; for "
                "`async def`, give the inbox an AsyncEngine or AsyncTransactions"
            )

        @functools.wraps(function)
        def listen(messages: Sequence[MessageView] | MessageView) -> Any:
            for batch in batches(messages, whole_batch):
                again = self._consume(function, batch, whole_batch)
                if again is not None:
                    return again
            if self._keep_rows is not None and self._hourly.is_due():
                in_thread(functools.partial(self.clean, self._keep_rows))
            return ConsumeStatus.CONSUME_SUCCESS

        return listen

    def _consume(self, function: Listener, batch: list[MessageView], whole_batch: bool) -> ReconsumeLater | None:
        for number in range(1, ATTEMPTS + 1):
            with Attempt(number) as attempt, self._transaction(batch) as tx:
                if not tx.duplicate:
                    attempt.answered(function(tx.messages if whole_batch else tx.message, tx))
            if attempt.done:
                return attempt.again
        raise AssertionError

    # The table.

    def create_table(self) -> None:
        """Create the table unless it exists. For production, put ``gantry sql ddl`` into your migrations."""
        database: Any = self._source.database()
        performed(create(inbox_ddl(database.dialect().kind, self._settings.table)), database.alone)

    def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the rows of messages that were consumed more than this many seconds ago, 2 days at least. Keep them
        for longer than a message may come again; see docs/inbox.md."""
        check_age(older_than)
        database: Any = self._source.database()
        statements = InboxStatements(database.dialect(), self._settings.table)
        performed(clean_inbox_by_age(statements, SystemClock().wall_ms(), older_than), database.alone)


class InboxTransaction(Effect):
    """``with inbox.once(message) as tx:`` Leaving the block commits, an error rolls back."""

    def __enter__(self) -> Self:
        return run_blocking(self._enter)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return run_blocking(self._exit, error)

    async def _open(self, local: Any) -> None:
        local.__enter__()

    async def _close(self, local: Any, error: BaseException | None) -> None:
        local.__exit__(None if error is None else type(error), error, None)

    async def _undo(self, local: Any, error: BaseException) -> None:
        await self._close(local, error)

    async def _insert(self, local: Any) -> set[str]:
        if hasattr(type(local), "session"):
            return self._take_on_session(local.session)
        return performed(self._take(local._driver.dialect()), local._driver.execute)
