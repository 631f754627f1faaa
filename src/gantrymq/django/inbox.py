"""The inbox: the effect of a message in the project's database happens once, however often the message comes.

The effect and a row of the table ``gantrymq_inbox`` commit in one transaction. The row is inserted first. When it is
there already, another delivery of the same message has committed, and the effect is not repeated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar, overload

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from gantrymq.client.listener import is_async
from gantrymq.client.results import ConsumeStatus, ReconsumeLater
from gantrymq.django.django_database import VENDORS, execute
from gantrymq.errors import ConfigError
from gantrymq.message import properties
from gantrymq.message.message import MessageView
from gantrymq.message.system_topics import check_group
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.dialect import Dialect
from gantrymq.sql.failures import Failure, read_failure
from gantrymq.sql.tables import InboxStatements

F = TypeVar("F", bound=Callable[..., Any])
Key = Callable[[MessageView], str]
MAX_ID: Final = 255


def message_id(message: MessageView) -> str:
    """The id that stays the same when a message comes again."""
    if properties.UNIQ_KEY in message.properties:
        return message.message_id
    return message.properties.get(properties.ORIGIN_MESSAGE_ID, message.message_id)


class Inbox:
    """What one consumer group has consumed, in one database. Share it among all threads."""

    def __init__(self, group: str, *, using: str = DEFAULT_DB_ALIAS, key: Key = message_id) -> None:
        """``group``: the consumer group. ``key``: what makes two messages the same; by default their ids."""
        check_group(group)
        self.group: Final = group
        self.using: Final = using
        self._key = key

    @overload
    def once(self, work: MessageView) -> AbstractContextManager[bool]: ...
    @overload
    def once(self, work: F) -> F: ...
    def once(self, work: MessageView | Callable[..., Any]) -> Any:
        """``@inbox.once`` for a function of one message; ``with inbox.once(message) as first: if first: ...`` for a
        block.

        The decorated function runs in a transaction, and not at all for a message that was consumed before. It can be
        the listener of a consumer: it also takes a list of messages, each of which is a transaction of its own. An
        error rolls back, and so does an answer that asks for the message again (ReconsumeLater).
        """
        if isinstance(work, MessageView):
            return self._block(work)
        if not callable(work) or is_async(work):
            raise ConfigError(
                f"once takes a message, or a function that is no `async def`, not {work!r}: Django's transactions run "
                "in threads"
            )
        return self._decorated(work)

    def _decorated(self, work: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(work)
        def listener(*arguments: Any) -> Any:
            *before, given = arguments
            if isinstance(given, MessageView):
                return self._consume(functools.partial(work, *before), given)
            return self._consume_all(functools.partial(work, *before), given)

        return listener

    def _consume_all(self, work: Callable[[MessageView], Any], messages: Iterable[MessageView]) -> Any:
        for message in messages:
            answer = self._consume(work, message)
            if _comes_again(answer):
                return answer
        return None

    def _consume(self, work: Callable[[MessageView], Any], message: MessageView) -> Any:
        self._refresh()
        try:
            with transaction.atomic(using=self.using):
                if not self._take(message):
                    return None
                answer = work(message)
                if _comes_again(answer):
                    transaction.set_rollback(True, using=self.using)
                return answer
        finally:
            self._refresh()

    @contextmanager
    def _block(self, message: MessageView) -> Iterator[bool]:
        with transaction.atomic(using=self.using):
            yield self._take(message)

    def _take(self, message: MessageView) -> bool:
        """Insert the row of the message; False: it is there. Waits for a transaction that has just inserted it."""
        name = self._key(message)
        if not isinstance(name, str) or not 0 < len(name) <= MAX_ID:
            raise ConfigError(f"the key of a message must be a text of 1 to {MAX_ID} characters, not {name!r}")
        row = (self.group, name, SystemClock().wall_ms())
        connection = connections[self.using]
        try:
            rows = execute(connection, self._statements().insert, row)
        except Exception as error:
            if read_failure(error) is Failure.DUPLICATE:  # which ends no transaction, but on PostgreSQL
                return False
            raise
        return bool(rows) or connection.vendor != "postgresql"

    def _statements(self) -> InboxStatements:
        return InboxStatements(Dialect(VENDORS[connections[self.using].vendor], "format"))

    def _refresh(self) -> None:
        """What Django does between two requests: drop a connection that died or is too old (CONN_MAX_AGE)."""
        connection = connections[self.using]
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _comes_again(answer: object) -> bool:
    return isinstance(answer, ReconsumeLater) or answer is ConsumeStatus.RECONSUME_LATER
