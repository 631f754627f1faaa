"""Transactions with an Engine of SQLAlchemy: its sessions take messages."""

from __future__ import annotations

from types import TracebackType
from typing import Self, Unpack

from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session, sessionmaker

from gantrymq.errors import Closed, ConfigError
from gantrymq.message.message import Message
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.sqlalchemy import core, last_statement, still_open
from gantrymq.sql.sqlalchemy import sessions as sqlalchemy_sessions
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.sqlalchemy.running import ENLISTED, STRICT
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.settings import TransactionsSettings
from gantrymq.sql.transactions import Transactions


class SessionTransactions(Transactions["LocalTransaction"]):
    """The local transactions of sessions on an Engine; see ``Transactions``."""

    _database: SqlAlchemyDatabase

    def __init__(self, group: str, engine: Engine, **settings: Unpack[TransactionsSettings]) -> None:
        if not isinstance(engine, Engine):
            raise ConfigError(f"engine must be an Engine or AsyncEngine of SQLAlchemy, not {engine!r}")
        self._set_up(group, SqlAlchemyDatabase(engine), settings)
        self._sessions = sessionmaker(engine)
        last_statement.prepare_engine(engine)
        self.attach(self._sessions)

    def attach(self, sessions: sqlalchemy_sessions.Sessions | Engine, *, trust_outer: bool = False) -> None:
        """Let the sessions of your own session maker (or class), or the connections of an engine, take messages with
        ``send(session, message)`` and ``send(connection, message)``.

        They must be of the same database. An engine is attached before its connections begin transactions.
        ``trust_outer``: also take messages in a session that is bound to a connection, and send them at
        ``session.commit()``, whatever becomes of the connection's own transaction. That is for tests that roll back
        everything.
        """
        if isinstance(sessions, Engine):
            core.attach(sessions, self._enlist)
            return
        sqlalchemy_sessions.attach(sessions, self._enlist, trust_outer)
        still_open.watch(sqlalchemy_sessions.class_of(sessions), self._database.engine)

    def begin(self) -> LocalTransaction:
        """``with transactions.begin() as tx:`` is one local transaction, in a new session ``tx.session``."""
        self.start()  # before there is a session: SQLite has one writer at a time, and the start may write
        return LocalTransaction(self._sessions)


class LocalTransaction:
    """One local transaction: ``with transactions.begin() as tx``. Leaving the block commits, an error rolls back."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions
        self._session: Session | None = None
        self._enlistment: Enlistment | None = None

    @property
    def session(self) -> Session:
        """The session to work with. Its ``commit`` belongs to the block."""
        if self._session is None:
            raise Closed("this transaction is not running: use it in a `with` block, once")
        return self._session

    def send(self, *messages: Message) -> None:
        """Send these messages when the block commits; see ``gantrymq.sql.send``."""
        for message in messages:
            sqlalchemy_sessions.send(self.session, message)
        self._enlistment = self.session.info.get(ENLISTED)

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    def __enter__(self) -> Self:
        if self._session is not None:
            raise ConfigError("this transaction is running already; begin another one with transactions.begin()")
        self._session = self._sessions()
        self._session.info[STRICT] = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self.session, None
        try:
            if kind is None:
                self._commit(session)
        finally:
            session.close()

    def _commit(self, session: Session) -> None:
        try:
            session.commit()
        except Exception as error:
            session.close()  # which settles it
            self._enlistment = session.info.get(sqlalchemy_sessions.LAST)  # whoever sent it
            raised = error_after(error, self._enlistment)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
