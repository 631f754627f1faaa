"""Messages in the transactions of Core's connections, whose engine is attached.

| when                          | what happens                                                                       |
|-------------------------------|------------------------------------------------------------------------------------|
| ``begin`` of a connection     | a Guard is made for the transaction, unless it is in autocommit by an option, or   |
|                               | under two-phase commit, whose begin is another event. Autocommit of the driver is  |
|                               | refused                                                                            |
| the dialect's ``do_begin``    | behind all listeners of that event: the mark is placed. So nothing of the          |
|                               | transaction comes before it                                                        |
| (``send``)                    | the first message enlists the transaction; the half message is on its way          |
| the dialect's ``do_commit``   | ``last_statement`` stores the halves and inserts the outcome row in front of it.   |
|                               | Behind it: ``committed``. When it raises: rolled back, and the database is asked   |
| the dialect's ``do_rollback`` | behind it: ``rolled_back``                                                         |
| ``rollback``, ``commit`` of a | the same, where there is no connection any more, and the dialect is not called     |
| connection                    |                                                                                    |

A commit, a rollback, a close and a commit as you go all end in one of these, also when a session has begun the
transaction. A session that is attached, too, takes over the guard and sends the messages itself: see ``sending``.

Sources: SQLAlchemy, ConnectionEvents.begin, Dialect.do_begin, Connection.close, RootTransaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.engine import Connection, Dialect, Engine, TwoPhaseTransaction
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

from gantrymq.errors import ConfigError, GantryError, TransactionBroken
from gantrymq.message.message import Message
from gantrymq.sql.rows.dialect import DatabaseKind
from gantrymq.sql.rules.broken import COMMITTED_INSIDE, NEVER_COMMITTED
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.sqlalchemy import last_statement, still_open
from gantrymq.sql.sqlalchemy.database import check_pool
from gantrymq.sql.sqlalchemy.endings import watch_engine
from gantrymq.sql.sqlalchemy.running import (
    AUTOCOMMIT,
    AUTOCOMMIT_ATTACHED,
    AUTOCOMMIT_LATER,
    OPEN,
    Guard,
    forget_open,
    in_autocommit,
    known_dialect,
    place,
    running_on,
)
from gantrymq.sql.sqlalchemy.sessions import takes_messages
from gantrymq.sql.transaction.enlistment import Enlistment

log = logging.getLogger("gantrymq.sql")
NOT_ATTACHED: Final = (
    "connections of this engine take no messages: call transactions.attach(engine) where the engine is made, or use "
    "`with transactions.begin() as tx:`; there, tx.session.connection() is a Connection, and tx.send(message) sends"
)
TOO_EARLY: Final = (
    "this transaction began before its engine was attached, so nobody knows whether it is one. Call "
    "transactions.attach(engine) where the engine is made"
)
TWO_PHASES: Final = "a transaction of begin_twophase() cannot take messages: its commit is decided elsewhere"
FAILED: Final = "the transaction of this connection has failed: call connection.rollback() before you send"
NOT_BEGUN: Final = (
    "no transaction runs on this connection, and send does not wait for one to begin: use `async with "
    "connection.begin():`, or execute a statement first"
)
Enlist = Callable[[], Enlistment]
_makers: Final[WeakKeyDictionary[Dialect, Enlist]] = WeakKeyDictionary()
"""For each engine that is attached, and the engines that were made of it by ``execution_options``: they have one
dialect."""
_running: Final[WeakKeyDictionary[Connection, CoreGuard]] = WeakKeyDictionary()
"""Also of connections that were lost in their transaction."""
_beginning: Final[WeakKeyDictionary[PoolProxiedConnection, CoreGuard | None]] = WeakKeyDictionary()
"""Between the event ``begin`` and ``do_begin``. None: it is to be refused. An error of the event itself would let the
connection execute its next statements without a begin."""


class CoreGuard(Guard):
    """What is known of one transaction of a connection, and its messages."""

    of_engine = True

    def __init__(self, kind: DatabaseKind, connection: Connection) -> None:
        super().__init__(kind, connection, autocommit=False)
        self.enlistment: Enlistment | None = None
        self.statements = 0

    def enlisted(self) -> list[Enlistment]:
        return [*super().enlisted(), *([] if self.enlistment is None else [self.enlistment])]

    def before(self, statement: str) -> None:
        self.statements += 1
        super().before(statement)

    def given_back(self) -> None:
        _rolled_back(self)


def attach(given: Engine | AsyncEngine, enlist: Enlist) -> None:
    """Let all connections of an engine take messages. Raises ConfigError for an engine that cannot, and for one that is
    attached already."""
    engine = given.sync_engine if isinstance(given, AsyncEngine) else given
    check_pool(engine)
    if engine.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise ConfigError(AUTOCOMMIT)
    engine = getattr(engine, "_proxied", engine)  # of one that execution_options() has made: its events are those
    if getattr(engine.dialect, "_on_connect_isolation_level", None) == "AUTOCOMMIT":
        raise ConfigError(AUTOCOMMIT)
    if engine.dialect in _makers:
        raise ConfigError(f"{engine!r} is attached already; attach each engine once")
    _makers[engine.dialect] = enlist
    last_statement.prepare_engine(engine)
    still_open.watch_engine(engine)
    watch_engine(engine)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "commit", _lost)  # which fails then, and nobody rolls back what SQLAlchemy has given up
    event.listen(engine, "rollback", _lost)
    dialect: Any = engine.dialect  # in front of all others, which raise what we must see
    dialect.do_begin = partial(_begun, dialect.do_begin)
    dialect.do_commit = partial(_commit, dialect.do_commit)
    dialect.do_rollback = partial(_roll_back, dialect.do_rollback)


def session_of(connection: Connection) -> Session | None:
    """The session whose transaction runs on this connection, if it takes messages."""
    running = _running.get(connection) if connection.in_transaction() else None
    session = None if running is None or running.session is None else running.session()
    return session if takes_messages(session) else None


def send(
    connection: Connection, messages: tuple[Message, ...], order_key: str | None = None, *, may_begin: bool
) -> None:
    """Send messages when the running transaction of ``connection`` commits; see ``sending``. ``may_begin``: without a
    transaction, begin one."""
    enlist = _makers.get(connection.dialect)
    if enlist is None:
        raise ConfigError(NOT_ATTACHED)
    transaction = connection.get_transaction()
    if isinstance(transaction, TwoPhaseTransaction):
        raise ConfigError(TWO_PHASES)
    if transaction is None:
        if not may_begin:
            raise ConfigError(AUTOCOMMIT_LATER if connection._is_autocommit_isolation() else NOT_BEGUN)
        connection.begin()
    elif not transaction.is_active:
        raise ConfigError(FAILED)
    running = _running.get(connection)
    if running is None:
        raise ConfigError(AUTOCOMMIT_LATER if in_autocommit(connection) else TOO_EARLY)
    running.check()
    if running.enlistment is None:
        running.enlistment = enlist()
    running.needed = True
    for message in messages:
        running.enlistment.send(message, (None, running.savepoints.level), order_key)


# The life of a transaction.


def _begin(connection: Connection) -> None:
    before = _running.pop(connection, None)
    if before is not None and OPEN in connection.info:
        before.given_back()
    dialect = known_dialect(connection)
    if dialect is None:
        return
    if not in_autocommit(connection):
        _beginning[connection.connection] = CoreGuard(dialect.kind, connection)
    elif not connection._is_autocommit_isolation():  # by an option, it may be wanted beside those that take messages
        _beginning[connection.connection] = None


def _begun(do_begin: Callable[[PoolProxiedConnection], None], pooled: PoolProxiedConnection) -> None:
    if forget_open(pooled):  # a listener of the program has failed at the end of the last one
        pooled.rollback()
    do_begin(pooled)
    if pooled not in _beginning:
        return
    running = _beginning.pop(pooled)
    if running is None:
        raise ConfigError(AUTOCOMMIT_ATTACHED)
    connection = running.connection()
    if connection is None:
        return
    try:
        place(connection, running)
    except BaseException:
        # SQLAlchemy has no transaction yet, which it would roll back, and nobody knows in what state this one is.
        _throw_away(connection)
        raise
    _running[connection] = running


def _commit(do_commit: Callable[[PoolProxiedConnection], None], pooled: PoolProxiedConnection) -> None:
    running = running_on(pooled)
    if not isinstance(running, CoreGuard):
        do_commit(pooled)
        return
    enlistment, running.enlistment = running.enlistment, None
    if enlistment is None:
        do_commit(pooled)
    else:
        _commit_with(running, enlistment, partial(do_commit, pooled), pooled)


def _commit_with(
    running: CoreGuard, enlistment: Enlistment, commit: Callable[[], None], pooled: PoolProxiedConnection
) -> None:
    try:
        if len(enlistment):
            running.check()
            if running.kind.facts.compares_mark:
                enlistment.mark, running.proved = running.mark, True
            last_statement.postpone_on(pooled, enlistment)
        commit()
    except BaseException as error:
        raised = _failed(running, enlistment, error, pooled)
        if raised is error:
            raise
        if raised is not None:
            raise raised from error
    else:
        if len(enlistment):
            enlistment.committed()
        else:
            enlistment.rolled_back()  # all of its messages were dropped


def _failed(
    running: CoreGuard, enlistment: Enlistment, error: BaseException, pooled: PoolProxiedConnection
) -> BaseException | None:
    """What to raise for an error of a commit. The transaction must have ended before the database is asked: a claim
    would wait for it."""
    connection, running.ended = running.connection(), True
    try:
        pooled.rollback()
    except Exception:  # noqa: BLE001 - the connection was lost, and the server rolls back
        _throw_away(connection)
    enlistment.failed()
    raised = error_after(error, enlistment)
    if raised is error and _committed_before(running) and not isinstance(error, GantryError):
        raised = TransactionBroken(COMMITTED_INSIDE)  # the mark could not be looked for
    if raised is None:
        _throw_away(connection)  # it has raised, whatever became of the transaction
    return raised


def _throw_away(connection: Connection | None) -> None:
    if connection is not None:
        with suppress(Exception):
            connection.invalidate()


def _roll_back(do_rollback: Callable[[PoolProxiedConnection], None], pooled: PoolProxiedConnection) -> None:
    running = running_on(pooled)
    try:
        do_rollback(pooled)  # in it, the mark is looked for
    finally:
        if isinstance(running, CoreGuard):
            _rolled_back(running)
            _tell(running)


def _tell(running: CoreGuard) -> None:
    """Raises when a part of what was rolled back had been committed. A session does so at its own end."""
    if running.session is None and _committed_before(running):
        _throw_away(running.connection())  # the guard has closed it, and this Connection may be used on
        raise TransactionBroken(COMMITTED_INSIDE)


def _committed_before(running: CoreGuard) -> bool:
    return running.committed_inside or (running.needed and running.commit_seen and not running.proved)


def _lost(connection: Connection) -> None:
    running = _running.get(connection)
    if running is None:
        return
    try:
        lost = not connection.connection.is_valid
    except Exception:  # noqa: BLE001 - it is not there any more
        lost = True
    if lost:
        _rolled_back(running)
        _tell(running)


def _rolled_back(running: CoreGuard) -> None:
    """No commit was tried. Who sees the error of the block wants that one, and not what comes of it here."""
    enlistment, running.enlistment = running.enlistment, None
    if enlistment is None:
        return
    if len(enlistment) and not running.statements:  # where there were some, their rows are gone, too
        log.warning("%d messages of transaction %s: %s", len(enlistment), enlistment.transaction_id, NEVER_COMMITTED)
    try:
        enlistment.rolled_back()
    except Exception as error:  # noqa: BLE001 - as above
        log.warning("brokers will ask how transaction %s ended: %r", enlistment.transaction_id, error)
