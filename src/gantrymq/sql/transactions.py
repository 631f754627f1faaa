"""Local transactions in the user's database, with messages that appear if and only if they commit."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session, sessionmaker

from gantrymq.client import sync
from gantrymq.client.config import TransactionProducerSettings
from gantrymq.errors import Closed, ConfigError, GantryError, OutcomeUnknown, TransactionClaimed
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.sql import sqlalchemy_sessions
from gantrymq.sql.checker import OutcomeChecker
from gantrymq.sql.database import Database
from gantrymq.sql.enlistment import Enlistment
from gantrymq.sql.failures import Failure, read_failure
from gantrymq.sql.local import Local, Settings, create_tables
from gantrymq.sql.sqlalchemy_database import SqlAlchemyDatabase
from gantrymq.sql.tables import INBOX, OUTCOMES
from gantrymq.sql.waiters import ThreadWaiter

log = logging.getLogger("gantrymq.sql")
T = TypeVar("T")


class Transactions:
    """The local transactions of one producer group in one database. Share one object among all threads.

    It starts with the first transaction; ``start`` (or a ``with`` block) starts it at once, and then this process also
    answers for others of its group that died.
    """

    def __new__(cls, group: str, engine: Any, **settings: Any) -> Any:
        """An AsyncTransactions for an AsyncEngine."""
        if type(engine).__name__ == "AsyncEngine":  # its module is imported by those who have one
            from gantrymq.sql.async_transactions import AsyncTransactions

            return AsyncTransactions(group, engine, **settings)
        if not isinstance(engine, Engine):
            raise ConfigError(f"engine must be an Engine or AsyncEngine of SQLAlchemy, not {engine!r}")
        return super().__new__(cls)

    def __init__(
        self,
        group: str,
        engine: Engine,
        *,
        name_servers: str | Iterable[str],
        longest_transaction: float = 60.0,
        claim_timeout: float = 2.0,
        table: str = OUTCOMES,
        inbox_table: str = INBOX,
        **settings: Unpack[TransactionProducerSettings],
    ) -> None:
        """``longest_transaction``: seconds that a local transaction may take while its process lives. After that, a
        check-back rolls it back. ``claim_timeout``: seconds that a check-back waits for a row that a running local
        transaction holds; then it answers UNKNOWN, and the broker asks again. ``settings``: fields of
        TransactionProducerConfig."""
        self._settings = Settings(
            group=group, name_servers=name_servers, longest_transaction=longest_transaction,
            claim_timeout=claim_timeout, table=table, inbox_table=inbox_table,
        )  # fmt: skip
        self._producer_settings = settings
        self._database: Database = SqlAlchemyDatabase(engine)
        self._lock = threading.Lock()
        self._running: tuple[Local, sync.TransactionProducer, int] | None = None
        """With the id of the process that it belongs to."""
        self._closed = False
        self._sessions = sessionmaker(engine)
        self.attach(self._sessions)

    # Life.

    def start(self) -> None:
        """Connect to the database and to the brokers. May be called again; a forked child starts anew by itself.

        Raises ConfigError when the outcome table is missing.
        """
        self._started()

    def _started(self) -> tuple[Local, sync.TransactionProducer, int]:
        running = self._running
        if running is None or running[2] != os.getpid():
            with self._lock:
                if self._closed:
                    raise Closed("these Transactions are closed; create new ones")
                running = self._running
                if running is None or running[2] != os.getpid():
                    running = self._running = self._start()
        return running

    def _start(self) -> tuple[Local, sync.TransactionProducer, int]:
        local = Local(self._database, self._settings)
        producer = sync.TransactionProducer(
            self._settings.group, name_servers=self._settings.name_servers, listener=OutcomeChecker(local.ask),
            **self._producer_settings,
        )  # fmt: skip
        producer.start()
        return local, producer, os.getpid()

    def close(self) -> None:
        """Wait for running transactions, and disconnect from the brokers. The engine stays open."""
        with self._lock:
            self._closed = True
            if self._running is not None and self._running[2] == os.getpid():
                self._running[1].close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_table(self) -> None:
        """Create both tables unless they exist. For production, put ``gantry sql ddl`` into your migrations."""
        create_tables(self._database, self._settings)

    # Ways in.

    def attach(self, sessions: sqlalchemy_sessions.Sessions, *, trust_outer: bool = False) -> None:
        """Let the sessions of your own session maker (or class) take messages with ``send(session, message)``.

        They must be bound to the same database. ``trust_outer``: also take messages in a session that is bound to a
        connection, and send them at ``session.commit()``, whatever becomes of the connection's own transaction. That is
        for tests that roll back everything.
        """
        sqlalchemy_sessions.attach(sessions, self._enlist, trust_outer)

    def begin(self) -> LocalTransaction:
        """``with transactions.begin() as tx:`` is one local transaction, in a new session ``tx.session``."""
        self.start()  # before there is a session: SQLite has one writer at a time, and the start may write
        return LocalTransaction(self._sessions)

    def run(self, work: Callable[[LocalTransaction], T], attempts: int = 5) -> T:
        """Call ``work(tx)`` in a local transaction, and again in a new one when the database could not serialize it.

        The messages of an attempt that failed are rolled back. Raises what the last attempt raised.
        """
        for attempt in range(1, attempts + 1):
            try:
                with self.begin() as tx:
                    return work(tx)
            except Exception as error:
                again = isinstance(error, TransactionClaimed) or read_failure(error) is Failure.CONFLICT
                if not again or attempt == attempts:
                    raise
                SystemClock().block(SystemRng().random() * 0.01 * 2**attempt)
        raise ConfigError(f"attempts must be 1 or more, not {attempts!r}")

    def _enlist(self) -> Enlistment:
        local, producer, _ = self._started()
        return local.enlist(producer._client, ThreadWaiter(producer._door))


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
        self._enlistment = self.session.info.get(sqlalchemy_sessions.ENLISTED)

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    def __enter__(self) -> Self:
        if self._session is not None:
            raise ConfigError("this transaction is running already; begin another one with transactions.begin()")
        self._session = self._sessions()
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
        except GantryError:
            raise
        except Exception as error:
            session.close()  # which settles it
            answer = None if self._enlistment is None else self._enlistment.answer
            if answer is None or answer.state is LocalTransactionState.ROLLBACK:
                raise
            if answer.state is LocalTransactionState.COMMIT:
                log.warning("transaction %s is committed, although the database raised %r", self.transaction_id, error)
                return
            raise OutcomeUnknown(self.transaction_id or "", answer.reason or "") from error
