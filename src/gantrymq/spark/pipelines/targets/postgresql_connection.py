"""A connection to PostgreSQL that is opened again after it was lost, as when the server was restarted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from gantrymq.errors import ConfigError, GantryError


class TargetAway(GantryError):
    """The server of a target cannot be reached. Nothing of an open transaction is stored, and the same batch may be
    written again."""

    retryable = True


class PostgresqlConnection:
    """One connection at a time."""

    def __init__(self, dsn: str, target: str, open_now: Any) -> None:
        self._dsn = dsn
        self._target = target
        self._open: Any = open_now

    @classmethod
    def to(cls, dsn: str, target: str) -> Self:
        """``target``: its name in the job, for errors. Raises ConfigError when the server cannot be reached now."""
        import psycopg

        try:
            return cls(dsn, target, psycopg.connect(dsn, autocommit=True))
        except psycopg.Error as error:
            raise ConfigError(
                f"targets.{target}: PostgreSQL refuses: {str(error).strip()}; check dsn and table"
            ) from error

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """The connection, which is opened again if it was lost. Raises TargetAway when it is lost meanwhile."""
        import psycopg

        try:
            if self._open.closed:
                self._open = psycopg.connect(self._dsn, autocommit=True)
            yield self._open
        except psycopg.OperationalError as error:
            if not self._open.closed:
                raise
            raise TargetAway(
                f"targets.{self._target}: the connection to PostgreSQL was lost: {str(error).strip()}; start the "
                "server, or correct dsn"
            ) from error

    def close(self) -> None:
        self._open.close()
