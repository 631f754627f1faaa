"""Behind a commit no transaction runs: where one does, nothing was committed.

A driver may believe that a transaction runs which it did not begin, or the other way round; then its commit does
nothing, or releases a savepoint. One way to get there, with asyncpg and SQLAlchemy alone: a statement on another event
loop fails behind its BEGIN, the connection goes back to the pool with that transaction open, and every later one is a
savepoint in it.

| when                                       | what happens                                                       |
|--------------------------------------------|--------------------------------------------------------------------|
| a pool of asyncpg gives out a connection   | one on which a transaction runs is closed, and the pool makes a new |
|                                            | one                                                                |
| the dialect's ``do_commit`` has ended      | a connection on which a transaction runs still is closed, so the   |
|                                            | database rolls back; TransactionBroken                             |

Drivers know this without asking the server. Sources: asyncpg, Connection.is_in_transaction; psycopg, ConnectionInfo.
transaction_status; sqlite3, Connection.in_transaction; SQLAlchemy, PoolEvents.checkout, Dialect.do_commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.engine import Connection, Dialect, Engine
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

from gantrymq.errors import TransactionBroken
from gantrymq.sql.transaction.guard import IN_TRANSACTION

_dialects: Final[WeakSet[Dialect]] = WeakSet()
NOT_COMMITTED: Final = (
    "the driver says that it has committed, and a transaction still runs on its connection. The connection is closed, "
    "so the database rolls back; no message is delivered. Use each connection on one event loop and in one thread at a "
    "time, and leave BEGIN, COMMIT and the driver's own transactions to SQLAlchemy"
)


def watch(sessions: type[Session], engine: Engine) -> None:
    """The sessions of a class, whatever engine they are bound to, and from its first connection on this engine."""
    watch_engine(engine)
    event.listen(sessions, "after_begin", _after_begin)


def _after_begin(session: Session, transaction: object, connection: Connection) -> None:
    watch_engine(connection.engine)


def watch_engine(engine: Engine) -> None:
    """The transactions of an engine, whoever begins them."""
    dialect: Any = engine.dialect
    if dialect in _dialects:
        return
    _dialects.add(dialect)
    dialect.do_commit = partial(_commit, dialect.do_commit)
    if dialect.driver == "asyncpg":
        event.listen(engine, "checkout", _checked_out)


def _checked_out(_connection: Any, record: Any, _proxy: Any) -> None:
    if _runs(record.driver_connection):
        raise DisconnectionError(
            "a transaction runs on this connection, which nobody has begun"
        )  # the pool replaces it


def _commit(do_commit: Callable[[PoolProxiedConnection], None], connection: PoolProxiedConnection) -> None:
    raw: Any = getattr(connection, "driver_connection", None)
    do_commit(connection)
    if _runs(raw) and not _chains(connection, raw):
        with suppress(Exception):  # it is of no use any more
            connection.invalidate()
        raise TransactionBroken(NOT_COMMITTED)


def _chains(connection: PoolProxiedConnection, raw: Any) -> bool:
    """Whether a MySQL server has committed, and has begun the next transaction: ``completion_type = CHAIN``."""
    if not hasattr(raw, "server_status"):
        return False
    cursor = connection.cursor()
    try:
        cursor.execute("SELECT @@completion_type")
        row = cursor.fetchone()
    finally:
        cursor.close()
    return row is not None and str(row[0]) in ("CHAIN", "1")


def _runs(raw: Any) -> bool:
    """Whether a transaction runs on a connection of a driver. False where that cannot be known."""
    module = type(raw).__module__.partition(".")[0]
    if module == "asyncpg":
        return bool(raw.is_in_transaction())
    if module == "psycopg":
        return not raw.pgconn.pipeline_status and raw.info.transaction_status.name in ("INTRANS", "INERROR", "ACTIVE")
    if module in ("pymysql", "aiomysql"):
        return bool(getattr(raw, "server_status", 0) & IN_TRANSACTION)
    if module in ("sqlite3", "aiosqlite"):
        # With autocommit=False of Python 3.12 the driver begins the next one at once.
        return bool(raw.in_transaction) and getattr(raw, "autocommit", None) is not False
    return False
