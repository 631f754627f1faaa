"""Messages in the transactions of SQLAlchemy sessions, by the session's own events.

| event of the session                | what happens                                                                  |
|-------------------------------------|-------------------------------------------------------------------------------|
| (``send``)                          | the first message of a transaction enlists it; the half message is on its way |
| before_commit, not of a savepoint   | ``prepare``: the halves are stored, the outcome row is inserted. What is sent |
|                                     | after it, in an event of the commit's flush, is prepared at once. On          |
|                                     | PostgreSQL the row is inserted behind the flush, see ``last_statement``       |
| after_commit, after a prepare       | ``committed``                                                                 |
| after_soft_rollback of a savepoint  | what was sent in it is rolled back                                            |
| after_transaction_end, when needed  | ``failed``: rolled back, or the database is asked whether it committed        |

Source: SQLAlchemy, SessionEvents. An AsyncSession has a Session inside, with the same events.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, SessionTransaction, scoped_session, sessionmaker

from gantrymq.errors import ConfigError
from gantrymq.message.message import Message
from gantrymq.sql.sqlalchemy.database import execute
from gantrymq.sql.sqlalchemy.last_statement import postpone
from gantrymq.sql.transaction.enlistment import Enlistment, Insert, Stage

ENLISTED: Final = "gantrymq.enlisted"
"""In ``session.info``: the Enlistment of the running transaction."""
LAST: Final = "gantrymq.last"
"""In ``session.info``: the Enlistment of the last message, also when its transaction has ended."""
COMMITTING: Final = "gantrymq.committing"
"""In ``session.info`` between before_commit and the end of the transaction."""
MAKER: Final = "_gantrymq_enlist"
"""On a class of sessions: what makes an Enlistment for one of them."""
OF_CORE: Final = (
    "send takes a session of SQLAlchemy, not a connection of Core, because nothing tells us when such a connection is "
    "about to commit. Use `with transactions.begin() as tx:`; there, tx.session.connection() is a Connection of Core, "
    "and tx.send(message) sends"
)
Enlist = Callable[[], Enlistment]
Sessions = type[Session] | sessionmaker[Any] | scoped_session[Any] | async_sessionmaker[Any]


def attach(sessions: Sessions, enlist: Enlist, trust_outer: bool = False) -> None:
    """Let all sessions of a class or of a session maker take messages.

    Raises ConfigError for something else, and for sessions that are attached already.
    """
    made = class_of(sessions)
    if MAKER in vars(made):
        raise ConfigError(f"{sessions!r} is attached already; attach each session maker once")
    setattr(made, MAKER, staticmethod(enlist))
    made._gantrymq_trust_outer = trust_outer  # type: ignore[attr-defined]
    event.listen(made, "before_commit", _before_commit)
    event.listen(made, "after_commit", _after_commit)
    event.listen(made, "after_soft_rollback", _after_soft_rollback)
    event.listen(made, "after_transaction_end", _after_transaction_end)


def class_of(sessions: Sessions) -> type[Session]:
    """The class whose events are those of these sessions."""
    if isinstance(sessions, scoped_session):
        sessions = sessions.session_factory
    if isinstance(sessions, async_sessionmaker):
        # AsyncSession has no events. It makes a Session of its own; let that be of a class that is ours to listen to.
        base = sessions.kw.get("sync_session_class") or sessions.class_.sync_session_class
        base = base.class_ if isinstance(base, sessionmaker) else base
        if MAKER in vars(base):
            return base  # which ``attach`` refuses: these sessions take messages already
        made: type[Session] = type(base.__name__, (base,), {})
        sessions.configure(sync_session_class=made)
        return made
    if isinstance(sessions, sessionmaker):
        return sessions.class_  # a class of its own, for every session maker
    if isinstance(sessions, type) and issubclass(sessions, Session):
        return sessions
    raise ConfigError(
        f"attach takes a sessionmaker, an async_sessionmaker, a scoped_session or a class of Session, not {sessions!r}"
    )


def send(session: Session | AsyncSession | scoped_session[Any], message: Message) -> None:
    """Send ``message`` when the running transaction of ``session`` commits, and never when it does not.

    The half message is sent now, and the commit waits for it. A message that is sent within a savepoint is dropped when
    the savepoint is rolled back. Raises MessageIllegal, and ConfigError for a session that was not attached.
    """
    if isinstance(session, scoped_session):
        session = session()
    inner = session.sync_session if isinstance(session, AsyncSession) else session
    if isinstance(inner, Connection | AsyncConnection):
        raise ConfigError(OF_CORE)
    if not isinstance(inner, Session):
        raise ConfigError(f"send takes a session of SQLAlchemy, not {session!r}")
    enlist: Enlist | None = getattr(inner, MAKER, None)
    if enlist is None:
        raise ConfigError("this session takes no messages: call transactions.attach(the session maker that made it)")
    enlistment: Enlistment | None = inner.info.get(ENLISTED)
    if enlistment is None:
        _check_outermost(inner)
        enlistment = inner.info.setdefault(ENLISTED, enlist())  # one step: two threads get the same
    if not inner.in_transaction():
        inner.begin()
    inner.info[LAST] = enlistment
    enlistment.send(message, inner.get_nested_transaction() or inner.get_transaction())
    if COMMITTING in inner.info and not postpone(inner, enlistment):
        enlistment.prepare(_insert_in(inner))


def _check_outermost(session: Session) -> None:
    if session.twophase:
        raise ConfigError("a session with twophase=True cannot take messages: its commit is decided elsewhere")
    bind = session.bind
    if isinstance(bind, Connection) and not session._gantrymq_trust_outer:  # type: ignore[attr-defined]
        raise ConfigError(
            "this session is bound to a connection, whose own transaction may still roll back after session.commit(). "
            "Bind it to the engine; in tests that roll everything back, attach(..., trust_outer=True)"
        )


def _insert_in(session: Session) -> Insert:
    return lambda statement: execute(session.connection(), *statement)


# An event comes twice when both a class of sessions and a subclass of it are attached: every one may be repeated.


def _before_commit(session: Session) -> None:
    if session.in_nested_transaction():
        return
    session.info[COMMITTING] = True
    enlistment: Enlistment | None = session.info.get(ENLISTED)
    if enlistment is not None:
        enlistment.wait_for_halves()  # before the flush takes locks
        if not postpone(session, enlistment):
            enlistment.prepare(_insert_in(session))


def _after_commit(session: Session) -> None:
    enlistment: Enlistment | None = session.info.get(ENLISTED)
    if enlistment is not None and enlistment.stage is Stage.PREPARED and not session.in_nested_transaction():
        try:
            enlistment.committed()
        finally:
            if enlistment.answer is not None:  # or an interrupt came first: the end of the transaction settles it
                session.info.pop(ENLISTED, None)


def _after_soft_rollback(session: Session, previous: SessionTransaction) -> None:
    enlistment: Enlistment | None = session.info.get(ENLISTED)
    if enlistment is not None and previous.nested:
        enlistment.drop(lambda level: _within(level, previous))


def _within(level: object, savepoint: SessionTransaction) -> bool:
    while isinstance(level, SessionTransaction):
        if level is savepoint:
            return True
        level = level.parent
    return False


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is not None:
        return
    session.info.pop(COMMITTING, None)
    enlistment: Enlistment | None = session.info.get(ENLISTED)
    if enlistment is None:
        return
    try:
        enlistment.failed()
    finally:
        session.info.pop(ENLISTED, None)
