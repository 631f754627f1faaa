"""One effect of a consumer: a transaction of its database with the rows of the messages in it.

The rows are inserted first. So of two consumers that get a message at the same time, the second one waits for the first
one's transaction, and its effect does not begin when that commits.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from gantrymq.errors import Closed, ConfigError
from gantrymq.message.message import Message, MessageView
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql.inbox.rows import InboxRows, Key, row_id, unusable
from gantrymq.sql.inbox.sources import Source
from gantrymq.sql.rows.dialect import Dialect, dialect_in_sqlalchemy
from gantrymq.sql.rows.failures import Failure, read_failure
from gantrymq.sql.rules.claim import Rows
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.rules.runner import performed
from gantrymq.sql.transaction.guard import GUARD

ATTEMPTS: Final = 3
"""How often rows are inserted, or a listener is called, when the database could not serialize it."""


class AlreadyConsumed(BaseException):
    """Leaves a block whose message was consumed before. ``inbox.once`` catches it; no ``except Exception`` does."""

    def __init__(self, effect: Effect) -> None:
        self.effect = effect
        super().__init__("the message was consumed before; this ends its `with inbox.once(...)` block")


class ComeAgain(Exception):
    """Rolls back an effect whose listener wants its messages again."""


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """What an inbox and its effects share."""

    group: str
    table: str
    key: Key | None


class Effect:
    """What ``tx`` is in a listener of ``inbox.once``, and in a ``with`` block of it."""

    def __init__(self, source: Source, settings: InboxSettings, messages: Sequence[MessageView]) -> None:
        self._source = source
        self._settings = settings
        self._ids = {id(message): row_id(message, settings.key) for message in messages}
        self._messages = list(messages)
        self._local: Any = None
        self._root: Any = None
        """The transaction of the session that has the rows."""
        self.duplicate = False
        """The message was consumed before: the effect is in the database already."""

    @property
    def messages(self) -> list[MessageView]:
        """Those whose effect is not in the database yet."""
        return self._messages

    @property
    def message(self) -> MessageView:
        """The message, of an effect of one."""
        return self._messages[0]

    @property
    def session(self) -> Any:
        """The session to work with. Its ``commit`` belongs to the block."""
        return self._of_local("session", "session; use tx.connection")

    @property
    def connection(self) -> Any:
        """The connection to work with, of an inbox with a function that connects. Its ``commit`` belongs to the
        block."""
        return self._of_local("connection", "connection; use tx.session")

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Execute a statement in this transaction: a statement of SQLAlchemy, or one of the driver as text."""
        local = self._running()
        if hasattr(local, "session"):
            return local.session.execute(statement, parameters)
        return local.execute(statement, parameters)

    def send(self, *messages: Message, order_key: str | None = None) -> None:
        """Send these messages when the effect commits, and never when it does not. The inbox needs a Transactions
        object for that. ``order_key``: see ``gantrymq.sql.send``."""
        self._running().send(*messages, order_key=order_key)

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message that is sent."""
        found: str | None = self._running().transaction_id
        return found

    def _of_local(self, name: str, otherwise: str) -> Any:
        local = self._running()
        if not hasattr(type(local), name):
            raise ConfigError(f"the transactions of this inbox have no {otherwise}")
        return getattr(local, name)

    def _running(self) -> Any:
        if self.duplicate:
            raise AlreadyConsumed(self)
        if self._local is None:
            raise Closed(
                "this transaction is not running: use `with inbox.once(message) as tx:`, once for each message"
            )
        return self._local

    # Steps, for a thread and for an event loop.

    async def _open(self, local: Any) -> None:
        """Begin the transaction."""
        raise NotImplementedError

    async def _insert(self, local: Any) -> set[str]:
        """Insert the rows in it; the ids of those that were not there."""
        raise NotImplementedError

    async def _close(self, local: Any, error: BaseException | None) -> None:
        """Commit, or roll back for an error."""
        raise NotImplementedError

    async def _undo(self, local: Any, error: BaseException) -> None:
        """Roll back, also when the block is cancelled meanwhile."""
        raise NotImplementedError

    async def _enter(self) -> Self:
        if self._local is not None or self.duplicate:
            raise ConfigError("this transaction was used already; call inbox.once(message) again")
        for attempt in range(1, ATTEMPTS + 1):
            local = self._source.begin()
            await self._open(local)
            try:
                taken = await self._insert(local)
            except BaseException as error:
                await self._undo(local, error)
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
            await self._undo(local, ComeAgain())
        return self

    async def _exit(self, error: BaseException | None) -> bool:
        local, self._local = self._local, None
        if local is None:
            return self._swallows(error)
        if error is None:
            try:
                self._check_same(local)
            except ConfigError as wrong:
                await self._undo(local, wrong)
                raise
        await self._close(local, error)
        return False

    def _take(self, dialect: Dialect) -> Generator[Statement, Rows, set[str]]:
        rows = InboxRows(dialect, self._settings.group, self._settings.table)
        return rows.take(list(self._ids.values()), SystemClock().wall_ms())

    def _taken(self, ids: set[str]) -> bool:
        """Keep the messages whose rows were inserted, each id once; whether there are any."""
        kept: list[MessageView] = []
        for message in self._messages:
            if (one := self._ids[id(message)]) in ids:
                ids.remove(one)
                kept.append(message)
        self._messages = kept or self._messages
        self.duplicate = not kept
        return bool(kept)

    def _failed_to_take(self, error: BaseException, attempt: int) -> BaseException | None:
        """What to raise; None: try again with a new transaction."""
        if not isinstance(error, Exception):
            return error
        if read_failure(error) is Failure.CONFLICT and attempt < ATTEMPTS:
            return None
        return unusable(error, self._settings.table)

    def _check_same(self, local: Any) -> None:
        """Raises when the block has ended the transaction that has the rows: its later statements are in another.
        Connections know that themselves."""
        if self._root is not None and _session_of(local).get_transaction() is not self._root:
            raise ConfigError(
                "the block has called commit() or rollback() of its session. What came behind that is rolled back. "
                "Leave both to the block; to undo a part of it, use session.begin_nested()"
            )

    def _swallows(self, error: BaseException | None) -> bool:
        """Whether the block ended because its message was consumed before. In a task group: all of its errors."""
        if isinstance(error, BaseExceptionGroup):
            return error.split(lambda one: self._is_ours(one))[1] is None
        return error is not None and self._is_ours(error)

    def _is_ours(self, error: BaseException) -> bool:
        return isinstance(error, AlreadyConsumed) and error.effect is self

    def _take_on_session(self, session: Any) -> set[str]:
        """Insert the rows. ``session``: the blocking one; of an AsyncSession, in a greenlet."""
        if not session.in_transaction():
            session.begin()
        connection = session.connection()
        self._root = session.get_transaction()
        dialect = dialect_in_sqlalchemy(connection.dialect)

        def execute(statement: Statement) -> Rows:
            result = connection.exec_driver_sql(*statement)
            return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()

        taken = performed(self._take(dialect), execute)
        guard = session.info.get(GUARD)
        if guard is not None:
            guard.needed = True  # the rows and the effect are one transaction: its commit proves it
        return taken


def _session_of(local: Any) -> Any:
    session = local.session
    return getattr(session, "sync_session", session)
