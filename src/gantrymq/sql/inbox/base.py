"""What the inboxes for threads and for event loops share: the settings, and what ``once`` is given."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ClassVar, Self

from gantrymq.client.message_listener import read_answer
from gantrymq.client.results import ReconsumeLater
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.system_topics import check_group
from gantrymq.sql.inbox.effect import ATTEMPTS, ComeAgain, InboxSettings
from gantrymq.sql.inbox.rows import Key
from gantrymq.sql.inbox.sources import Source, source_of
from gantrymq.sql.rows.tables import INBOX, check_name
from gantrymq.sql.rules.failed_commit import may_run_again
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age
from gantrymq.sql.upkeep.hourly import Hourly

log = logging.getLogger("gantrymq.sql")
Listener = Callable[[Any, Any], Any]
"""Takes a message (or the messages of a batch) and ``tx``, and answers as every listener of a consumer."""


class InboxBase:
    """See ``Inbox``."""

    on_loop: ClassVar = False
    """A function that connects returns something to await."""

    def __init__(
        self,
        group: str,
        database: Any,
        *,
        key: Key | None = None,
        table: str = INBOX,
        keep_rows: float | None = KEPT_S,
    ) -> None:
        self._source = self._checked(source_of(database, on_loop=self.on_loop))
        check_group(group)
        if key is not None and not callable(key):
            raise ConfigError(f"key must be a function of a message that returns a text, not {key!r}")
        self._settings = InboxSettings(group, check_name(table), key)
        self._keep_rows = None if keep_rows is None else check_age(keep_rows)
        self._hourly = Hourly()

    def _checked(self, source: Source) -> Source:
        """Raises ConfigError for a database of the other kind."""
        raise NotImplementedError

    def _transaction(self, messages: Sequence[MessageView]) -> Any:
        """The effect of these messages."""
        raise NotImplementedError

    def _listening(self, function: Any, *, whole_batch: bool) -> Any:
        """A listener for PushConsumer."""
        raise NotImplementedError

    @property
    def group(self) -> str:
        """The consumer group whose messages have their effect once."""
        return self._settings.group

    def _once(self, what: Any, whole_batch: bool) -> Any:
        if isinstance(what, MessageView):
            return self._transaction([what])
        if what is None:
            return functools.partial(self._listening, whole_batch=whole_batch)
        return self._listening(what, whole_batch=whole_batch)


class Attempt:
    """One call of a listener with its transaction: ``with Attempt(number) as attempt``. Swallows what is no error for
    the consumer, and an error of the database after which the listener is called again."""

    def __init__(self, number: int) -> None:
        """``number``: from 1 on."""
        self._number = number
        self.done = False
        """The listener is not called again."""
        self.again: ReconsumeLater | None = None
        """The messages are wanted again."""

    def answered(self, answer: Any) -> None:
        """What the listener has returned. Raises ComeAgain, which rolls back."""
        self.again = read_answer(answer)
        if self.again is not None:
            raise ComeAgain

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or isinstance(error, ComeAgain):
            self.done = True
            return True
        if not isinstance(error, Exception) or self._number == ATTEMPTS or not may_run_again(error):
            return False
        log.info("a listener is called again, because the database could not serialize it: %s", error)
        return True


def batches(messages: Sequence[MessageView] | MessageView, whole_batch: bool) -> list[list[MessageView]]:
    """What is a transaction each."""
    given = [messages] if isinstance(messages, MessageView) else list(messages)
    return [given] if whole_batch and given else [[message] for message in given]
