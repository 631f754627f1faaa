"""One local transaction in a session of SQLAlchemy, and which sessions and engines take messages."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from gantrymq.errors import Closed, ConfigError
from gantrymq.message.message import Message
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.sqlalchemy import core, last_statement, still_open
from gantrymq.sql.sqlalchemy import sessions as sqlalchemy_sessions
from gantrymq.sql.sqlalchemy.running import ENLISTED, STRICT
from gantrymq.sql.transaction.enlistment import Enlistment

S = TypeVar("S", Session, AsyncSession)


def session_maker(engine: Engine) -> sessionmaker[Session]:
    """What makes the sessions of blocks. They are still to be attached."""
    last_statement.prepare_engine(engine)
    return sessionmaker(engine)


def attach(
    sessions: sqlalchemy_sessions.Sessions | Engine | AsyncEngine, enlist: core.Enlist, engine: Engine,
    trust_outer: bool, kind: type[Engine | AsyncEngine] = Engine,
) -> None:  # fmt: skip
    """See ``SessionTransactions.attach``. ``engine``: that of the Transactions object; ``kind``: which engines may be
    attached."""
    if isinstance(sessions, Engine | AsyncEngine):
        if not isinstance(sessions, kind):
            raise ConfigError(f"attach takes an {kind.__name__} here, or what makes sessions, not {sessions!r}")
        core.attach(sessions, enlist)
        return
    sqlalchemy_sessions.attach(sessions, enlist, trust_outer)
    still_open.watch(sqlalchemy_sessions.class_of(sessions), engine)


class SessionBlock(Generic[S]):
    """What LocalTransaction and AsyncLocalTransaction share."""

    _with = "a `with`"

    def __init__(self, sessions: Any) -> None:
        self._sessions = sessions
        self._session: S | None = None
        self._enlistment: Enlistment | None = None

    @property
    def session(self) -> S:
        """The session to work with. Its ``commit`` belongs to the block."""
        if self._session is None:
            raise Closed(f"this transaction is not running: use it in {self._with} block, once")
        return self._session

    def send(self, *messages: Message, order_key: str | None = None) -> None:
        """Send these messages when the block commits; see ``gantrymq.sql.send``."""
        for message in messages:
            sqlalchemy_sessions.send(self.session, message, order_key)
        self._enlistment = self.session.info.get(ENLISTED)

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    def _check_new(self) -> None:
        if self._session is not None:
            raise ConfigError("this transaction is running already; begin another one with transactions.begin()")

    def _begin(self) -> None:
        self._session = self._sessions()
        self._session.info[STRICT] = True

    def _end(self) -> S:
        session, self._session = self.session, None
        return session

    def _raised(self, error: Exception, session: S) -> BaseException | None:
        """What to raise for the error of a commit, once the session is closed, which settles it. None: it is
        committed."""
        self._enlistment = session.info.get(sqlalchemy_sessions.LAST)  # whoever sent it
        return error_after(error, self._enlistment)


class LocalTransaction(SessionBlock[Session]):
    """One local transaction: ``with transactions.begin() as tx``. Leaving the block commits, an error rolls back."""

    def __enter__(self) -> Self:
        self._check_new()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session = self._end()
        try:
            if kind is None:
                self._commit(session)
        finally:
            session.close()

    def _commit(self, session: Session) -> None:
        try:
            session.commit()
        except Exception as error:
            session.close()
            raised = self._raised(error, session)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
