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

import logging
import sys
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, SessionTransaction, scoped_session, sessionmaker

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.message.message import Message
from gantrymq.sql.rules.broken import SENT_TOO_LATE
from gantrymq.sql.sqlalchemy import guard
from gantrymq.sql.sqlalchemy.database import insert
from gantrymq.sql.sqlalchemy.last_statement import postpone
from gantrymq.sql.sqlalchemy.running import COMMITTING, ENLISTED, MAKER, Guard
from gantrymq.sql.transaction.enlistment import Enlistment, Insert, Stage
from gantrymq.sql.transaction.guard import GUARD

log = logging.getLogger("gantrymq.sql")
COMMITTED: Final = "gantrymq.committed"
"""In ``session.info``: a transaction of this session has committed."""
ROLLED_BACK: Final = "gantrymq.rolled_back"
"""In ``session.info`` between a rollback and the end of the transaction."""
LAST: Final = "gantrymq.last"
"""In ``session.info``: the Enlistment of the last message, also when its transaction has ended."""
OWN: Final = "_gantrymq_async"
"""On a class of sessions that was made here, for an async_sessionmaker."""
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
    guard.watch(made)
    event.listen(made, "before_commit", _before_commit)
    event.listen(made, "after_commit", _after_commit)
    event.listen(made, "after_rollback", _after_rollback)
    event.listen(made, "after_soft_rollback", _after_soft_rollback)
    event.listen(made, "after_transaction_end", _after_transaction_end)


def class_of(sessions: Sessions) -> type[Session]:
    """The class of the (blocking) sessions, whose events are those of all of them. Raises ConfigError."""
    if isinstance(sessions, scoped_session):
        sessions = sessions.session_factory
    if isinstance(sessions, async_sessionmaker):
        # AsyncSession has no events. It makes a Session of its own; let that be of a class that is ours to listen to.
        base = sessions.kw.get("sync_session_class") or sessions.class_.sync_session_class
        base = base.class_ if isinstance(base, sessionmaker) else base
        if MAKER in vars(base) or OWN in vars(base):
            return base  # which ``attach`` refuses: these sessions take messages already
        made: type[Session] = type(base.__name__, (base,), {OWN: True})
        sessions.configure(sync_session_class=made)
        return made
    if isinstance(sessions, sessionmaker):
        return sessions.class_  # a class of its own, for every session maker
    if isinstance(sessions, type) and issubclass(sessions, Session):
        return sessions
    raise ConfigError(
        f"attach takes a sessionmaker, an async_sessionmaker, a scoped_session or a class of Session, not {sessions!r}"
    )


def takes_messages(session: Session | None) -> bool:
    """Whether it is attached."""
    return getattr(session, MAKER, None) is not None


def send(session: Session | AsyncSession, message: Message, order_key: str | None = None) -> None:
    """Send ``message`` when the running transaction of ``session`` commits; see ``sending``."""
    inner = session.sync_session if isinstance(session, AsyncSession) else session
    if not isinstance(inner, Session):
        raise ConfigError(f"send takes a session or a connection of SQLAlchemy, not {session!r}")
    enlist: Enlist | None = getattr(inner, MAKER, None)
    if enlist is None:
        raise ConfigError("this session takes no messages: call transactions.attach(the session maker that made it)")
    enlistment: Enlistment | None = inner.info.get(ENLISTED)
    if enlistment is None:
        _check_outermost(inner)
        if (running := inner.info.get(GUARD)) is not None:
            running.check()
        enlistment = inner.info.setdefault(ENLISTED, enlist())  # one step: two threads get the same
    if not inner.in_transaction():
        inner.begin()
    inner.info[LAST] = enlistment
    guarded: Guard | None = inner.info.get(GUARD)
    if guarded is not None:
        guarded.check()
        guarded.needed = True
    savepoints = () if guarded is None else guarded.savepoints.level
    enlistment.send(message, (inner.get_nested_transaction() or inner.get_transaction(), savepoints), order_key)
    if COMMITTING in inner.info:
        _prepare(inner, enlistment)


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
    return lambda statement: insert(session.connection(), *statement)


# An event comes twice when both a class of sessions and a subclass of it are attached: every one may be repeated.


def _before_commit(session: Session) -> None:
    if session.in_nested_transaction():
        return
    enlistment: Enlistment | None = session.info.get(ENLISTED)
    if enlistment is not None:
        enlistment.wait_for_halves()  # before the flush takes locks
        _prepare(session, enlistment)


def _prepare(session: Session, enlistment: Enlistment) -> None:
    if not len(enlistment):
        return
    session.connection()  # a session with messages only has none yet
    guarded: Guard | None = session.info.get(GUARD)
    if guarded is not None:
        guarded.check()
        guarded.needed = True
        if guarded.kind.facts.compares_mark:
            enlistment.mark, guarded.proved = guarded.mark, True
    if postpone(session, enlistment):
        return
    if guarded is not None and not guarded.proved:
        guarded.look(session.connection().connection)  # before the insert, which may commit where no transaction runs
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
        enlistment.drop(lambda level: isinstance(level, tuple) and _within(level[0], previous))


def _within(level: object, savepoint: SessionTransaction) -> bool:
    while isinstance(level, SessionTransaction):
        if level is savepoint:
            return True
        level = level.parent
    return False


def _after_rollback(session: Session) -> None:
    if not session.in_nested_transaction():  # the event comes for a savepoint, too
        session.info[ROLLED_BACK] = True


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is not None:
        return
    committing = session.info.pop(COMMITTING, None)
    asked_for = session.info.pop(ROLLED_BACK, False)
    used, broken = session.info.get(GUARD), guard.end(session)
    enlistment: Enlistment | None = session.info.get(ENLISTED)
    if enlistment is not None:
        late = bool(len(enlistment)) and used is None and session.info.get(COMMITTED, False)
        if late and not committing and not asked_for and broken is None:
            broken = _sent_too_late(session, enlistment)
        try:
            enlistment.failed()
        finally:
            session.info.pop(ENLISTED, None)
    elif committing and not asked_for:
        session.info[COMMITTED] = True
    if broken is not None:
        raise broken


def _sent_too_late(session: Session, enlistment: Enlistment) -> TransactionBroken | None:
    """The session is closed. Its messages were sent behind a commit, with no statement, and nobody rolled them back.
    An error that leaves the block of the session says enough; on an event loop it cannot be seen from here."""
    log.warning("%d messages of transaction %s: %s", len(enlistment), enlistment.transaction_id, SENT_TOO_LATE)
    if sys.exc_info()[1] is not None or getattr(session, OWN, False):
        return None
    return TransactionBroken(SENT_TOO_LATE)
