"""The rows of the inbox: which one stands for a message, and how they are inserted. Pure.

Which id of a message is stable:

| it comes again because                           | UNIQ_KEY | ORIGIN_MESSAGE_ID | offset message id |
|--------------------------------------------------|----------|-------------------|-------------------|
| the group's progress was lost or reset, or its   | the same | the same          | the same          |
| queues went to another member                    |          |                   |                   |
| it was sent back, and comes from the retry topic | the same | of the first copy | another           |
| its producer sent it twice, because it got no    | the same | none              | another           |
| answer; or it is of a transaction, and a broker  |          |                   |                   |
| delivered it twice                               |          |                   |                   |

So the id is UNIQ_KEY, which all official clients write; for a message without one it is the ORIGIN_MESSAGE_ID, or for
the first copy what that will be: its offset message id. The topic is part of it, because Java's clients keep the
UNIQ_KEY of a message object that is sent again to another topic on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from gantrymq.errors import ConfigError
from gantrymq.message import properties
from gantrymq.message.message import MessageView
from gantrymq.message.system_topics import RETRY_PREFIX
from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rows.tables import INBOX, InboxStatements
from gantrymq.sql.rules.claim import Rows
from gantrymq.sql.rules.outcomes import Statement

MAX_LENGTH: Final = 255
Key = Callable[[MessageView], str]


def message_key(message: MessageView) -> str:
    """The id of a message that is the same whenever it comes; see above."""
    given = message.properties.get(properties.UNIQ_KEY) or message.properties.get(properties.ORIGIN_MESSAGE_ID)
    topic = message.topic
    if topic.startswith(RETRY_PREFIX):  # PushConsumer shows the topic of the first copy; others do not
        topic = message.properties.get(properties.RETRY_TOPIC, topic)
    return f"{topic} {given or message.message_id}"


def row_id(message: MessageView, key: Key | None) -> str:
    """What the column message_id holds. Raises ConfigError for a business key that is none."""
    if key is None:
        return _fitting(message_key(message))
    chosen = key(message)
    if not isinstance(chosen, str) or not chosen:
        raise ConfigError(
            f"the key of message {message.message_id} must be a text that is not empty, not {chosen!r}; change "
            "the function key=... of the inbox"
        )
    return _fitting(chosen)


def _fitting(text: str) -> str:
    """Long ones are hashed; and those that end with a space, which MySQL takes for the same as without it."""
    if len(text) <= MAX_LENGTH and not text[-1].isspace() and "\0" not in text:
        return text
    return f"sha256 {hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"


class InboxRows:
    """The rows of one consumer group in one database."""

    def __init__(self, dialect: Dialect, group: str, table: str = INBOX) -> None:
        self.statements: Final = InboxStatements(dialect, table)
        self._answers = dialect.kind.facts.refuses_after_error
        self._group = group

    def take(self, ids: Sequence[str], now_ms: int) -> Generator[Statement, Rows, set[str]]:
        """Insert a row for each id; returns those that were not there.

        Waits for a transaction elsewhere that has inserted one of them. Sorted, so that two consumers with the same
        batch do not wait for each other.
        """
        taken: set[str] = set()
        for one in sorted(set(ids)):
            statement: tuple[str, tuple[Any, ...]] = (self.statements.take, (self._group, one, now_ms))
            try:
                rows = yield statement
            except Exception as error:
                if read_failure(error) is not Failure.DUPLICATE:
                    raise
                continue
            if rows or not self._answers:
                taken.add(one)
        return taken


def unusable(error: Exception, table: str) -> Exception:
    """The error for an inbox that cannot be written."""
    if read_failure(error) is Failure.NO_TABLE:
        return ConfigError(
            f"the database has no table {table}: call inbox.create_table() once, or put the statements of "
            "`gantry sql ddl --dialect ...` into your migrations"
        )
    return error
