"""The inbox: the effect of a message in the consumer's own database happens exactly once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
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
from gantrymq.sql.inbox.sources import Source, source_of
from gantrymq.sql.rows.tables import InboxStatements, inbox_ddl
from gantrymq.sql.rules.creation import created
from gantrymq.sql.rules.failed_commit import may_run_again
from gantrymq.sql.upkeep import cleaning
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age
from gantrymq.sql.upkeep.hourly import in_thread

log = logging.getLogger("gantrymq.sql")
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
        for attempt in range(1, ATTEMPTS + 1):
            again: ReconsumeLater | None = None
            try:
                with self._transaction(batch) as tx:
                    if tx.duplicate:
                        return None
                    again = read_answer(function(tx.messages if whole_batch else tx.message, tx))
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

    # The table.

    def create_table(self) -> None:
        """Create the table unless it exists. For production, put ``gantry sql ddl`` into your migrations."""
        database: Any = self._source.database()
        created(inbox_ddl(database.dialect().kind, self._settings.table), database.alone)

    def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the rows of messages that were consumed more than this many seconds ago, 2 days at least. Keep them
        for longer than a message may come again; see docs/inbox.md."""
        check_age(older_than)
        database: Any = self._source.database()
        dialect = database.dialect()
        now_ms = cleaning.performed(cleaning.now_of(dialect.kind, SystemClock().wall_ms()), database.alone)
        statements = InboxStatements(dialect, self._settings.table)
        cleaning.performed(cleaning.clean_inbox(statements, now_ms - round(older_than * 1000)), database.alone)


class InboxTransaction(Effect):
    """``with inbox.once(message) as tx:`` Leaving the block commits, an error rolls back."""

    def __init__(self, source: Source, settings: InboxSettings, messages: Sequence[MessageView]) -> None:
        super().__init__(settings, messages)
        self._source = source

    def __enter__(self) -> Self:
        self._begin_once()
        for attempt in range(1, ATTEMPTS + 1):
            local = self._source.begin()
            local.__enter__()
            try:
                taken = self._insert(local)
            except BaseException as error:
                local.__exit__(type(error), error, error.__traceback__)
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
            local.__exit__(ComeAgain, ComeAgain(), None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        local, self._local = self._local, None
        if local is None:
            return self._swallows(error)
        if kind is None:
            try:
                self._check_same(local)
            except ConfigError as wrong:
                local.__exit__(type(wrong), wrong, None)
                raise
        local.__exit__(kind, error, trace)
        return False

    def _insert(self, local: Any) -> set[str]:
        if hasattr(type(local), "session"):
            return self._take_on_session(local.session)
        driver = local._driver
        return cleaning.performed(self._take(driver.dialect()), driver.execute)
