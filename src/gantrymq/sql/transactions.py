"""Local transactions in the user's database, with messages that appear if and only if they commit.

| ``Transactions(group, ...)`` with  | makes                       | whose blocks are of               |
|------------------------------------|-----------------------------|-----------------------------------|
| an Engine of SQLAlchemy            | SessionTransactions         | ``sqlalchemy.transactions``       |
| an AsyncEngine of SQLAlchemy       | AsyncSessionTransactions    | ``sqlalchemy.async_transactions`` |
| a function that connects           | ConnectionTransactions      | ``connections.transactions``      |
| a coroutine function that connects | AsyncConnectionTransactions | ``connections.async_transactions``|

Those for threads are here, and those for event loops in ``async_transactions``. SQLAlchemy is imported for engines
only.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from gantrymq.client import sync
from gantrymq.errors import Closed, ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.sql.async_transactions import (
    AsyncConnectionTransactions,
    AsyncSessionTransactions,
    is_async_engine,
    is_of_sqlalchemy,
)
from gantrymq.sql.connections.database import ConnectionDatabase
from gantrymq.sql.connections.transactions import ConnectionTransaction
from gantrymq.sql.rules.failed_commit import pause_before_next
from gantrymq.sql.rules.runner import blocking, run_blocking
from gantrymq.sql.transaction.checker import OutcomeChecker
from gantrymq.sql.transaction.database import Database
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.keywords import TransactionsSettings
from gantrymq.sql.transaction.local import Local, create_tables
from gantrymq.sql.transaction.settings import read_settings
from gantrymq.sql.transaction.thread_relay import ThreadRelay
from gantrymq.sql.transaction.waiters import ThreadWaiter
from gantrymq.sql.upkeep.cleaning import KEPT_S, check_age, clean_by_age
from gantrymq.sql.upkeep.hourly import EVERY_S, Upkeep
from gantrymq.sql.upkeep.open_halves import oldest_open

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
    from gantrymq.sql.sqlalchemy.sessions import Sessions
    from gantrymq.sql.sqlalchemy.transactions import LocalTransaction

T = TypeVar("T")
L = TypeVar("L", bound=AbstractContextManager[Any])
"""A local transaction: of a session, or of a connection."""


class Transactions(Generic[L]):
    """The local transactions of one producer group in one database. Share one object among all threads.

    It starts with the first transaction; ``start`` (or a ``with`` block) starts it at once, and then this process also
    answers for others of its group that died. Keyword arguments:

    ``name_servers``: as for every client. ``longest_transaction``: seconds that a local transaction may take while its
    process lives. After that, a check-back rolls it back. ``claim_timeout``: seconds that a check-back waits for a row
    that a running local transaction holds; then it answers UNKNOWN, and the broker asks again. ``keep_rows``: seconds
    that outcome rows are kept, 7 days unless you say otherwise; once an hour, older ones are deleted in the background;
    None: never. ``wait_for_brokers=False``: a commit returns when the database has committed, and the brokers are told
    in the background, which is faster. A broker that had decided otherwise (an operator can do that) is then found in
    the log, and is not raised. ``close`` waits for what is on its way; what a process that ends without it leaves
    behind is settled by another process of the group. ``when_broker_is_away``: ``"refuse"`` raises when no broker
    stores the messages; ``"row"`` waits for ``row_after_ms`` and then puts them into a table of the database, in the
    same transaction; ``"always"`` does that without asking. They are sent when a broker is back; ``row_limit`` says how
    many may wait (docs/sql.md). ``table``, ``inbox_table``, ``outbox_table``: names of the tables, perhaps with a
    schema. All others: fields of TransactionProducerConfig.
    """

    @overload
    def __new__(cls, group: str, engine: Engine, **settings: Unpack[TransactionsSettings]) -> SessionTransactions: ...

    @overload
    def __new__(
        cls, group: str, engine: Callable[[], Any], **settings: Unpack[TransactionsSettings]
    ) -> ConnectionTransactions: ...

    @overload
    def __new__(cls, group: str, engine: Any, **settings: Any) -> Any: ...

    def __new__(cls, group: str, engine: Any, **settings: Any) -> Any:
        """An object of the class for this ``engine``; see the table of this module."""
        if cls is not Transactions:
            return super().__new__(cls)
        if is_of_sqlalchemy(engine):
            if is_async_engine(engine):
                return AsyncSessionTransactions(group, engine, **settings)
            return super().__new__(SessionTransactions)
        if inspect.iscoroutinefunction(engine):
            return AsyncConnectionTransactions(group, engine, **settings)
        if callable(engine):
            return super().__new__(ConnectionTransactions)  # whose __init__ is called next
        raise ConfigError(
            "Transactions takes an Engine or AsyncEngine of SQLAlchemy, or a function that returns a new connection "
            f"(`lambda: psycopg.connect(...)`), not {type(engine).__name__}"
        )

    def _set_up(self, group: str, database: Database, settings: Mapping[str, Any]) -> None:
        self._settings, self._producer_settings = read_settings(group, settings)
        self._database = database
        self._lock = threading.Lock()
        self._running: tuple[Local, sync.TransactionProducer, int] | None = None
        """With the id of the process that it belongs to."""
        self._relaying: ThreadRelay | None = None
        self._upkeep: Upkeep | None = None
        self._closed = False

    # Life.

    def start(self) -> None:
        """Connect to the database and to the brokers. May be called again; a forked child starts anew by itself.

        Raises ConfigError when the outcome table is missing.
        """
        self._started()

    def _started(self) -> tuple[Local, sync.TransactionProducer, int]:
        if self._closed:  # before the lock, which ``close`` holds while it waits for transactions
            raise Closed("these Transactions are closed; create new ones")
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
        self._relaying = ThreadRelay(local, producer) if local.rows else None
        keep = self._settings.keep_rows
        if keep is not None:
            self._upkeep = Upkeep(lambda: self._clean(local, producer, keep, every=EVERY_S))
        return local, producer, os.getpid()

    def close(self) -> None:
        """Wait for running transactions, and disconnect from the brokers. The engine stays open."""
        with self._lock:
            self._closed = True
            if self._running is not None and self._running[2] == os.getpid():
                if self._upkeep is not None:
                    self._upkeep.stop()
                if self._relaying is not None:
                    self._relaying.stop()
                self._running[1].close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create_table(self) -> None:
        """Create our tables unless they exist. For production, put ``gantry sql ddl`` into your migrations."""
        create_tables(self._database, self._settings)

    def clean(self, older_than: float = KEPT_S) -> None:
        """Delete the outcome rows of transactions that are older than this many seconds, 2 days at least.

        That also happens by itself, see ``keep_rows``. Rows stay when a half message of their transaction is open, as
        far as brokers can be asked. A half message whose row is gone is never committed or rolled back by a check-back.
        """
        local, producer, _ = self._started()
        self._clean(local, producer, check_age(older_than, self._settings.longest_transaction))

    def _clean(self, local: Local, producer: sync.TransactionProducer, older_than: float, every: float = 0.0) -> None:
        asked = (self._settings.name_servers, self._producer_settings, local.identity)
        run_blocking(
            clean_by_age, local.outcomes, blocking(local.database.alone), local.clock.wall_ms(), older_than, every,
            blocking(lambda: producer._open_portal().call(oldest_open, *asked)),
        )  # fmt: skip

    # Ways in.

    def begin(self) -> L:
        """``with transactions.begin() as tx:`` is one local transaction."""
        raise NotImplementedError

    def run(self, work: Callable[[L], T], attempts: int = 5) -> T:
        """Call ``work(tx)`` in a local transaction, and again in a new one when the database could not serialize it.

        The messages of an attempt that failed are rolled back. Raises what the last attempt raised.
        """
        for attempt in range(1, attempts + 1):
            try:
                with self.begin() as tx:
                    return work(tx)
            except Exception as error:
                pause_s = pause_before_next(error, attempt, attempts, SystemRng().random())
                if pause_s is None:
                    raise
            SystemClock().block(pause_s)
        raise ConfigError(f"attempts must be 1 or more, not {attempts!r}")

    def _enlist(self) -> Enlistment:
        local, producer, _ = self._started()
        relay = None if self._relaying is None else self._relaying.relay
        return Enlistment(local, producer._client, ThreadWaiter(producer._open_portal), relay)


class SessionTransactions(Transactions["LocalTransaction"]):
    """The local transactions of sessions on an Engine; see ``Transactions``."""

    _database: SqlAlchemyDatabase

    def __init__(self, group: str, engine: Engine, **settings: Unpack[TransactionsSettings]) -> None:
        from gantrymq.sql.sqlalchemy.database import database_of
        from gantrymq.sql.sqlalchemy.transactions import session_maker

        self._set_up(group, database_of(engine), settings)
        self._sessions = session_maker(engine)
        self.attach(self._sessions)

    def attach(self, sessions: Sessions | Engine, *, trust_outer: bool = False) -> None:
        """Let the sessions of your own session maker (or class), or the connections of an engine, take messages with
        ``send(session, message)`` and ``send(connection, message)``.

        They must be of the same database. An engine is attached before its connections begin transactions.
        ``trust_outer``: also take messages in a session that is bound to a connection, and send them at
        ``session.commit()``, whatever becomes of the connection's own transaction. That is for tests that roll back
        everything.
        """
        from gantrymq.sql.sqlalchemy.transactions import attach

        attach(sessions, self._enlist, self._database.engine, trust_outer)

    def begin(self) -> LocalTransaction:
        """``with transactions.begin() as tx:`` is one local transaction, in a new session ``tx.session``."""
        from gantrymq.sql.sqlalchemy.transactions import LocalTransaction

        self.start()  # before there is a session: SQLite has one writer at a time, and the start may write
        return LocalTransaction(self._sessions)


class ConnectionTransactions(Transactions[ConnectionTransaction]):
    """The local transactions of connections that a function makes; see ``Transactions``."""

    _database: ConnectionDatabase

    def __init__(self, group: str, connect: Callable[[], Any], **settings: Unpack[TransactionsSettings]) -> None:
        """``connect``: returns a new connection each time, which is closed here: ``lambda: psycopg.connect(...)``."""
        self._set_up(group, ConnectionDatabase(connect), settings)
        self._database.wait_ms = round(self._settings.claim_timeout * 1000)

    def begin(self) -> ConnectionTransaction:
        """``with transactions.begin() as tx:`` is one local transaction, on a new connection ``tx.connection``."""
        self.start()
        return ConnectionTransaction(self._enlist, self._database.connect_checked, ours=True)

    def on(self, connection: Any) -> ConnectionTransaction:
        """``with transactions.on(connection) as tx:`` is one local transaction on your own connection (a pool's).

        The block commits or rolls back the transaction of that connection, with what ran in it before, and leaves the
        connection open. One in autocommit gets a transaction for the block. It must be of the same database.
        """
        self.start()
        return ConnectionTransaction(self._enlist, lambda: connection, ours=False)
