"""What the protocol needs of a database. Each way in has an implementation: SQLAlchemy, Django, DB-API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.rules.outcomes import Counted as Counted

Rows = Sequence[Sequence[Any]]


class Database(Protocol):
    """A database that can be asked on connections of its own, apart from any local transaction."""

    def dialect(self) -> Dialect:
        """Which one it is. May connect to find out."""

    def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        """Execute the statements on one connection in autocommit, each a transaction of its own.

        Returns the rows of the last one that has rows. Raises the driver's errors. A connection that was lost must not
        be used again.
        """

    def together(self, statements: Sequence[Counted]) -> bool:
        """Execute the statements on one connection, in one transaction. False: one of them has changed another number
        of rows than it must, and everything is rolled back.

        Raises the driver's errors. Then it is not known whether the transaction has committed.
        """

    def kept(self) -> Database:
        """The same database for many calls that follow each other in one thread. It may keep a connection between
        them, until ``rest``."""

    def rest(self) -> None:
        """There are no calls for a while: close the connection that is kept."""


class AsyncDatabase(Protocol):
    """The same on an event loop."""

    async def dialect(self) -> Dialect: ...

    async def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows: ...

    async def together(self, statements: Sequence[Counted]) -> bool: ...


class BlockingDatabase:
    """A Database as the port of ``run_blocking``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dialect(self) -> Dialect:
        return self._database.dialect()

    async def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        return self._database.alone(statements)

    async def together(self, statements: Sequence[Counted]) -> bool:
        return self._database.together(statements)
