"""Makes sure that a transaction of Django is one, and stays the one that its block began.

Django has no signal when a transaction begins. So every connection of a database that takes messages gets a wrapper of
its statements (``execute_wrappers``) when it connects. In front of the first statement of each transaction it places
the mark of ``gantrymq.sql.rules.proof``, by a cursor of the driver: no count of queries has it. Tests of a TestCase
never commit, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper

from gantrymq.django import project_settings
from gantrymq.django.django_database import dialect_of_connection
from gantrymq.sql.rows.dialect import VENDORS
from gantrymq.sql.rules import proof
from gantrymq.sql.transaction.guard import Guard

ATTRIBUTE: Final = "_gantrymq_watch"
ENDS: Final = ("commit", "rollback", "set_autocommit")
"""Methods behind which another transaction begins."""


class Watch:
    """Of one connection of Django, for ever."""

    @classmethod
    def of(cls, connection: BaseDatabaseWrapper) -> Watch:
        found: Watch | None = vars(connection).get(ATTRIBUTE)
        return cls(connection) if found is None else found

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._guard: Guard | None = None
        self._raw: Any = None
        connection.execute_wrappers.insert(0, self)  # those of ``execute_wrapper`` are taken away from the end
        placed = vars(connection)
        placed[ATTRIBUTE] = self
        for name in ENDS:
            placed[name] = self._then_forget(name, getattr(connection, name))

    def _then_forget(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def ended(*arguments: Any, **options: Any) -> Any:
            if self._goes_on(name, *arguments, **options):
                return method(*arguments, **options)
            try:
                return method(*arguments, **options)
            finally:
                self._guard = None

        return ended

    def _goes_on(self, name: str, autocommit: bool = True, *_: Any, **__: Any) -> bool:
        """Whether this call ends no transaction: Django refuses it inside of ``atomic``, or autocommit is off already.
        What is known of the running one must not be forgotten then."""
        off_already = name == "set_autocommit" and not autocommit and not self._connection.autocommit
        return self._connection.in_atomic_block or off_already

    def guard(self) -> Guard | None:
        """That of the running transaction, whose mark is in the database. None: there is no transaction."""
        connection = self._connection
        if connection.get_autocommit() and not connection.in_atomic_block:
            self._guard = None
            return None
        if any(block._from_testcase for block in connection.atomic_blocks):
            return None
        connection.ensure_connection()
        if self._guard is None or self._raw is not connection.connection:
            self._guard, self._raw = self._begin(), connection.connection
        return self._guard

    @property
    def running(self) -> Guard | None:
        """The same, unless it has executed nothing yet."""
        return self._guard if self._raw is self._connection.connection else None

    def _begin(self) -> Guard:
        dialect = dialect_of_connection(self._connection)
        guard = Guard(dialect.kind)
        statement, parameters = proof.place_mark(dialect, guard.mark)
        raw = self._connection.connection
        with self._connection.wrap_database_errors:
            cursor = raw.cursor()
            try:
                if guard.kind.facts.in_process and not raw.in_transaction:
                    # Without autocommit, sqlite3 begins at the first INSERT. A savepoint outside of a transaction would
                    # be one itself, and its release the commit.
                    cursor.execute("BEGIN")
                if parameters:
                    cursor.execute(statement, parameters)
                else:
                    cursor.execute(statement)
            finally:
                cursor.close()
        return guard

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        guard = self.guard()
        if guard is None:
            return execute(sql, params, many, context)
        text = sql if isinstance(sql, str) else ""
        guard.before(text)
        try:
            found = execute(sql, params, many, context)
        except Exception as error:
            guard.failed(error, self._connection.connection)
            raise
        guard.succeeded(text, self._connection.connection)
        return found

    def verify(self) -> None:
        """Look for the mark: nothing more is executed before the commit. Raises TransactionBroken."""
        guard = self.guard()
        if guard is not None and not guard.proved:
            guard.check()
            with self._connection.wrap_database_errors:
                guard.look(self._connection.connection)


def watch(sender: Any, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """A receiver of ``connection_created``."""
    if connection.vendor in VENDORS and connection.alias in project_settings.read().databases:
        Watch.of(connection)
