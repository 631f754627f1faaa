"""A blocking Database of SQLAlchemy for ``await``: that of an AsyncEngine, whose blocking side runs in greenlets."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.transaction.database import AsyncDatabase, Counted, Database, Rows


class GreenletDatabase:
    """For an event loop that the AsyncEngine belongs to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def dialect(self) -> Dialect:
        from sqlalchemy.util import greenlet_spawn

        found: Dialect = await greenlet_spawn(self._database.dialect)
        return found

    async def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        from sqlalchemy.util import greenlet_spawn

        rows: Rows = await greenlet_spawn(self._database.alone, statements)
        return rows

    async def together(self, statements: Sequence[Counted]) -> bool:
        from sqlalchemy.util import greenlet_spawn

        done: bool = await greenlet_spawn(self._database.together, statements)
        return done


def for_loop(database: Any) -> AsyncDatabase:
    """An AsyncDatabase as it is; another one in greenlets."""
    return database if inspect.iscoroutinefunction(database.alone) else GreenletDatabase(database)
