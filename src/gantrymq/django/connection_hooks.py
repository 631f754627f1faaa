"""How messages follow the transaction of a Django connection.

Django has no signal before a commit. So the first message of a transaction puts methods of ours in front of public
methods of the connection; they are attributes of this one object, and go away with the end of the transaction.

| method               | what it does beside its own work                                                           |
|----------------------|--------------------------------------------------------------------------------------------|
| commit               | before: the halves are stored, the outcome row is inserted; after: the halves are committed |
| rollback, close      | before: see ``watching``; after: the halves are rolled back                                |
| savepoint            | after: notes which messages were sent before it                                            |
| savepoint_rollback   | after: the messages since the savepoint are rolled back                                    |
| savepoint_commit     | after: for ``recording`` only                                                              |
| set_autocommit(True) | refused while there are messages: MySQL and SQLite would commit behind our back            |

When something fails before or in the commit, we roll back ourselves (or close the connection, when that fails), and
then settle: ``Atomic.__exit__`` knows only errors of databases, and would otherwise go on to ``set_autocommit(True)``.
Source: django.db.transaction.Atomic, BaseDatabaseWrapper; the same in Django 4.2, 5.2 and 6.0.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from gantrymq.django.django_database import insert
from gantrymq.django.watching import Watch
from gantrymq.errors import GantryError, TransactionBroken
from gantrymq.message.message import Message
from gantrymq.sql.rules.broken import ENDED_INSIDE, SAVEPOINT_LOST
from gantrymq.sql.rules.claim import Answer
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.transaction.guard import Guard

log = logging.getLogger("gantrymq.django")
ATTRIBUTE: Final = "_gantrymq_hooks"
HOOKED: Final = ("commit", "rollback", "close", "savepoint", "savepoint_rollback", "savepoint_commit", "set_autocommit")


class Enlisted(Protocol):
    """The messages of one transaction: an Enlistment, or a Recording in tests."""

    @property
    def transaction_id(self) -> str: ...

    mark: str

    @property
    def answer(self) -> Answer | None: ...
    def send(self, message: Message, level: object, order_key: str | None = None) -> None: ...
    def drop(self, belongs: Callable[[object], bool]) -> None: ...
    def prepare(self, insert: Callable[[Statement], int]) -> None: ...
    def committed(self) -> Answer: ...
    def failed(self) -> Answer: ...
    def __len__(self) -> int: ...


class ConnectionHooks:
    """The methods in front of those of one connection, during one transaction with messages."""

    @classmethod
    def of(cls, connection: BaseDatabaseWrapper) -> ConnectionHooks | None:
        """Those of the running transaction; None: it has no messages yet."""
        hooks: ConnectionHooks | None = vars(connection).get(ATTRIBUTE)
        if hooks is not None and hooks._is_stale():
            hooks._end_rolled_back()
            return None
        return hooks

    def __init__(self, connection: BaseDatabaseWrapper, enlisted: Enlisted, *, watched: bool = False) -> None:
        """``watched``: it commits, so it must be proved that it is one transaction."""
        self._connection = connection
        self._raw = connection.connection
        """The driver's connection, whose transaction it is."""
        self._enlisted = enlisted
        self._watch = Watch.of(connection) if watched else None
        self._guard: Guard | None = None
        """That of the transaction in which the messages were sent."""
        self._sent = 0
        self._savepoints: dict[str, int] = {}
        """How many messages were sent before each. Those made before the first message are not here."""
        self._lost = False
        """A savepoint could not be rolled back. Django then rolls back everything, and says nothing."""
        self._over = False
        self._own: dict[str, Any] = {name: getattr(connection, name) for name in HOOKED}
        self._before = {name: vars(connection)[name] for name in HOOKED if name in vars(connection)}
        self._ours = {name: getattr(self, name) for name in HOOKED}
        vars(connection).update(self._ours, **{ATTRIBUTE: self})

    def send(self, message: Message, order_key: str | None = None) -> None:
        guard = self._watch.guard() if self._watch is not None else None
        savepoints: tuple[int, ...] = ()
        if guard is not None:
            self._check_same(guard)
            guard.check()
            guard.needed, guard.on_rollback_to = True, self._drop
            savepoints = guard.savepoints.level
        self._enlisted.send(message, (self._sent, savepoints), order_key)
        self._sent += 1

    def _check_same(self, guard: Guard) -> None:
        """Messages of two transactions never commit together."""
        self._guard = self._guard or guard
        if guard is not self._guard:
            raise TransactionBroken(ENDED_INSIDE)

    def _drop(self, savepoint: int) -> None:
        """One that was begun by a statement of the user's own is rolled back."""
        self._enlisted.drop(lambda level: isinstance(level, tuple) and savepoint in level[1])

    def _remove(self) -> None:
        self._over = True
        placed = vars(self._connection)
        if placed.get(ATTRIBUTE) is self:
            del placed[ATTRIBUTE]
        for name, method in self._ours.items():
            if placed.get(name) is not method:
                continue  # somebody put his own in front of ours; it finds that we are over
            if name in self._before:
                placed[name] = self._before[name]
            else:
                del placed[name]

    def _is_stale(self) -> bool:
        """Whether the connection was exchanged without a close, and the transaction with it."""
        return self._connection.connection is not self._raw

    # The methods.

    def commit(self) -> None:
        connection, commit = self._connection, self._own["commit"]
        if self._over:
            commit()
            return
        # What the real one checks before it does anything.
        connection.validate_thread_sharing()
        connection.validate_no_atomic_block()
        if self._is_stale():
            self._end_rolled_back()
            commit()
            return
        try:
            self._prove_and_prepare()
        except BaseException as error:
            self._undo(close=isinstance(error, TransactionBroken))
            self._end_rolled_back()
            raise
        callbacks = connection.run_on_commit
        try:
            commit()
        except BaseException as error:  # noqa: BLE001 - it is raised again unless the database did commit
            self._undo()
            self._remove()
            self._after_failed_commit(error, callbacks)
        else:
            self._remove()
            self._enlisted.committed()

    def rollback(self) -> None:
        if not self._over:
            self._connection.validate_thread_sharing()
            self._connection.validate_no_atomic_block()
        broken = self._look_at_rollback()
        if broken is None and self._lost and len(self._enlisted) and sys.exc_info()[1] is None:
            broken = TransactionBroken(SAVEPOINT_LOST)
        try:
            self._own["rollback"]()
        except Exception:
            if broken is None:
                raise
        finally:
            self._end_rolled_back()
        if broken is not None:
            self._close()
            raise broken

    def close(self) -> None:
        broken = self._look_at_rollback()
        try:
            self._own["close"]()
        finally:
            # Django does not close a database of SQLite that is in memory.
            if self._connection.connection is None or self._connection.closed_in_transaction:
                self._end_rolled_back()
        if broken is not None:
            raise broken

    def _look_at_rollback(self) -> TransactionBroken | None:
        """An error, when a part of what is rolled back now was committed before."""
        guard = None if self._over or self._watch is None or self._is_stale() else self._watch.running
        return None if guard is None else guard.look_at_rollback(self._raw)

    def savepoint(self) -> str | None:
        name: str | None = self._own["savepoint"]()
        if name is not None:
            self._savepoints[name] = self._sent
        return name

    def savepoint_rollback(self, sid: str) -> None:
        try:
            self._own["savepoint_rollback"](sid)
        except Exception:
            self._lost = True
            raise
        if not self._over and sid is not None:
            first = self._savepoints.get(sid, 0)
            self._enlisted.drop(lambda level: isinstance(level, tuple) and level[0] >= first)

    def savepoint_commit(self, sid: str) -> None:
        self._own["savepoint_commit"](sid)
        released = getattr(self._enlisted, "released", None)
        if not self._over and released is not None:
            released()

    def set_autocommit(self, autocommit: bool, *arguments: Any, **options: Any) -> None:
        if autocommit and not self._over and not self._connection.in_atomic_block:
            raise transaction.TransactionManagementError(
                "this transaction has messages: call transaction.commit() or transaction.rollback() before you turn "
                "autocommit on"
            )
        self._own["set_autocommit"](autocommit, *arguments, **options)

    # The steps.

    def _prove_and_prepare(self) -> None:
        """Insert the outcome row in the transaction in which everything else was executed, and only there."""
        guard = self._watch.guard() if self._watch is not None and len(self._enlisted) else None
        if guard is None:
            self._enlisted.prepare(self._insert)
            return
        self._check_same(guard)
        guard.check()
        if guard.kind.facts.compares_mark:
            self._enlisted.mark, guard.proved = guard.mark, True
        elif self._watch is not None:
            self._watch.verify()  # before the insert: where no transaction runs, that would commit by itself
        self._enlisted.prepare(self._insert)

    def _insert(self, statement: Statement) -> int:
        return insert(self._connection, *statement)

    def _undo(self, *, close: bool = False) -> None:
        """Have no open transaction on this connection. ``close``: nor anything else that the block has left."""
        try:
            self._own["rollback"]()
        except BaseException as error:
            self._close()
            if not isinstance(error, Exception):
                raise
        if close:
            self._close()

    def _close(self) -> None:
        """What ended the transaction may have left LOCK TABLES behind. Django connects again."""
        with suppress(Exception):
            self._own["close"]()
        if self._connection.connection is None:
            self._connection.closed_in_transaction = True  # Atomic.__exit__ then leaves it alone

    def _end_rolled_back(self) -> None:
        """The user's own error goes on; what fails here is settled by a check-back."""
        if self._over:
            return
        self._remove()
        try:
            self._enlisted.failed()
        except GantryError as error:
            log.error("transaction %s: its messages are not rolled back yet: %s", self._enlisted.transaction_id, error)

    def _after_failed_commit(self, error: BaseException, callbacks: list[Any]) -> None:
        """Raise ``error`` or OutcomeUnknown, unless the database did commit."""
        self._enlisted.failed()
        raised = error_after(error, self._enlisted)
        if raised is error:
            raise error
        if raised is not None:
            raise raised from error
        self._go_on(callbacks)

    def _go_on(self, callbacks: list[Any]) -> None:
        """As after a commit: Django runs the callbacks of ``on_commit`` next."""
        connection = self._connection
        try:
            connection.ensure_connection()
        except Exception as error:  # noqa: BLE001 - what failed is the next connection, not this transaction
            log.error("%d callbacks of on_commit do not run, because there is no connection: %r", len(callbacks), error)
            return
        connection.closed_in_transaction = False
        connection.run_on_commit = callbacks
        connection.run_commit_hooks_on_set_autocommit_on = True
