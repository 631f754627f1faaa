"""MySQL and MariaDB as one of the databases of a job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gantrymq.spark.pipelines.describe.mysql_address import MysqlAddress

PASSWORD: Final = "MYSQL_PWD"
"""The variable of the environment that MySQL's own programs read, too."""
CONNECT_SECONDS: Final = 10
LOCK_SECONDS: Final = 30
"""For a table that another session changes. The server would wait for a day; the batch is tried again instead."""
_STRICT: Final = (
    "STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,"
    "NO_AUTO_VALUE_ON_ZERO"
)
"""What does not fit is an error, and is not made to fit."""
_BEGIN_EACH: Final = (
    f"SET SESSION sql_mode = '{_STRICT}', time_zone = '+00:00', lock_wait_timeout = {LOCK_SECONDS}",
    # A transaction that is open for one target must see what tasks have staged for the next one meanwhile.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_TAKES_TURNS: Final = (1205, 1213)
"""Errors of a statement that waited too long for a lock, and of a deadlock."""
_OF_ROWS: Final = frozenset({
    1048, 1062, 1216, 1217, 1264, 1265, 1292, 1366, 1367, 1406, 1411, 1441, 1451, 1452, 1557, 1644, 1690, 1761, 1762,
    3140, 3156, 3819, 4025,
})  # fmt: skip
"""Errors of values that do not fit, of constraints that do not hold, and of triggers that say no. 3819 is a CHECK of
MySQL, and 4025 one of MariaDB."""


class MysqlSession:
    """One connection in autocommit, whose values stay as they are or are refused."""

    def __init__(self, address: MysqlAddress) -> None:
        import pymysql

        password = os.environ.get(PASSWORD, "") if address.password is None else address.password
        self._connection = pymysql.connect(
            host=address.host, port=address.port, user=address.user, password=password, database=address.database,
            charset="utf8mb4", autocommit=True, connect_timeout=CONNECT_SECONDS, ssl_ca=address.ssl_ca,
            ssl_verify_cert=address.ssl_ca is not None, ssl_verify_identity=address.ssl_ca is not None,
        )  # fmt: skip
        for statement in _BEGIN_EACH:
            self.execute(statement)

    @property
    def closed(self) -> bool:
        return not self._connection.open

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        """Execute a statement; its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(values))
            return list(cursor.fetchall()) if cursor.description else []

    def insert(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute an INSERT of many rows. ``statement`` ends in VALUES with a ``%s`` for each value."""
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()


@dataclass(frozen=True, slots=True)
class MysqlServer:
    """A ``databases.Server``."""

    address: MysqlAddress
    name: str = "MySQL"
    quote: str = "`"
    begin: Sequence[str] = ("BEGIN",)

    def connect(self) -> MysqlSession:
        return MysqlSession(self.address)

    def errors(self) -> type[Exception]:
        import pymysql

        return pymysql.err.Error

    def losses(self) -> type[Exception]:
        import pymysql

        # Also that of a connection that the driver has closed, which is an InterfaceError.
        return pymysql.err.Error

    def gave_way(self, error: Any) -> bool:
        return code_of(error) in _TAKES_TURNS


def code_of(error: Any) -> int:
    """The number of an error; 0 if it has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def is_of_rows(error: Any) -> bool:
    """Whether other rows could be inserted."""
    return code_of(error) in _OF_ROWS


def said_by(error: Any) -> str:
    """Why the server refuses a row."""
    return f"MySQL refuses the row: {error.args[-1] if error.args else error}"


def quoted(name: str) -> str:
    """A name of SQL, of a table with its database, too. A ``%`` would be taken for a value."""
    return ".".join(f"`{part.replace('`', '``').replace('%', '%%')}`" for part in name.split("."))


def column(name: str) -> str:
    """The name of a column, which may have a point in it."""
    return f"`{name.replace('`', '``').replace('%', '%%')}`"
