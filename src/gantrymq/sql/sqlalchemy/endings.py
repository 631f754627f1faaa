"""Statements, commits and rollbacks of an engine's connections, told to the Guard of the transaction that runs there.

The table is that of ``guard``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy import event
from sqlalchemy.engine import Connection, Dialect, Engine, ExceptionContext
from sqlalchemy.pool import PoolProxiedConnection, PoolResetState

from gantrymq.errors import TransactionBroken
from gantrymq.sql.sqlalchemy.running import OPEN, Guard, guard_of, note, running_on, take, take_postponed

_engines: Final[WeakSet[Engine]] = WeakSet()
_dialects: Final[WeakSet[Dialect]] = WeakSet()


def watch_engine(engine: Engine) -> None:
    """Let the guards of its connections be told of statements, errors, commits and rollbacks."""
    if engine not in _engines:
        _engines.add(engine)
        event.listen(engine, "before_cursor_execute", _before_statement)
        event.listen(engine, "after_cursor_execute", _behind_statement)
        event.listen(engine, "handle_error", _failed)
        event.listen(engine, "reset", _given_back)
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


def _given_back(connection: Any, record: Any, state: PoolResetState) -> None:
    found = record.info.pop(OPEN, None)
    if found is None or not state.asyncio_safe:
        return
    guard: Guard | None = found()
    if guard is not None:
        guard.look_at_rollback(connection)  # behind the rollback, the mark would be missed
    connection.rollback()  # when this raises, the pool closes it
    if guard is not None:
        guard.given_back()


def _commit(do_commit: Callable[[Any], None], connection: PoolProxiedConnection) -> None:
    guard = running_on(connection)
    try:
        if guard is None or not guard.beneath:  # or the program has chosen to commit what it did since
            _check_committer(connection)
            look(connection)
    except BaseException as error:
        take_postponed(connection)
        # SQLAlchemy believes that a commit that failed has ended the transaction, and would leave it open on a
        # connection of the pool.
        with suppress(Exception):  # the connection was lost
            connection.rollback()
        if isinstance(error, TransactionBroken):  # SQLAlchemy looks at the connection behind an error of the driver
            connection.invalidate()  # what ended the transaction may have left LOCK TABLES or a USE behind
        raise
    do_commit(connection)
    _has_ended(connection, guard, committed=True)


def _check_committer(connection: PoolProxiedConnection) -> None:
    guard = running_on(connection)
    if guard is not None:
        guard.check_committer()


def look(connection: PoolProxiedConnection) -> None:
    """Right before the commit: look for the mark, when that is needed. Raises TransactionBroken."""
    guard = take(connection)
    if guard is not None and guard.needed and not guard.proved:
        guard.look(connection)


def _roll_back(do_rollback: Callable[[Any], None], connection: PoolProxiedConnection) -> None:
    take_postponed(connection)  # or a pool that commits what it gets back would insert it
    guard = take(connection)
    if guard is not None:
        guard.look_at_rollback(connection)  # ``end`` says it
    do_rollback(connection)
    if guard is not None and guard.committed_inside:
        connection.invalidate()  # see _commit
    else:
        _has_ended(connection, guard, committed=False)


def _has_ended(connection: PoolProxiedConnection, guard: Guard | None, *, committed: bool) -> None:
    if guard is not None and guard.end_beneath(committed):
        note(connection, guard)  # to refuse what follows
