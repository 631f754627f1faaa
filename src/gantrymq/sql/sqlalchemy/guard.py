"""Makes sure that a transaction of SQLAlchemy is one, and stays the one that it was until the commit.

| when                     | what happens                                                                    |
|--------------------------|---------------------------------------------------------------------------------|
| after_begin of a session | the mark of ``proof`` is placed, before the first statement. A connection in    |
|                          | autocommit is refused. Where the engine is attached, ``core`` has done it, and  |
|                          | the session takes that guard over                                               |
| before a statement       | refused when the database has rolled everything back before. SAVEPOINT, RELEASE |
|                          | and ROLLBACK TO are noted, also those of ``connection.begin_nested()``          |
| behind a statement       | noted when it has committed what was before it                                  |
| an error of a statement  | noted when it says that the database has rolled everything back                 |
| ``do_commit``, when      | the mark is looked for, as the last thing before the commit; on PostgreSQL the  |
| there are messages       | insert of the outcome row has done it                                           |
| ``do_commit`` without    | refused while the session has messages: they would be dropped                   |
| ``session.commit()``     |                                                                                 |
| ``do_rollback``, when    | the mark is looked for: without it, a part of what is rolled back here was      |
| there are messages       | committed before                                                                |

Sources: SQLAlchemy, SessionEvents, ConnectionEvents, Dialect.do_commit, Dialect.detect_autocommit_setting.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet, ref

from sqlalchemy import event
from sqlalchemy.engine import Connection, Dialect, Engine, ExceptionContext
from sqlalchemy.orm import Session, SessionTransaction
from sqlalchemy.pool import PoolProxiedConnection

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql.rows import dialect as gantrymq_dialect
from gantrymq.sql.rows.dialect import Kind
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import BENEATH
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.guard import GUARD
from gantrymq.sql.transaction.guard import Guard as TransactionGuard

ENLISTED: Final = "gantrymq.enlisted"
"""In ``session.info``: the Enlistment of the running transaction."""
COMMITTING: Final = "gantrymq.committing"
"""In ``session.info`` between before_commit and the end of the transaction."""
STRICT: Final = "gantrymq.strict"
"""In ``session.info``: a block of ours has this session, so a connection in autocommit is refused at once."""
WATCHED: Final = "_gantrymq_watched"
"""On a class of sessions."""
POSTPONED: Final[WeakKeyDictionary[PoolProxiedConnection, Enlistment]] = WeakKeyDictionary()
"""By the same as ``_of_connections``: whose outcome row the next commit inserts, see ``last_statement``."""
_of_connections: Final[WeakKeyDictionary[PoolProxiedConnection, Guard]] = WeakKeyDictionary()
"""By what a pool gives out: it is another object each time, also for the same connection of the driver."""
_engines: Final[WeakSet[Engine]] = WeakSet()
_dialects: Final[WeakSet[Dialect]] = WeakSet()
AUTOCOMMIT: Final = (
    "this connection is in autocommit: each statement commits by itself, so rows and messages cannot commit together. "
    "Take AUTOCOMMIT out of the engine's isolation_level, of execution_options, and of connect_args"
)
AUTOCOMMIT_LATER: Final = AUTOCOMMIT + ". Rows that were changed before are committed, and this message is not sent"
SEVERAL: Final = (
    "this session has changed more than one database connection (several binds), and they do not commit together. "
    "Use a session with one bind for rows and their messages"
)


class Guard(TransactionGuard):
    """What is known of one transaction of a session, or of a connection whose engine is attached (``core``)."""

    of_engine = False
    """It belongs to a transaction of the connection, whoever has begun that."""

    def __init__(self, kind: Kind, connection: Connection, autocommit: bool) -> None:
        super().__init__(kind)
        self.connection: Final = ref(connection)
        self.autocommit: Final = autocommit
        self.several = False
        """The session uses other connections, too."""
        self.session: ref[Session] | None = None
        """Whose transaction it is, if it is that of a session that is watched."""
        self.on_rollback_to = partial(_drop, ref(self))  # a strong one would keep it until the garbage collector comes

    def enlisted(self) -> list[Enlistment]:
        """Who has messages in this transaction."""
        session = None if self.session is None else self.session()
        found = None if session is None else session.info.get(ENLISTED)
        return [] if found is None else [found]

    def check(self) -> None:
        if self.autocommit:
            raise ConfigError(AUTOCOMMIT_LATER)
        if self.several:
            raise ConfigError(SEVERAL)
        super().check()

    def before(self, statement: str) -> None:
        if self.autocommit:
            raise ConfigError(AUTOCOMMIT)
        super().before(statement)

    def check_committer(self) -> None:
        """Raises when there are messages, and it is not the session that commits."""
        session = None if self.session is None else self.session()
        if session is not None and session.info.get(ENLISTED) and COMMITTING not in session.info:
            self.ended = True  # the caller rolls back
            raise TransactionBroken(BENEATH)


def watch(sessions: type[Session]) -> None:
    """Guard the transactions of all sessions of a class. At their end, ``end`` is to be called."""
    if not _is_watched(sessions):
        setattr(sessions, WATCHED, True)
        event.listen(sessions, "after_begin", _after_begin)


def _is_watched(sessions: type[Session]) -> bool:
    return WATCHED in vars(sessions)  # ``event.contains`` takes a new class for one that was freed


def watch_alone(sessions: type[Session]) -> None:
    """The same for sessions that take no messages, and belong to an inbox."""
    if not _is_watched(sessions):
        watch(sessions)
        event.listen(sessions, "after_transaction_end", _after_transaction_end)


def guard_of(connection: Connection) -> Guard | None:
    """That of the transaction that runs on this connection."""
    try:
        return running_on(connection.connection)
    except Exception:  # noqa: BLE001 - it is closed or was lost
        return None


def take_postponed(connection: PoolProxiedConnection) -> Enlistment | None:
    """Whose outcome row the next commit was to insert."""
    try:
        return POSTPONED.pop(connection, None)
    except TypeError:  # see ``running_on``
        return None


def running_on(connection: PoolProxiedConnection) -> Guard | None:
    """The same for what a pool has given out."""
    try:
        return _of_connections.get(connection)
    except TypeError:  # SQLAlchemy asks a new engine who it is, on a connection that no pool has given out
        return None


def _after_begin(session: Session, transaction: SessionTransaction, connection: Connection) -> None:
    if transaction.nested:
        return
    dialect = known_dialect(connection)
    if dialect is None:
        return
    earlier: Guard | None = session.info.get(GUARD)
    if earlier is not None:  # the event comes twice when a class and a subclass of it are watched
        earlier.several = earlier.several or earlier.connection() is not connection
        return
    running = guard_of(connection)
    if running is not None and running.of_engine:
        if isinstance(session.bind, Connection):
            return  # the transaction of that connection goes on behind the session's, and keeps its guard
        guard = running
    else:
        guard = Guard(dialect.kind, connection, in_autocommit(connection))
    session.info[GUARD] = guard
    guard.session = ref(session)
    guard.needed = session.info.get(ENLISTED) is not None or STRICT in session.info
    if guard.autocommit:
        if guard.needed:
            watch_engine(connection.engine)
            _of_connections[connection.connection] = guard  # the session keeps the connection, and would go on with it
            guard.ended = True  # nothing is executed, so there is nothing to look for
            raise ConfigError(AUTOCOMMIT)
        return
    if guard is not running:
        watch_engine(connection.engine)
        place(connection, guard)


def place(connection: Connection, guard: Guard) -> None:
    """Place the mark, in front of the first statement of the transaction."""
    dialect = known_dialect(connection)
    assert dialect is not None
    _place(connection, dialect, guard)
    _of_connections[connection.connection] = guard


def _drop(of: ref[Guard], number: int) -> None:
    """A savepoint of this number is rolled back, and so are the messages that were sent in it."""
    guard = of()
    for enlistment in [] if guard is None else guard.enlisted():
        enlistment.drop(lambda level: isinstance(level, tuple) and number in level[1])


def known_dialect(connection: Connection) -> gantrymq_dialect.Dialect | None:
    """None: it is not supported."""
    name = connection.dialect.name
    if name == Kind.MYSQL.value and getattr(connection.dialect, "is_mariadb", False):
        name = Kind.MARIADB.value
    try:
        return gantrymq_dialect.dialect_of(name, connection.dialect.paramstyle)
    except ConfigError:
        return None  # which the start refuses


def in_autocommit(connection: Connection) -> bool:
    """Whether each statement commits by itself."""
    if connection._is_autocommit_isolation():
        return True
    detect = getattr(connection.dialect, "detect_autocommit_setting", None)
    pooled = connection.connection
    if connection.dialect.name == Kind.SQLITE.value:
        # With the transaction control of old, isolation_level=None only means that nobody says BEGIN: we do. With that
        # of Python 3.12, its commit() would do nothing.
        return getattr(pooled.driver_connection, "autocommit", None) is True
    try:
        return bool(detect is not None and pooled.dbapi_connection is not None and detect(pooled.dbapi_connection))
    except NotImplementedError:
        return False


def _place(connection: Connection, dialect: gantrymq_dialect.Dialect, guard: Guard) -> None:
    pooled = connection.connection
    if guard.kind is Kind.SQLITE and not getattr(pooled.driver_connection, "in_transaction", True):
        # The driver would begin a transaction with the first INSERT only, and not with CREATE TABLE or WITH.
        level = getattr(pooled.dbapi_connection, "isolation_level", None) or ""
        connection.exec_driver_sql(f"BEGIN {level}".strip())
    statement, parameters = proof.place_mark(dialect, guard.mark)
    connection.exec_driver_sql(statement, parameters or None)


def end(session: Session) -> TransactionBroken | None:
    """The transaction of this session has ended. Returns an error when it was rolled back, and a part of it had been
    committed before."""
    guard: Guard | None = session.info.pop(GUARD, None)
    if guard is None:
        return None
    broken = guard.broken_by_commit()
    guard.ended = True
    return broken


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        broken = end(session)
        if broken is not None:
            raise broken


# The engine.


def watch_engine(engine: Engine) -> None:
    """Let the guards of its connections be told of statements, errors, commits and rollbacks."""
    if engine not in _engines:
        _engines.add(engine)
        event.listen(engine, "before_cursor_execute", _before_statement)
        event.listen(engine, "after_cursor_execute", _behind_statement)
        event.listen(engine, "handle_error", _failed)
    if engine.dialect not in _dialects:
        _dialects.add(engine.dialect)
        dialect: Any = engine.dialect
        dialect.do_commit = partial(_commit, dialect.do_commit)
        dialect.do_rollback = partial(_roll_back, dialect.do_rollback)


def _before_statement(connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
    guard = guard_of(connection)
    if guard is not None:
        guard.before(statement)


def _behind_statement(connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
    guard = guard_of(connection)
    if guard is not None:
        guard.succeeded(statement, connection.connection.driver_connection)


def _failed(context: ExceptionContext) -> None:
    guard = None if context.connection is None else guard_of(context.connection)
    if guard is not None:
        raw = context.connection.connection.driver_connection  # type: ignore[union-attr]
        guard.failed(context.original_exception, raw)


def _commit(do_commit: Callable[[Any], None], connection: PoolProxiedConnection) -> None:
    try:
        _check_committer(connection)
        look(connection)
    except BaseException:
        take_postponed(connection)
        # SQLAlchemy believes that a commit that failed has ended the transaction, and would leave it open on a
        # connection of the pool.
        with suppress(Exception):  # the connection was lost
            connection.rollback()
        connection.invalidate()  # what ended the transaction may have left LOCK TABLES or a USE behind
        raise
    do_commit(connection)


def _check_committer(connection: PoolProxiedConnection) -> None:
    guard = _of_connections.get(connection)
    if guard is not None:
        guard.check_committer()


def look(connection: PoolProxiedConnection) -> None:
    """Right before the commit: look for the mark, when that is needed. Raises TransactionBroken."""
    guard = _take(connection)
    if guard is not None and guard.needed and not guard.proved:
        guard.look(connection)


def _roll_back(do_rollback: Callable[[Any], None], connection: PoolProxiedConnection) -> None:
    take_postponed(connection)  # or a pool that commits what it gets back would insert it
    guard = _take(connection)
    if guard is not None:
        guard.look_at_rollback(connection)  # ``end`` says it
    do_rollback(connection)
    if guard is not None and guard.committed_inside:
        connection.invalidate()  # see _commit


def _take(connection: PoolProxiedConnection) -> Guard | None:
    guard = running_on(connection)
    if guard is not None:
        del _of_connections[connection]
    return guard
