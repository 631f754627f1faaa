"""A blocking Database for an event loop: each call runs in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from gantrymq.sql.rows.dialect import Dialect
from gantrymq.sql.transaction.database import Counted, Database, Rows

IDLE_S: Final = 5.0
"""A connection that is kept is closed when there was no call for so long."""


class ThreadedDatabase:
    """One call after the other. It needs no end: its thread waits for nothing but calls."""

    def __init__(self, database: Database) -> None:
        self._database = database.kept()
        self._idle: asyncio.TimerHandle | None = None
        self._threads = ThreadPoolExecutor(1, "gantrymq-rows")

    async def dialect(self) -> Dialect:
        found: Dialect = await self._call(self._database.dialect)
        return found

    async def alone(self, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> Rows:
        rows: Rows = await self._call(self._database.alone, statements)
        return rows

    async def together(self, statements: Sequence[Counted]) -> bool:
        done: bool = await self._call(self._database.together, statements)
        return done

    def close(self) -> None:
        """Let the thread end behind what it is doing."""
        self._rest()
        self._threads.shutdown(wait=False)

    async def _call(self, function: Any, *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        try:
            return await loop.run_in_executor(self._threads, function, *arguments)
        finally:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = loop.call_later(IDLE_S, self._rest)

    def _rest(self) -> None:
        with suppress(RuntimeError):  # it is closed
            self._threads.submit(self._database.rest)
