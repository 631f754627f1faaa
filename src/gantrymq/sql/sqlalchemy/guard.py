"""Makes sure that a transaction of SQLAlchemy is one, and stays the one that it was until the commit.

| when                     | what happens                                                                    |
|--------------------------|---------------------------------------------------------------------------------|
| after_begin of a session | the mark of ``proof`` is placed, before the first statement. A connection in    |
|                          | autocommit is refused, unless a session that has no messages yet has asked for  |
|                          | it on this connection. Where the engine is attached, ``core`` has done all that, |
|                          | and the session takes that guard over                                           |
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
| the connection is rolled | noted, and statements and messages that follow are refused: on SQLite, a        |
| back or committed        | savepoint behind it would be a transaction of its own, and its end the commit   |
| without its session      |                                                                                 |
| a pool gets a connection | rolled back: a listener of the program has failed, and SQLAlchemy believes that |
| back whose transaction   | the transaction has ended. The next user of the connection would commit it      |
| has not ended            |                                                                                 |

Sources: SQLAlchemy, SessionEvents, ConnectionEvents, PoolEvents.reset, Dialect.do_commit,
Dialect.detect_autocommit_setting.
"""

from __future__ import annotations

from typing import Final
from weakref import ref

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, SessionTransaction

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql.sqlalchemy.endings import watch_engine
from gantrymq.sql.sqlalchemy.running import (
    AUTOCOMMIT,
    AUTOCOMMIT_ATTACHED,
    COMMITTING,
    ENLISTED,
    MAKER,
    STRICT,
    Guard,
    guard_of,
    in_autocommit,
    known_dialect,
    note,
    place,
    running_on,
    take,
)  # fmt: skip
from gantrymq.sql.transaction.guard import GUARD

WATCHED: Final = "_gantrymq_watched"
"""On a class of sessions."""


def watch(sessions: type[Session]) -> None:
    """Guard the transactions of all sessions of a class. At their end, ``end`` is to be called."""
    if not _is_watched(sessions):
        setattr(sessions, WATCHED, True)
        event.listen(sessions, "after_begin", _after_begin)
        event.listen(sessions, "before_commit", _before_commit)


def _is_watched(sessions: type[Session]) -> bool:
    return WATCHED in vars(sessions)  # ``event.contains`` takes a new class for one that was freed


def watch_alone(sessions: type[Session]) -> None:
    """The same for sessions that take no messages, and belong to an inbox."""
    if not _is_watched(sessions):
        watch(sessions)
        event.listen(sessions, "after_transaction_end", _after_transaction_end)


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
        attached = hasattr(session, MAKER) and not _asked_for_autocommit(connection)
        if guard.needed or attached:
            watch_engine(connection.engine)
            note(connection.connection, guard)  # the session keeps the connection, and would go on with it
            guard.ended = True  # nothing is executed, so there is nothing to look for
            raise ConfigError(AUTOCOMMIT_ATTACHED if attached else AUTOCOMMIT)
        return
    if guard is not running:
        watch_engine(connection.engine)
        place(connection, guard)


def _asked_for_autocommit(connection: Connection) -> bool:
    """Whether it is an option of this connection, or of the program's connection that a session is bound to: not of an
    engine, nor of the driver, under which no session could ever send."""
    options = connection.get_execution_options(), connection.engine.get_execution_options()
    return [found.get("isolation_level") == "AUTOCOMMIT" for found in options] == [True, False]


def end(session: Session) -> TransactionBroken | None:
    """The transaction of this session has ended. Returns an error when it was rolled back, and a part of it had been
    committed before."""
    guard: Guard | None = session.info.pop(GUARD, None)
    if guard is None:
        return None
    broken = guard.broken_by_commit()
    guard.ended = True
    pooled = None if guard.pooled is None else guard.pooled()
    if guard.beneath and pooled is not None and running_on(pooled) is guard:  # a session on a Connection leaves it open
        take(pooled)
    return broken


def _before_commit(session: Session) -> None:
    if not session.in_nested_transaction():
        session.info[COMMITTING] = True


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        session.info.pop(COMMITTING, None)
        broken = end(session)
        if broken is not None:
            raise broken
