"""Local transactions on DB-API connections, for programs without an ORM: psycopg, sqlite3 and PyMySQL."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, Unpack

from gantrymq.errors import Closed, ConfigError, TransactionBroken
from gantrymq.message.message import Message
from gantrymq.sql.connections.database import ConnectionDatabase
from gantrymq.sql.connections.drivers import PyMySQLDriver, driver_of
from gantrymq.sql.connections.savepoints import WatchedSavepoints
from gantrymq.sql.rules.failed_commit import error_after
from gantrymq.sql.transaction.enlistment import Enlistment
from gantrymq.sql.transaction.settings import TransactionsSettings
from gantrymq.sql.transactions import Transactions

log = logging.getLogger("gantrymq.sql")
_in_use: Final[set[int]] = set()
"""The ``id`` of connections that a block commits."""


class ConnectionTransactions(Transactions["ConnectionTransaction"]):
    """The local transactions of connections that a function makes; see ``Transactions``."""

    _database: ConnectionDatabase

    def __init__(self, group: str, connect: Callable[[], Any], **settings: Unpack[TransactionsSettings]) -> None:
        """``connect``: returns a new connection each time, which is closed here: ``lambda: psycopg.connect(...)``."""
        self._set_up(group, ConnectionDatabase(connect), settings)
        self._database.wait_ms = round(self._settings.claim_timeout * 1000)

    def begin(self) -> ConnectionTransaction:
        """``with transactions.begin() as tx:`` is one local transaction, on a new connection ``tx.connection``."""
        self.start()
        return ConnectionTransaction(self._enlist, self._database.connect_checked, ours=True)

    def on(self, connection: Any) -> ConnectionTransaction:
        """``with transactions.on(connection) as tx:`` is one local transaction on your own connection (a pool's).

        The block commits or rolls back the transaction of that connection, with what ran in it before, and leaves the
        connection open. One in autocommit gets a transaction for the block. It must be of the same database.
        """
        self.start()
        return ConnectionTransaction(self._enlist, lambda: connection, ours=False)


class ConnectionTransaction:
    """One local transaction: ``with transactions.begin() as tx``. Leaving the block commits, an error rolls back."""

    def __init__(self, enlist: Callable[[], Enlistment], connect: Callable[[], Any], *, ours: bool) -> None:
        self._enlist = enlist
        self._connect = connect
        self._ours = ours
        self._connection: Any = None
        self._used = False
        self._enlistment: Enlistment | None = None
        self._savepoints = WatchedSavepoints(self._drop)
        self._made = 0
        self._broken: BaseException | None = None

    @property
    def connection(self) -> Any:
        """The connection to work with. Its ``commit`` belongs to the block."""
        if self._connection is None:
            raise Closed("this transaction is not running: use it in a `with` block, once")
        return self._connection

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        return None if self._enlistment is None else self._enlistment.transaction_id

    def execute(self, statement: str, parameters: Any = None) -> Any:
        """Execute a statement; returns its cursor. Parameters are written as the driver wants them."""
        cursor = self.connection.cursor()
        if self._watches_here:
            self._driver.check_runs()
            self._savepoints.statement(statement)
        if parameters is None:
            cursor.execute(statement)
        else:
            cursor.execute(statement, parameters)
        return cursor

    def send(self, *messages: Message) -> None:
        """Send these messages when the block commits, and never when it does not.

        The half messages are sent now, and the commit waits for them. Raises MessageIllegal.
        """
        _ = self.connection
        if self._enlistment is None:
            self._enlistment = self._enlist()
        for message in messages:
            self._enlistment.send(message, self._savepoints.level)

    def _drop(self, belongs: Callable[[object], bool]) -> None:
        if self._enlistment is not None:
            self._enlistment.drop(belongs)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """``with tx.savepoint():`` rolls back what was done in it, and drops its messages, when an error leaves it.

        A SAVEPOINT that you execute yourself does not drop messages.
        """
        self._made += 1
        name = f"gantrymq_{self._made}"
        self.execute(f"SAVEPOINT {name}")
        try:
            yield
            self.execute(f"RELEASE SAVEPOINT {name}")
        except BaseException:
            self._roll_back_to(name)
            raise

    def _roll_back_to(self, name: str) -> None:
        self._savepoints.statement(f"ROLLBACK TO SAVEPOINT {name}")  # also when the connection is lost
        try:
            self.execute(f"ROLLBACK TO SAVEPOINT {name}")
            self.execute(f"RELEASE SAVEPOINT {name}")
        except Exception as error:  # noqa: BLE001 - the caller's own error is raised, and the block cannot commit
            self._broken = error

    def __enter__(self) -> Self:
        if self._used:
            raise ConfigError("this transaction was used already; begin another one with transactions.begin()")
        self._used = True
        connection = self._connect()
        driver = driver_of(connection)
        if id(connection) in _in_use:
            raise ConfigError("a block commits this connection already; inside of it, use `with tx.savepoint():`")
        _in_use.add(id(connection))
        self._connection, self._driver = connection, driver
        self._watches_here = not isinstance(driver, PyMySQLDriver)  # whose own watch sees all cursors
        try:
            driver.begin()
            driver.watch(self._savepoints)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ = self.connection
        try:
            if kind is None:
                self._commit()
            else:
                self._leave_with_error()
        finally:
            self._leave()

    def _commit(self) -> None:
        enlistment, commits = self._enlistment, False
        try:
            if self._broken is not None:
                raise TransactionBroken("a savepoint of this transaction could not be rolled back") from self._broken
            self._driver.verify()
            if enlistment is not None:
                self._savepoints.check()
                enlistment.mark = self._driver.mark
                enlistment.prepare(self._driver.insert)
            commits = True
            self._driver.commit()
        except BaseException as error:
            self._give_up(certain=not commits)
            raised = error_after(error, enlistment)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
        else:
            if enlistment is not None:
                enlistment.committed()

    def _leave_with_error(self) -> None:
        """Roll back. Raises when a part of the block was committed before: the row would be there, and the message not.
        A deadlock has rolled everything back, and is raised as it is."""
        broken: TransactionBroken | None = None
        try:
            self._driver.verify_at_rollback()
        except TransactionBroken as found:
            broken = found
        except Exception:  # noqa: BLE001 - the connection was lost, and the server rolls back
            log.debug("a connection was lost before the rollback")
        self._give_up(certain=True)
        if broken is not None:
            raise broken

    def _give_up(self, certain: bool) -> None:
        """Roll back, then settle. Who sees the error of the block wants that one, and not what comes of it here.

        ``certain``: no commit was tried.
        """
        try:
            certain = self._driver.rollback() or certain
        except Exception:  # noqa: BLE001 - as above; a connection in an unknown state must not keep its locks
            with suppress(Exception):
                self.connection.close()
        if self._enlistment is not None:
            try:
                if certain:
                    self._enlistment.rolled_back()
                else:
                    self._enlistment.failed()
            except Exception as error:  # noqa: BLE001 - as above
                log.warning("brokers will ask how transaction %s ended: %r", self.transaction_id, error)

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        with suppress(Exception):
            self._driver.unwatch()
        _in_use.discard(id(connection))
        if self._ours:
            with suppress(Exception):  # it may be closed already, and what the block did is decided
                connection.close()
