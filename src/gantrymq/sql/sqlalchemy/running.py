"""What is known of the transactions that run on connections of SQLAlchemy, by what its pool gives out."""

from __future__ import annotations

from functools import partial
from typing import Final
from weakref import WeakKeyDictionary, ref

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql.rows import dialect as gantrymq_dialect
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import BENEATH, COMMITTED_BENEATH, ROLLED_BACK_BENEATH, WENT_ON_BENEATH
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.guard import GUARD
from gantrymq.sql.transaction.guard import Guard as TransactionGuard

ENLISTED: Final = "gantrymq.enlisted"
"""In ``session.info``: the Enlistment of the running transaction."""
COMMITTING: Final = "gantrymq.committing"
"""In ``session.info`` between before_commit and the end of the transaction."""
STRICT: Final = "gantrymq.strict"
"""In ``session.info``: a block of ours has this session, so a connection in autocommit is refused at once."""
MAKER: Final = "_gantrymq_enlist"
"""On a class of sessions that takes messages: what makes an Enlistment for one of them."""
OPEN: Final = "gantrymq.open"
"""In ``info`` of a connection of a pool: a reference to the Guard of the transaction that runs on it."""
POSTPONED: Final[WeakKeyDictionary[PoolProxiedConnection, Enlistment]] = WeakKeyDictionary()
"""By the same as ``_of_connections``: whose outcome row the next commit inserts, see ``last_statement``."""
_of_connections: Final[WeakKeyDictionary[PoolProxiedConnection, Guard]] = WeakKeyDictionary()
"""By what a pool gives out: it is another object each time, also for the same connection of the driver."""
AUTOCOMMIT: Final = (
    "this connection is in autocommit: each statement commits by itself, so rows and messages cannot commit together. "
    "Take AUTOCOMMIT out of the engine's isolation_level, of execution_options, and of connect_args"
)
AUTOCOMMIT_ATTACHED: Final = AUTOCOMMIT + ", or use a session maker or an engine that is not attached"
AUTOCOMMIT_LATER: Final = AUTOCOMMIT + ". Rows that were changed before are committed, and this message is not sent"
SEVERAL: Final = (
    "this session has changed more than one database connection (several binds), and they do not commit together. "
    "Use a session with one bind for rows and their messages"
)


class Guard(TransactionGuard):
    """What is known of one transaction of a session, or of a connection whose engine is attached (``core``)."""

    of_engine = False
    """It belongs to a transaction of the connection, whoever has begun that."""

    def __init__(self, kind: DatabaseKind, connection: Connection, autocommit: bool) -> None:
        super().__init__(kind)
        self.connection: Final = ref(connection)
        self.autocommit: Final = autocommit
        self.several = False
        """The session uses other connections, too."""
        self.session: ref[Session] | None = None
        """Whose transaction it is, if it is that of a session that is watched."""
        self.beneath = ""
        """What is said when the connection has ended the transaction without its session."""
        self.pooled: ref[PoolProxiedConnection] | None = None
        self.on_rollback_to = partial(_drop, ref(self))  # a strong one would keep it until the garbage collector comes

    def enlisted(self) -> list[Enlistment]:
        """Who has messages in this transaction."""
        session = None if self.session is None else self.session()
        found = None if session is None else session.info.get(ENLISTED)
        return [] if found is None else [found]

    @property
    def why_over(self) -> str:
        return (WENT_ON_BENEATH if self.went_on else self.beneath) if self.beneath else super().why_over

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

    def given_back(self) -> None:
        """A listener of the program has failed at the end of the transaction; it was rolled back when the pool got the
        connection. A session hears of its own end."""

    def end_beneath(self, committed: bool) -> bool:
        """The connection was committed or rolled back. Whether the session knows nothing of it, and may go on. A
        rollback may be that of the session: then ``end`` follows before anything else."""
        session = None if self.session is None else self.session()
        if session is None or session.info.get(GUARD) is not self or (committed and COMMITTING in session.info):
            return False
        self.rolled_back, self.beneath = True, COMMITTED_BENEATH if committed else ROLLED_BACK_BENEATH
        self.committed_inside = self.committed_inside or (committed and self.needed)
        return True


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


def note(connection: PoolProxiedConnection, guard: Guard) -> None:
    """From now on ``running_on`` finds it."""
    _of_connections[connection] = guard


def forget_open(connection: PoolProxiedConnection) -> bool:
    """Whether a transaction with a mark was running."""
    try:
        return connection.info.pop(OPEN, None) is not None
    except Exception:  # noqa: BLE001 - it is closed, or SQLAlchemy has asked a new engine who it is
        return False


def take(connection: PoolProxiedConnection) -> Guard | None:
    """The same; from now on it is unknown, because its transaction ends."""
    forget_open(connection)
    guard = running_on(connection)
    if guard is not None:
        del _of_connections[connection]
    return guard


def place(connection: Connection, guard: Guard) -> None:
    """Place the mark, in front of the first statement of the transaction."""
    dialect = known_dialect(connection)
    assert dialect is not None
    _place(connection, dialect, guard)
    pooled = connection.connection
    note(pooled, guard)
    guard.pooled = ref(pooled)
    pooled.info[OPEN] = ref(guard)


def _place(connection: Connection, dialect: gantrymq_dialect.Dialect, guard: Guard) -> None:
    pooled = connection.connection
    if guard.kind.facts.in_process and not getattr(pooled.driver_connection, "in_transaction", True):
        # The driver would begin a transaction with the first INSERT only, and not with CREATE TABLE or WITH.
        level = getattr(pooled.dbapi_connection, "isolation_level", None) or ""
        connection.exec_driver_sql(f"BEGIN {level}".strip())
    statement, parameters = proof.place_mark(dialect, guard.mark)
    connection.exec_driver_sql(statement, parameters or None)


def _drop(of: ref[Guard], number: int) -> None:
    """A savepoint of this number is rolled back, and so are the messages that were sent in it."""
    guard = of()
    for enlistment in [] if guard is None else guard.enlisted():
        enlistment.drop(lambda level: isinstance(level, tuple) and number in level[1])


def known_dialect(connection: Connection) -> gantrymq_dialect.Dialect | None:
    """None: it is not supported."""
    try:
        return gantrymq_dialect.dialect_in_sqlalchemy(connection.dialect)
    except ConfigError:
        return None  # which the start refuses


def in_autocommit(connection: Connection) -> bool:
    """Whether each statement commits by itself."""
    if connection._is_autocommit_isolation():
        return True
    detect = getattr(connection.dialect, "detect_autocommit_setting", None)
    pooled = connection.connection
    known = known_dialect(connection)
    if known is not None and known.kind.facts.in_process:
        # With the transaction control of old, isolation_level=None only means that nobody says BEGIN: we do. With that
        # of Python 3.12, its commit() would do nothing.
        return getattr(pooled.driver_connection, "autocommit", None) is True
    try:
        return bool(detect is not None and pooled.dbapi_connection is not None and detect(pooled.dbapi_connection))
    except NotImplementedError:
        return False
