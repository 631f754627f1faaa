"""How statements are written for a database and its driver. Values only.

Statements are kept with ``?`` for every parameter, and none of them has a ``?`` or a ``%`` elsewhere.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Any, Final, Self

from gantrymq.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """In what the behaviour of databases differs, beside the texts of statements (``tables``, ``place``, ``proof``)
    and the codes of errors (``failures``)."""

    compares_mark: bool = False
    """The insert of the outcome row compares the mark of a block, which is a setting of the transaction. Elsewhere the
    mark is a savepoint, and its release looks for it; see ``rules.proof``."""
    refuses_after_error: bool = False
    """Behind a statement that failed, it refuses everything but a rollback. Others roll back that statement, or after
    a conflict the transaction, and go on."""
    commits_implicitly: bool = False
    """A statement may commit behind everybody's back: DDL, LOCK TABLES."""
    in_process: bool = False
    """It is a library in this process: its driver begins transactions and knows whether one runs, and a claim waits as
    long as the connection says."""


class DatabaseKind(enum.Enum):
    """The databases whose behaviour is known here and tested."""

    _value_: str
    facts: Facts

    POSTGRESQL = "postgresql", Facts(compares_mark=True, refuses_after_error=True)
    MYSQL = "mysql", Facts(commits_implicitly=True)
    MARIADB = "mariadb", Facts(commits_implicitly=True)
    SQLITE = "sqlite", Facts(in_process=True)

    def __new__(cls, name: str, facts: Facts) -> Self:
        made = object.__new__(cls)
        made._value_, made.facts = name, facts
        return made


BEGIN: Final = {
    DatabaseKind.POSTGRESQL: "BEGIN",
    DatabaseKind.MYSQL: "BEGIN",
    DatabaseKind.MARIADB: "BEGIN",
    DatabaseKind.SQLITE: "BEGIN IMMEDIATE",  # it waits for whoever is writing; a later statement might not
}
"""Begins a transaction that writes, on a connection in autocommit."""
KINDS: Final = {kind.value: kind for kind in DatabaseKind}
SHARED_NAME: Final = DatabaseKind.MYSQL.value
"""What SQLAlchemy and Django also call MariaDB. Which of the two it is, they know behind the first connection."""
VENDORS: Final = tuple(name for name in KINDS if name != DatabaseKind.MARIADB.value)
"""The names that SQLAlchemy and Django have."""
PARAMETER_STYLES: Final = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric_dollar": "$", "numeric": ":"}
"""PEP 249's names, and SQLAlchemy's for asyncpg."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A kind of database, and how its driver wants parameters."""

    kind: DatabaseKind
    parameter_style: str

    def written(self, statement: str) -> str:
        """A statement as the driver wants it."""
        mark = PARAMETER_STYLES[self.parameter_style]
        if mark == "?":
            return statement
        if mark == "%s":
            return statement.replace("?", mark)
        numbers = iter(range(1, statement.count("?") + 1))
        return re.sub(r"\?", lambda _: f"{mark}{next(numbers)}", statement)


def dialect_of(kind: str, parameter_style: str) -> Dialect:
    """Raises ConfigError for a database or a parameter style that is not known here."""
    if kind not in KINDS:
        raise ConfigError(f"the database {kind!r} is not supported; supported are {', '.join(KINDS)}")
    if parameter_style not in PARAMETER_STYLES:
        raise ConfigError(
            f"the parameter style {parameter_style!r} of the driver is not supported; supported are "
            f"{', '.join(PARAMETER_STYLES)}"
        )
    return Dialect(KINDS[kind], parameter_style)


def dialect_of_vendor(vendor: str, parameter_style: str, is_mariadb: bool) -> Dialect:
    """For a name of ``VENDORS``."""
    maria = vendor == SHARED_NAME and is_mariadb
    return dialect_of(DatabaseKind.MARIADB.value if maria else vendor, parameter_style)


def dialect_in_sqlalchemy(dialect: Any) -> Dialect:
    """For a Dialect of SQLAlchemy that has connected."""
    return dialect_of_vendor(dialect.name, dialect.paramstyle, getattr(dialect, "is_mariadb", False))


def kind_of_server(version: object) -> DatabaseKind:
    """For what a server says of itself to drivers of MySQL."""
    return DatabaseKind.MARIADB if "mariadb" in str(version).lower() else DatabaseKind.MYSQL
