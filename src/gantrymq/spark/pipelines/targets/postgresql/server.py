"""PostgreSQL as one of the databases of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_TAKES_TURNS: Final = ("40001", "40P01")
"""SQLSTATE of a transaction that the server has ended for the sake of another one, as in a deadlock."""


@dataclass(frozen=True, slots=True)
class PostgresqlServer:
    """A ``databases.Server``."""

    dsn: str
    name: str = "PostgreSQL"
    quote: str = '"'
    # A constraint that waits for the commit would fail where it is too late to leave a row out.
    begin: Sequence[str] = ("BEGIN", "SET CONSTRAINTS ALL IMMEDIATE")

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.dsn, autocommit=True)

    def errors(self) -> type[Exception]:
        import psycopg

        return psycopg.Error

    def losses(self) -> type[Exception]:
        import psycopg

        return psycopg.OperationalError

    def gave_way(self, error: Any) -> bool:
        return error.sqlstate in _TAKES_TURNS
