"""The inbox: the effect of a message in the project's database happens once, however often the message comes.

The effect and a row of the table ``gantrymq_inbox`` commit in one transaction. The row is inserted first, so a second
consumer of the same message waits for the first one. See ``gantrymq.sql.inbox.rows`` for what the row is.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, overload

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from gantrymq.client.listener import is_async
from gantrymq.client.message_listener import read_answer
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.django import upkeep
from gantrymq.django.connection_hooks import ConnectionHooks
from gantrymq.django.django_database import dialect_of_connection, execute
from gantrymq.django.watching import Watch
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.system_topics import check_group
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.inbox.rows import InboxRows, Key, row_id
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rows.tables import INBOX
from gantrymq.sql.rules.claim import ATTEMPTS, Rows
from gantrymq.sql.rules.failed_commit import may_run_again
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age
from gantrymq.sql.upkeep.hourly import Hourly, in_thread

log = logging.getLogger("gantrymq.django")
Answer = ConsumeStatus | ReconsumeLater
Listener = Callable[..., Any]


class Inbox:
    """What one consumer group has consumed, in one database of the project. Share it among all threads.

    ``key``: a function of a message that returns what makes two messages the same; by default that is the topic with
    the message's id. ``keep_rows``: seconds that rows are kept (7 days); once an hour, older ones are deleted in the
    background. None: for ever.
    """

    def __init__(
        self, group: str, *, using: str = DEFAULT_DB_ALIAS, key: Key | None = None, keep_rows: float | None = KEPT_S
    ) -> None:
        check_group(group)
        if key is not None and not callable(key):
            raise ConfigError(f"key must be a function of a message that returns a text, not {key!r}")
        self.group: Final = group
        self.using: Final = using
        self._key = key
        self._keep_rows = None if keep_rows is None else check_age(keep_rows)
        self._hourly = Hourly()

    @overload
    def once(self, what: MessageView) -> AbstractContextManager[bool]: ...
    @overload
    def once(self, what: Listener) -> Callable[..., Answer]: ...
    @overload
    def once(self, *, whole_batch: bool = False) -> Callable[[Listener], Callable[..., Answer]]: ...
    def once(self, what: Any = None, *, whole_batch: bool = False) -> Any:
        """``@inbox.once`` for a function ``def ship(message)``, which becomes a listener of PushConsumer;
        ``with inbox.once(message) as first: if first: ...`` for a block.

        The function runs in ``transaction.atomic()``, and not at all for a message that was consumed before. An error
        rolls back, and the message comes again. So does an answer that wants it again (RECONSUME_LATER,
        ReconsumeLater). Each message of a batch is a transaction of its own, and the first one that fails ends the
        batch. With ``@inbox.once(whole_batch=True)`` the function gets a list of messages, those that were not consumed
        before, and all of them are one transaction. A function whose transaction the database could not serialize is
        called again.
        """
        if isinstance(what, MessageView):
            return self._block(what)
        if what is None:
            return functools.partial(self._listening, whole_batch=whole_batch)
        return self._listening(what, whole_batch)

    @contextmanager
    def _block(self, message: MessageView) -> Iterator[bool]:
        with transaction.atomic(using=self.using):
            yield bool(self._take([message]))
            self._verify()

    def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the rows of messages that were consumed more than this many seconds ago, 2 days at least."""
        upkeep.clean_inbox(self.using, INBOX, check_age(older_than))

    def _listening(self, function: Listener, whole_batch: bool) -> Callable[..., Answer]:
        if not callable(function) or is_async(function):
            raise ConfigError(
                f"once takes a message, or a function that is no `async def`, not {function!r}: Django's transactions "
                "run in threads"
            )

        @functools.wraps(function)
        def listen(*arguments: Any) -> Answer:
            *before, given = arguments  # a method has its object in front
            messages = [given] if isinstance(given, MessageView) else list(given)
            for batch in [messages] if whole_batch and messages else [[message] for message in messages]:
                again = self._consume(functools.partial(function, *before), batch, whole_batch)
                if again is not None:
                    return again
            if self._keep_rows is not None and self._hourly.is_due():
                in_thread(functools.partial(self.clean, self._keep_rows))
            return ConsumeStatus.CONSUME_SUCCESS

        return listen

    def _consume(self, function: Listener, batch: list[MessageView], whole_batch: bool) -> ReconsumeLater | None:
        self._refresh()
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return self._once(function, batch, whole_batch)
                except Exception as error:
                    if attempt == ATTEMPTS or not may_run_again(error) or connections[self.using].in_atomic_block:
                        raise
                    log.info("a listener is called again, because the database could not serialize it: %s", error)
        finally:
            self._refresh()
        raise AssertionError

    def _once(self, function: Listener, batch: list[MessageView], whole_batch: bool) -> ReconsumeLater | None:
        with transaction.atomic(using=self.using):
            left = self._take(batch)
            if not left:
                return None
            again = read_answer(function(left if whole_batch else left[0]))
            if again is not None:
                transaction.set_rollback(True, using=self.using)
            else:
                self._verify()
            return again

    def _verify(self) -> None:
        """The row and the effect are in one transaction. With messages, the commit looks for it."""
        connection = connections[self.using]
        if len(connection.atomic_blocks) == 1 and ConnectionHooks.of(connection) is None:
            Watch.of(connection).verify()

    def _take(self, messages: Sequence[MessageView]) -> list[MessageView]:
        """Insert the rows of these messages; returns those that were not there, each id once."""
        connection = connections[self.using]
        ids: dict[str, MessageView] = {}
        for message in messages:
            ids.setdefault(row_id(message, self._key), message)
        rows = InboxRows(dialect_of_connection(connection), self.group)

        def insert(statement: Statement) -> Rows:
            try:
                return execute(connection, *statement)
            except Exception as error:
                understood = self._understood(error)
                if understood is error:
                    raise
                raise understood from error

        taken = performed(rows.take(list(ids), SystemClock().wall_ms()), insert)
        return [message for one, message in ids.items() if one in taken]

    def _understood(self, error: Exception) -> Exception:
        if read_failure(error) is not Failure.NO_TABLE:
            return error
        return ConfigError(
            f"the database {self.using!r} has no table {INBOX}: run `manage.py migrate gantrymq --database "
            f"{self.using}`"
        )

    def _refresh(self) -> None:
        """What Django does between two requests: drop a connection that died or is too old (CONN_MAX_AGE)."""
        connection = connections[self.using]
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
