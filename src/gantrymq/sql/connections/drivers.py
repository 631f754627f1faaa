"""What the protocol must know of a driver: PEP 249 leaves open when a transaction begins, and what autocommit means.

| driver   | a transaction begins               | nobody else may end it: how that is noticed                          |
|----------|------------------------------------|----------------------------------------------------------------------|
| psycopg  | by ``connection.transaction()``    | psycopg refuses ``commit()`` and ``rollback()`` inside of it; the    |
|          |                                    | mark of ``proof`` tells of COMMIT and ROLLBACK as statements         |
| sqlite3  | by BEGIN, unless one is running    | a savepoint right behind the begin: it ends with the transaction,    |
| PyMySQL  | by BEGIN with autocommit; else the | and then its release fails. On MySQL and MariaDB that also notices   |
|          | server begins it                   | DDL (it commits) and deadlocks (the server rolls back everything)    |

A connection in autocommit gets a transaction for the block, as with psycopg's and Django's own blocks. A transaction
that runs on a connection already is the one that is committed. Sources: psycopg "Transactions management", sqlite3
"Transaction control", MySQL "Statements That Cause an Implicit Commit".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from gantrymq.errors import ConfigError
from gantrymq.errors import TransactionBroken as TransactionBroken
from gantrymq.sql.connections.mysql_ends import Ends
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect, kind_of_server
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import ENDED_INSIDE, FAILED_INSIDE
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.transaction.database import Rows
from gantrymq.sql.transaction.guard import IN_TRANSACTION

INSIDE_ANOTHER: Final = (
    "this connection is inside a block of connection.transaction(), which commits it later. Put the block of "
    "transactions.on(connection) outside of it; inside, use tx.savepoint()"
)


class Driver(Protocol):
    """One transaction on one connection."""

    @property
    def sees_all(self) -> bool:
        """``watch`` sees each statement and checks that the transaction runs; otherwise only what the driver does by
        itself, without a text."""

    def begin(self) -> None:
        """Have a transaction, and notice when somebody else ends it. Raises ConfigError where that cannot be."""

    mark: str
    """Of the transaction, for the insert of the outcome row; empty: ``verify`` has looked for it."""

    def verify(self, proved: bool = False) -> None:
        """Before the outcome is written: raises TransactionBroken unless it is still the transaction of ``begin``.
        ``proved``: the insert of the outcome row compares the mark."""

    def check_runs(self) -> None:
        """Before a statement: raises TransactionBroken when the transaction has ended. On a connection in autocommit
        the statement would commit by itself."""

    def watch(self, note: Note) -> None:
        """Tell of statements about savepoints, as far as the driver lets them be seen. Until ``unwatch``."""

    def unwatch(self) -> None: ...

    def verify_at_rollback(self) -> None:
        """The same before a rollback, where a statement may have committed."""

    def run(self, statement: str, parameters: Any) -> Any:
        """A statement of the program; returns its cursor."""

    def execute(self, statement: Statement) -> Rows:
        """Whatever kind of rows and cursors the user has chosen for the connection."""

    def insert(self, statement: Statement) -> int:
        """How many rows it has inserted."""

    def commit(self) -> None: ...

    def rollback(self) -> bool:
        """Whether it is certain that a commit before, which raised, has changed nothing."""

    def close(self) -> None: ...


class Note(Protocol):
    """What is told of statements."""

    def statement(self, text: str) -> None:
        """One that may be about a savepoint."""

    def block(self, begins: bool, kept: bool = True) -> None:
        """A block of psycopg's ``connection.transaction()`` begins, or ends."""


class _OfConnection:
    """What all drivers do in the same way."""

    tells_later: Final = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, statement: str, parameters: Any) -> Any:
        cursor = self._connection.cursor()
        if parameters is None:
            cursor.execute(statement)
        else:
            cursor.execute(statement, parameters)
        return cursor

    def close(self) -> None:
        self._connection.close()


class SqliteDriver(_OfConnection):
    """sqlite3, with its transaction control of old and with the attribute ``autocommit`` of Python 3.12."""

    parameter_style: Final = "qmark"
    sees_all: Final = False
    mark = ""

    def dialect(self) -> Dialect:
        return Dialect(DatabaseKind.SQLITE, self.parameter_style)

    def begin(self) -> None:
        if not self._connection.in_transaction:
            self._execute(f"BEGIN {self._connection.isolation_level or ''}")
        self._execute(*proof.place_mark(self.dialect(), ""))

    def verify(self, proved: bool = False) -> None:
        _release(self._execute)

    verify_at_rollback = verify

    def execute(self, statement: Statement) -> Rows:
        return self._execute(*statement).fetchall()  # type: ignore[no-any-return]

    def insert(self, statement: Statement) -> int:
        return int(self._execute(*statement).rowcount)

    def _execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, parameters)

    def commit(self) -> None:
        if getattr(self._connection, "autocommit", None) is True:  # then its commit() does nothing
            self._execute("COMMIT")
        else:
            self._connection.commit()

    def rollback(self) -> bool:
        running, autocommit = bool(self._connection.in_transaction), getattr(self._connection, "autocommit", None)
        if autocommit is not True:
            self._connection.rollback()
        elif running:
            self._execute("ROLLBACK")
        # It still runs: a COMMIT that found the database locked ends nothing. But with autocommit=False, the one that
        # runs may be the next one.
        return running and autocommit is not False

    def check_runs(self) -> None:
        if not self._connection.in_transaction:
            raise TransactionBroken(ENDED_INSIDE)

    def watch(self, note: Note) -> None:
        """Nothing: sqlite3 shows no statements but to a trace callback, which may be the user's."""

    def unwatch(self) -> None: ...

    def stand_alone(self, wait_ms: int) -> None:
        """Autocommit, for a check-back; ``wait_ms``: how long it waits for whoever is writing."""
        self._connection.text_factory = str
        if getattr(self._connection, "autocommit", -1) in (True, False):  # -1: the transaction control of old
            self._connection.autocommit = True
        else:
            self._connection.isolation_level = None
        self._execute(f"PRAGMA busy_timeout = {wait_ms}")


class PyMySQLDriver(_OfConnection):
    """PyMySQL, with MySQL and MariaDB."""

    parameter_style: Final = "format"
    sees_all: Final = True
    mark = ""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._ends = Ends(connection)
        self._ended_inside = False

    def dialect(self) -> Dialect:
        return Dialect(kind_of_server(self._connection.get_server_info()), self.parameter_style)

    def begin(self) -> None:
        # Without autocommit a BEGIN would commit what runs already, of which the status may know nothing yet.
        if self._connection.get_autocommit() and not self._connection.server_status & IN_TRANSACTION:
            self._connection.begin()
        self.execute(proof.place_mark(self.dialect(), ""))

    def verify(self, proved: bool = False) -> None:
        try:
            self._ends.check_not_committed()
            _release(lambda statement: self.execute((statement, ())))
        except TransactionBroken:
            self._ended_inside = True
            raise

    def verify_at_rollback(self) -> None:
        if self._ends.committed or not self._ends.rolled_back:
            self.verify()

    def execute(self, statement: Statement) -> Rows:
        from pymysql.cursors import Cursor

        cursor = Cursor(self._connection)
        cursor.execute(statement[0], statement[1] or None)
        return list(cursor.fetchall())

    def insert(self, statement: Statement) -> int:
        from pymysql.cursors import Cursor

        return int(Cursor(self._connection).execute(*statement))

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> bool:
        self._connection.rollback()
        if self._ended_inside:  # perhaps by LOCK TABLES, whose locks a connection of the program would keep
            self.execute((proof.UNLOCK, ()))
        return False

    def check_runs(self) -> None:
        """``watch`` does that, also for cursors of the program."""

    def watch(self, note: Note) -> None:
        query, begin, ends = self._connection.query, self._connection.begin, self._ends

        def watched(sql: Any, *others: Any, **options: Any) -> Any:
            text = sql if isinstance(sql, str) else ""
            ends.before(text)
            note.statement(text)
            ran = ends.runs
            try:
                found = query(sql, *others, **options)
            except Exception as error:
                ends.failed(error)
                raise
            ends.succeeded(ran, text)
            return found

        def begun() -> None:
            ran = ends.runs
            begin()
            ends.succeeded(ran, "BEGIN")

        self._connection.query, self._connection.begin = watched, begun  # where all cursors execute

    def unwatch(self) -> None:
        for name in ("query", "begin"):
            vars(self._connection).pop(name, None)

    def stand_alone(self, wait_ms: int) -> None:
        self._connection.autocommit(True)


def _release(execute: Any) -> None:
    try:
        execute(proof.RELEASE)
    except Exception as error:
        if proof.is_missing(error):
            raise TransactionBroken(ENDED_INSIDE) from error
        raise


class PsycopgDriver(_OfConnection):
    """psycopg 3."""

    parameter_style: Final = "format"
    sees_all: Final = False

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.mark = ""
        self._block: Any = None
        self._outermost = True

    def dialect(self) -> Dialect:
        return Dialect(DatabaseKind.POSTGRESQL, self.parameter_style)

    def begin(self) -> None:
        self._outermost = may_begin(self._connection)
        self._block = self._connection.transaction()
        self._transaction = self._block.__enter__()
        self.mark = proof.new_mark()
        self.execute(proof.place_mark(self.dialect(), self.mark))

    def verify(self, proved: bool = False) -> None:
        verify_status(self._connection)

    def verify_at_rollback(self) -> None:
        """PostgreSQL commits nothing by itself."""

    def execute(self, statement: Statement) -> Rows:
        from psycopg import Cursor
        from psycopg.rows import tuple_row

        cursor = Cursor(self._connection, row_factory=tuple_row)
        cursor.execute(statement[0], statement[1] or None)
        return cursor.fetchall() if cursor.description is not None else []

    def insert(self, statement: Statement) -> int:
        from psycopg import Cursor

        return Cursor(self._connection).execute(*statement).rowcount

    def commit(self) -> None:
        block, self._block = self._block, None
        block.__exit__(None, None, None)
        verify_end(self._transaction)
        if not self._outermost:
            self._connection.commit()

    def rollback(self) -> bool:
        block, self._block = self._block, None
        if block is not None:
            error = TransactionBroken("rolled back")
            block.__exit__(type(error), error, None)
        if block is None or not self._outermost:  # without a block: its commit failed
            self._connection.rollback()
        return False

    def check_runs(self) -> None:
        check_runs(self._connection)

    def watch(self, note: Note) -> None:
        transaction = self._connection.transaction

        @contextmanager
        def watched(*arguments: Any, **options: Any) -> Iterator[Any]:
            note.block(begins=True)
            inner: Any = None
            try:
                with transaction(*arguments, **options) as inner:
                    yield inner
            finally:
                note.block(begins=False, kept=inner is not None and inner.status is inner.Status.COMMITTED)

        self._connection.transaction = watched

    def unwatch(self) -> None:
        vars(self._connection).pop("transaction", None)

    def stand_alone(self, wait_ms: int) -> None:
        self._connection.commit()  # settings that the user's function made
        self._connection.autocommit = True


def may_begin(connection: Any) -> bool:
    """Whether the transaction of the block is the outermost one. Raises ConfigError where it must not begin."""
    from psycopg.pq import TransactionStatus

    if getattr(connection, "_num_transactions", 0):
        raise ConfigError(INSIDE_ANOTHER)
    status = connection.info.transaction_status
    if status in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
        return bool(status is TransactionStatus.IDLE)
    if status is TransactionStatus.INERROR:
        raise TransactionBroken("the transaction of this connection has failed: call connection.rollback() first")
    raise ConfigError(f"this connection cannot begin a transaction: its status is {status.name}")


def verify_status(connection: Any) -> None:
    """PostgreSQL answers the COMMIT of a failed transaction with a rollback, and calls that a success."""
    from psycopg.pq import TransactionStatus

    status = connection.info.transaction_status
    if status is TransactionStatus.INERROR:
        raise TransactionBroken(FAILED_INSIDE)
    if status is TransactionStatus.IDLE:
        raise TransactionBroken(ENDED_INSIDE)


def check_runs(connection: Any) -> None:
    from psycopg.pq import TransactionStatus

    if connection.info.transaction_status is TransactionStatus.IDLE:
        raise TransactionBroken(ENDED_INSIDE)


def verify_end(transaction: Any) -> None:
    """A lost connection makes psycopg's block leave without an error."""
    if transaction.status is not transaction.Status.COMMITTED:
        from psycopg import OperationalError

        raise OperationalError("the connection was lost before the commit")


KnownDriver = SqliteDriver | PyMySQLDriver | PsycopgDriver
_DRIVERS: Final[dict[str, type[KnownDriver]]] = {
    "sqlite3": SqliteDriver, "pymysql": PyMySQLDriver, "psycopg": PsycopgDriver,
}  # fmt: skip


def driver_of(connection: Any) -> KnownDriver:
    """The driver of a connection, by the module that its class, or one of its base classes, comes from."""
    for base in type(connection).__mro__:
        found = _DRIVERS.get(base.__module__.partition(".")[0])
        if found is not None and not base.__name__.startswith("Async"):
            return found(connection)
    raise ConfigError(not_supported(connection, "psycopg.Connection, sqlite3.Connection or pymysql.Connection"))


def not_supported(connection: Any, wanted: str, *, blocking: bool = True) -> str:
    """What to say of a connection of another driver."""
    if blocking and (hasattr(connection, "__await__") or type(connection).__name__.startswith("Async")):
        return (
            "the function that connects returned an asynchronous connection: use AsyncTransactions(group, connect), or "
            "a blocking driver"
        )
    kind = type(connection)
    return (
        f"connections of {kind.__module__}.{kind.__qualname__} are not supported, only {wanted}. Other drivers work "
        f"by SQLAlchemy: Transactions(group, {'create_engine' if blocking else 'create_async_engine'}(...))"
    )
