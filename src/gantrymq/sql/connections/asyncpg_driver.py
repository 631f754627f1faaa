"""asyncpg: a transaction is begun by ``connection.transaction()``, and what runs outside of one commits by itself.

| what                        | how                                                                                  |
|-----------------------------|--------------------------------------------------------------------------------------|
| a transaction of the block  | ``connection.transaction()``, so that those of the program inside of it are          |
|                             | savepoints. One that the program began by BEGIN is taken over                        |
| nobody else may end it      | the mark of ``proof``; the driver also knows whether a transaction runs              |
| savepoints of the program   | a query logger sees each statement, also those of ``transaction()``, one turn of the |
|                             | event loop later: see ``LaterSavepoints``                                            |

Sources: asyncpg, Connection.transaction, Connection.add_query_logger, Connection.is_in_transaction.
"""

from __future__ import annotations

from typing import Any, Final

from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql.connections.drivers import INSIDE_ANOTHER, Note
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import ENDED_AND_ON, FAILED_INSIDE
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.transaction.database import Rows

FAILED_TRANSACTION: Final = "25P02"
"""SQLSTATE in_failed_sql_transaction."""


class AsyncpgDriver:
    """One transaction on one connection of asyncpg, perhaps of its pool."""

    parameter_style: Final = "numeric_dollar"
    tells_later: Final = True
    sees_all: Final = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.held: Any = getattr(connection, "_con", None) or connection  # a pool gives out proxies
        self.mark = ""
        self._block: Any = None
        self._note: Any = None

    def dialect(self) -> Dialect:
        return Dialect(DatabaseKind.POSTGRESQL, self.parameter_style)

    async def begin(self) -> None:
        if getattr(self.held, "_top_xact", None) is not None:
            raise ConfigError(INSIDE_ANOTHER)
        if not self._connection.is_in_transaction():
            self._block = self._connection.transaction()
            await self._block.start()
        self.mark = proof.new_mark()
        try:
            await self._told(self.execute(proof.place_mark(self.dialect(), self.mark)))
        except BaseException:
            if self._block is not None:
                await self.rollback()
            raise

    def check_runs(self) -> None:
        """The driver knows it. Of a connection that is closed, the next statement says it."""
        if not self._connection.is_closed() and not self._connection.is_in_transaction():
            raise TransactionBroken(ENDED_AND_ON)

    async def verify(self, proved: bool) -> None:
        self.check_runs()
        if not proved:
            found = await self._told(self._connection.fetchval(proof.look(DatabaseKind.POSTGRESQL)))
            if found != self.mark:
                raise TransactionBroken(ENDED_AND_ON)

    async def verify_at_rollback(self) -> None:
        """PostgreSQL commits nothing by itself. But behind a COMMIT of the program, each statement does."""
        self.check_runs()

    async def run(self, statement: str, parameters: Any) -> Any:
        return await self._connection.fetch(statement, *(parameters or ()))

    async def execute(self, statement: Statement) -> Rows:
        return [tuple(row) for row in await self._connection.fetch(statement[0], *statement[1])]

    async def insert(self, statement: Statement) -> int:
        status: str = await self._told(self._connection.execute(statement[0], *statement[1]))
        return int(status.rpartition(" ")[2])

    async def commit(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            await block.commit()
        else:
            await self._connection.execute("COMMIT")

    async def rollback(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            await block.rollback()
        elif self._connection.is_in_transaction():
            await self._connection.execute("ROLLBACK")

    def watch(self, note: Note) -> None:
        def told(query: Any) -> None:
            if query.exception is None:
                note.statement(query.query)

        self._note = told
        self._connection.add_query_logger(told)

    def unwatch(self) -> None:
        self._connection.remove_query_logger(self._note)

    async def stand_alone(self) -> None:
        """It is in autocommit, where no transaction was begun."""

    async def close(self) -> None:
        await self._connection.close()

    async def _told(self, work: Any) -> Any:
        """What PostgreSQL says of a transaction that has failed, in words for its reader."""
        try:
            return await work
        except Exception as error:
            if getattr(error, "sqlstate", None) == FAILED_TRANSACTION:
                raise TransactionBroken(FAILED_INSIDE) from error
            raise
