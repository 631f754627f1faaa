"""What an error of a database means for the protocol. Reads the errors of all supported drivers.

A driver's error may be wrapped, by SQLAlchemy (``orig``) or by Django (``__cause__``). Sources: PostgreSQL "Appendix A.
Error Codes", MySQL "Server Error Message Reference", SQLite "Result and Error Codes".
"""

from __future__ import annotations

import enum
import sqlite3
from typing import Any, Final


class Failure(enum.Enum):
    """Why a statement failed."""

    DUPLICATE = "duplicate"
    """A row with this key exists."""
    NOT_NULL = "not null"
    """A column takes no NULL. See ``place``: that is how an outcome row is refused."""
    CONFLICT = "conflict"
    """A deadlock, or a serialization failure: the same transaction may succeed when it is run again."""
    LOCKED = "locked"
    """Another transaction holds the row, and the time to wait is over."""
    DISCONNECTED = "disconnected"
    """The connection is lost. The statement may have been carried out."""
    READ_ONLY = "read-only"
    """The server takes no writes: a replica, perhaps after a failover."""
    NO_TABLE = "no table"
    EXISTS = "exists"
    """A table, a column or an index of this name is there, or is being made."""
    OTHER = "other"


_STATES: Final = {
    "23505": Failure.DUPLICATE,
    "23502": Failure.NOT_NULL,
    "40001": Failure.CONFLICT,
    "40P01": Failure.CONFLICT,
    "55P03": Failure.LOCKED,
    "57014": Failure.LOCKED,  # statement_timeout
    "25006": Failure.READ_ONLY,
    "42P01": Failure.NO_TABLE,
    "3F000": Failure.NO_TABLE,
    "42P07": Failure.EXISTS,
    "42710": Failure.EXISTS,
    "42701": Failure.EXISTS,
    "57P01": Failure.DISCONNECTED,
    "57P02": Failure.DISCONNECTED,
    "57P03": Failure.DISCONNECTED,
    "57P05": Failure.DISCONNECTED,
}
"""PostgreSQL's SQLSTATE; class 08 is a lost connection, too."""
_NUMBERS: Final = {
    1062: Failure.DUPLICATE,
    1205: Failure.LOCKED,
    1213: Failure.CONFLICT,
    1020: Failure.CONFLICT,  # MariaDB: record has changed since last read (innodb_snapshot_isolation)
    1290: Failure.READ_ONLY,
    1792: Failure.READ_ONLY,
    1836: Failure.READ_ONLY,
    1146: Failure.NO_TABLE,
    1050: Failure.EXISTS,
    1060: Failure.EXISTS,
    1061: Failure.EXISTS,
    1053: Failure.DISCONNECTED,
    1927: Failure.DISCONNECTED,
    2003: Failure.DISCONNECTED,
    2006: Failure.DISCONNECTED,
    2013: Failure.DISCONNECTED,
    2014: Failure.DISCONNECTED,
    2055: Failure.DISCONNECTED,
}
"""MySQL's and MariaDB's error numbers."""
_MYSQL_DRIVERS: Final = {"pymysql", "MySQLdb", "aiomysql", "asyncmy", "mysql"}
_SQLITE: Final = {
    "SQLITE_CONSTRAINT_PRIMARYKEY": Failure.DUPLICATE,
    "SQLITE_CONSTRAINT_UNIQUE": Failure.DUPLICATE,
    "SQLITE_CONSTRAINT_NOTNULL": Failure.NOT_NULL,
    "SQLITE_BUSY": Failure.LOCKED,
    "SQLITE_BUSY_SNAPSHOT": Failure.CONFLICT,
    "SQLITE_LOCKED": Failure.LOCKED,
    "SQLITE_READONLY": Failure.READ_ONLY,
}


def read_failure(error: BaseException) -> Failure:
    """The meaning of what a driver, SQLAlchemy or Django raised."""
    if getattr(error, "connection_invalidated", False) is True:  # SQLAlchemy knows that the connection is gone
        return Failure.DISCONNECTED
    for cause in _causes(error):
        found = _read(cause)
        if found is not None:
            return found
    return Failure.OTHER


def is_about(error: BaseException, table: str) -> bool:
    """Whether an error can be one of this table. psycopg says which table's constraint was broken: a deferred one of
    another table is noticed by the commit only."""
    for cause in _causes(error):
        named = getattr(getattr(cause, "diag", None), "table_name", None)
        if isinstance(named, str):
            return named == table.rpartition(".")[2].lower()
    return True


def is_database_error(error: BaseException) -> bool:
    """Whether it came from a database at all: PEP 249's class Error, under any of the drivers or frameworks."""
    return any(
        kind.__name__ == "Error" or kind.__module__.startswith(("sqlalchemy.", "django.db", "asyncpg."))
        for cause in _causes(error)
        for kind in type(cause).__mro__
    )


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    following: Any = error
    while isinstance(following, BaseException) and following not in found:
        found.append(following)
        following = getattr(following, "orig", None) or following.__cause__
    return found


def _read(error: BaseException) -> Failure | None:
    number = error.args[0] if error.args else None
    if isinstance(number, int) and type(error).__module__.partition(".")[0] in _MYSQL_DRIVERS:
        # Before the SQLSTATE, which PyMySQL has as well: it says less.
        return _NUMBERS.get(number) or (Failure.DISCONNECTED if number == 0 else None)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)  # psycopg2 calls it pgcode
    if isinstance(state, str):
        return Failure.DISCONNECTED if state.startswith("08") else _STATES.get(state)
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_ERROR" and "no such table" in str(error):
            return Failure.NO_TABLE
        if name == "SQLITE_ERROR" and ("already exists" in str(error) or "duplicate column name" in str(error)):
            return Failure.EXISTS
        return _SQLITE.get(name) or _SQLITE.get("_".join(name.split("_")[:2]))
    if isinstance(error, ConnectionError | TimeoutError):
        return Failure.DISCONNECTED
    name = type(error).__name__
    if name in {"OperationalError", "InterfaceError"} and type(error).__module__.startswith("psycopg"):
        return Failure.DISCONNECTED  # psycopg: no SQLSTATE means that no server has said it
    if name in {"ConnectionDoesNotExistError", "InterfaceError"} and type(error).__module__.startswith("asyncpg"):
        return Failure.DISCONNECTED
    return None
