"""The outcome row is inserted behind everything else, in the dialect's ``do_commit``.

| when                        | what happens                                                                         |
|-----------------------------|--------------------------------------------------------------------------------------|
| before_commit of a session  | ``postpone`` notes the transaction, when its outcome row can wait                    |
| the dialect's ``do_commit`` | behind the flush and all events: the mark is looked for (``guard``), the halves are  |
|                             | stored, then the row is inserted. On PostgreSQL with psycopg, one text does that and |
|                             | commits: ``INSERT ...; COMMIT``. PostgreSQL leaves out the COMMIT when the INSERT    |
|                             | fails. psycopg sees that no transaction runs any more, and its commit does nothing   |

``do_commit`` is the one place behind which nobody executes a statement in the transaction, and where SQLAlchemy takes
an error of the database for one of the commit. There is no event for it: so ours is put in front of it, on the dialect
of one engine.

Sources: PostgreSQL "Multiple Statements in a Simple Query"; SQLAlchemy, Dialect.do_commit; psycopg, Connection.commit.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.util import await_only

from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.sqlalchemy.endings import look
from gantrymq.sql.sqlalchemy.running import POSTPONED, take_postponed
from gantrymq.sql.transaction.enlistment import Enlistment

_dialects: Final[WeakSet[Dialect]] = WeakSet()
"""Those that have a ``do_commit`` of ours."""


def prepare_engine(engine: Engine) -> None:
    """Let transactions of this engine postpone their outcome rows."""
    dialect = engine.dialect
    if dialect not in _dialects:
        dialect.do_commit = partial(_commit, dialect.do_commit)  # type: ignore[method-assign]
        _dialects.add(dialect)


def postpone(session: Session, enlistment: Enlistment) -> bool:
    """Whether the outcome row is inserted together with the commit, and not now."""
    engine = session.bind
    if not isinstance(engine, Engine) or engine.dialect not in _dialects:
        return False
    connection = session.connection()
    if connection.dialect is not engine.dialect:
        return False
    postpone_on(connection.connection, enlistment)
    return True


def postpone_on(connection: PoolProxiedConnection, enlistment: Enlistment) -> None:
    """The same for a connection of an engine that was prepared."""
    POSTPONED[connection] = enlistment


def _commit(do_commit: Callable[[PoolProxiedConnection], None], connection: PoolProxiedConnection) -> None:
    enlistment = take_postponed(connection)
    if enlistment is not None:
        try:
            look(connection)
            enlistment.prepare(partial(_insert, connection, enlistment))
        except BaseException:
            # SQLAlchemy believes that a commit that failed has ended the transaction, and would leave it open on a
            # connection of the pool.
            with suppress(Exception):  # the connection was lost
                connection.rollback()
            raise
    do_commit(connection)


def _insert(connection: PoolProxiedConnection, enlistment: Enlistment, statement: Statement) -> int:
    raw: Any = connection.driver_connection
    last = enlistment.insert_and_commit
    # In autocommit and in a pipeline, a COMMIT of ours would not be the one of the transaction.
    if last is None or not hasattr(raw, "pgconn") or raw.autocommit or raw.pgconn.pipeline_status:
        return execute(connection, *statement)
    execute(connection, last, None)
    return 1  # or it had failed


def execute(connection: PoolProxiedConnection, statement: str, parameters: tuple[Any, ...] | None) -> int:
    """Execute a statement, or without parameters any number of them. Returns how many rows the first one has
    changed."""
    if parameters is None:
        _execute_several(connection.driver_connection, statement)
        return 1  # or it had failed
    cursor = connection.cursor()
    try:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)
    finally:
        cursor.close()


def _execute_several(raw: Any, statement: str) -> None:
    """Never as a prepared statement, which has one command only: ``prepare_threshold=0`` would make it one."""
    import psycopg

    if isinstance(raw, psycopg.AsyncConnection):
        await_only(psycopg.AsyncCursor(raw).execute(statement.encode(), prepare=False))
    else:
        psycopg.Cursor(raw).execute(statement.encode(), prepare=False)
