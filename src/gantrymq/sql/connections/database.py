"""The database behind a function that connects, as the Database that claims are made in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final

from gantrymq.sql.connections.drivers import driver_of
from gantrymq.sql.rows.dialect import BEGIN, DatabaseKind, Dialect
from gantrymq.sql.transaction.database import Counted, Rows


class ConnectionDatabase:
    """A new connection for every call. Claims are rare, and a new one is never stale."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.connect = connect
        self.wait_ms = 2_000
        """How long SQLite waits for a writer. The others are told by their statements."""

    def dialect(self) -> Dialect:
        with closing(self.connect_checked()) as connection:
            return driver_of(connection).dialect()

    def connect_checked(self) -> Any:
        """A new connection. Raises ConfigError for what is none."""
        connection = self.connect()
        close = getattr(connection, "close", None)
        try:
            driver_of(connection)
        except BaseException:
            if close is not None:  # of a coroutine, too
                close()
            raise
        return connection

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        rows: Rows = ()
        with closing(self.connect_checked()) as connection:
            driver = driver_of(connection)
            driver.stand_alone(self.wait_ms)
            for statement in statements:
                rows = driver.execute(statement) or rows
        return rows

    def together(self, statements: Sequence[Counted]) -> bool:
        with closing(self.connect_checked()) as connection:
            driver = driver_of(connection)
            driver.stand_alone(self.wait_ms)
            return _together(driver, statements)

    def kept(self) -> KeptConnection:
        return KeptConnection(self)

    def rest(self) -> None:
        """Every call has closed its connection."""


class KeptConnection:
    """One connection for calls that follow each other, all in one thread. An error closes it, and so does ``rest``.
    A connection of SQLite is not kept."""

    def __init__(self, database: ConnectionDatabase) -> None:
        self._database: Final = database
        self._connection: Any = None

    def dialect(self) -> Dialect:
        return self._database.dialect()

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        def execute(driver: Any) -> Rows:
            rows: Rows = ()
            for statement in statements:
                rows = driver.execute(statement) or rows
            return rows

        found: Rows = self._on_driver(execute)
        return found

    def together(self, statements: Sequence[Counted]) -> bool:
        return bool(self._on_driver(lambda driver: _together(driver, statements)))

    def _on_driver(self, work: Callable[[Any], Any]) -> Any:
        try:
            driver = self._driver()
            done = work(driver)
        except BaseException:
            self.rest()
            raise
        if driver.dialect().kind is DatabaseKind.SQLITE:
            self.rest()  # a forked child must not even close it, and to open a file costs little
        return done

    def kept(self) -> KeptConnection:
        return self

    def rest(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be lost
                connection.close()

    def _driver(self) -> Any:
        if self._connection is None:
            connection = self._database.connect_checked()
            try:
                driver_of(connection).stand_alone(self._database.wait_ms)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return driver_of(self._connection)


def _together(driver: Any, statements: Sequence[Counted]) -> bool:
    """``Database.together`` on a connection in autocommit."""
    driver.execute((BEGIN[driver.dialect().kind], ()))
    for text, parameters, count in statements:
        if driver.insert((text, parameters)) != count:
            driver.execute(("ROLLBACK", ()))
            return False
    driver.execute(("COMMIT", ()))
    return True
