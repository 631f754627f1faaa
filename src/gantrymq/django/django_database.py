"""A database of the project, asked on connections that belong to no thread of Django: for check-backs and claims.

They are in autocommit, whatever the project's setting is. A few of them are kept open between check-backs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from gantrymq.errors import ConfigError
from gantrymq.sql.rows.dialect import BEGIN, KINDS, SHARED_NAME, VENDORS, Dialect, dialect_of_vendor
from gantrymq.sql.transaction.database import Counted, Rows

IDLE: Final = 4
"""As many as there are threads that answer check-backs (``check_threads``)."""
_inherited: Final[list[BaseDatabaseWrapper]] = []
"""Connections of the process that this one was forked from. To close them here would end them there."""


class DjangoDatabase:
    """The database with this alias. Any thread may use it, also after a fork."""

    def __init__(self, using: str, claim_timeout_s: float = 2.0) -> None:
        self.using: Final = using
        self._claim_timeout_s = claim_timeout_s
        self._idle: list[BaseDatabaseWrapper] = []
        self._pid = os.getpid()

    def dialect(self) -> Dialect:
        connection = self._take()
        dialect = dialect_of_connection(connection)
        self._idle.append(connection)
        return dialect

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        connection = self._take()
        rows: Rows = ()
        with self._on(connection):
            for statement, parameters in statements:
                rows = execute(connection, statement, parameters) or rows
        return rows

    def kept(self) -> DjangoDatabase:
        return self

    def rest(self) -> None:
        """It keeps idle connections itself."""

    def together(self, statements: Sequence[Counted]) -> bool:
        connection = self._take()
        with self._on(connection):
            execute(connection, BEGIN[dialect_of_connection(connection).kind], ())
            for text, parameters, count in statements:
                if insert(connection, text, parameters) != count:
                    execute(connection, "ROLLBACK", ())
                    return False
            execute(connection, "COMMIT", ())
        return True

    @contextmanager
    def _on(self, connection: BaseDatabaseWrapper) -> Iterator[None]:
        try:
            if not connection.get_autocommit():
                connection.set_autocommit(True)
            yield
        except BaseException:
            # It may be lost, and so may the idle ones. Settings of it may be left behind.
            _close(connection)
            self.close()
            raise
        if len(self._idle) < IDLE:
            self._idle.append(connection)
        else:
            _close(connection)

    def close(self) -> None:
        """Close the idle connections. It may be used again."""
        self._leave_to_parent()
        with suppress(IndexError):
            while True:
                _close(self._idle.pop())

    def _take(self) -> BaseDatabaseWrapper:
        self._leave_to_parent()
        with suppress(IndexError):
            return self._idle.pop()
        connection = connections.create_connection(self.using)
        connection.settings_dict = self._settings(connection)
        connection.inc_thread_sharing()
        return connection

    def _leave_to_parent(self) -> None:
        if self._pid != os.getpid():
            _inherited.extend(self._idle)
            self._idle, self._pid = [], os.getpid()

    def _settings(self, connection: BaseDatabaseWrapper) -> dict[str, Any]:
        # Not from Django's pool: its connections may all wait for this claim.
        options = {key: value for key, value in connection.settings_dict["OPTIONS"].items() if key != "pool"}
        if connection.vendor in KINDS and KINDS[connection.vendor].facts.in_process:  # no such limit for one statement
            options["timeout"] = self._claim_timeout_s
        return {**connection.settings_dict, "OPTIONS": options}


def dialect_of_connection(connection: BaseDatabaseWrapper) -> Dialect:
    """Connects to find out which of MySQL and MariaDB it is."""
    vendor = connection.vendor
    if vendor not in VENDORS:
        raise ConfigError(
            f"the database {connection.alias!r} is of the kind {vendor!r}, which is not supported; "
            f"supported are {', '.join(VENDORS)}"
        )
    is_mariadb = vendor == SHARED_NAME and connection.mysql_is_mariadb
    return dialect_of_vendor(vendor, "format", is_mariadb)  # Django's cursors take %s for every database


def execute(connection: BaseDatabaseWrapper, statement: str, parameters: tuple[Any, ...]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else ()


def insert(connection: BaseDatabaseWrapper, statement: str, parameters: tuple[Any, ...]) -> int:
    """How many rows it has inserted."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)


def _close(connection: BaseDatabaseWrapper) -> None:
    with suppress(Exception):  # it is of no use any more
        connection.close()
