"""aiomysql, with MySQL and MariaDB: PyMySQL with ``await``, and so are its rules; see ``PyMySQLDriver``."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from gantrymq.errors import TransactionBroken
from gantrymq.sql.connections.drivers import Note
from gantrymq.sql.connections.mysql_ends import Ends
from gantrymq.sql.rows.dialect import Dialect, kind_of_server
from gantrymq.sql.rules import proof
from gantrymq.sql.rules.broken import ENDED_INSIDE
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.transaction.database import Rows
from gantrymq.sql.transaction.guard import IN_TRANSACTION


class AiomysqlDriver:
    """One transaction on one connection of aiomysql."""

    parameter_style: Final = "format"
    tells_later: Final = False
    sees_all: Final = True
    mark = ""

    def __init__(self, connection: Any) -> None:
        self._connection = self.held = connection
        self._ends = Ends(connection)
        self._ended_inside = False

    def dialect(self) -> Dialect:
        return Dialect(kind_of_server(self._connection.get_server_info()), self.parameter_style)

    async def begin(self) -> None:
        # Without autocommit a BEGIN would commit what runs already, of which the status may know nothing yet.
        if self._connection.get_autocommit() and not self._connection.server_status & IN_TRANSACTION:
            await self._connection.begin()
        await self.execute(proof.place_mark(self.dialect(), ""))

    async def verify(self, proved: bool) -> None:
        try:
            self._ends.check_not_committed()
            await self.execute((proof.RELEASE, ()))
        except Exception as error:
            self._ended_inside = isinstance(error, TransactionBroken) or proof.is_missing(error)
            if proof.is_missing(error):
                raise TransactionBroken(ENDED_INSIDE) from error
            raise

    async def verify_at_rollback(self) -> None:
        if self._ends.committed or not self._ends.rolled_back:
            await self.verify(proved=False)

    def check_runs(self) -> None:
        self._ends.check_runs()

    async def run(self, statement: str, parameters: Any) -> Any:
        cursor = await self._connection.cursor()
        await cursor.execute(statement, parameters)
        return cursor

    async def execute(self, statement: Statement) -> Rows:
        cursor = self._cursor()
        await cursor.execute(statement[0], statement[1] or None)
        return list(await cursor.fetchall()) if cursor.description is not None else []

    async def insert(self, statement: Statement) -> int:
        return int(await self._cursor().execute(*statement))

    def _cursor(self) -> Any:
        from aiomysql.cursors import Cursor

        return Cursor(self._connection)

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()
        if self._ended_inside:  # perhaps by LOCK TABLES, whose locks a connection of the program would keep
            await self.execute((proof.UNLOCK, ()))

    def watch(self, note: Note) -> None:
        query, begin, ends = self._connection.query, self._connection.begin, self._ends

        async def watched(sql: Any, *others: Any, **options: Any) -> Any:
            text = sql if isinstance(sql, str) else ""
            ends.before(text)
            note.statement(text)
            ran = ends.runs
            try:
                found = await query(sql, *others, **options)
            except Exception as error:
                ends.failed(error)
                raise
            ends.succeeded(ran, text)
            return found

        async def begun() -> None:
            ran = ends.runs
            await begin()
            ends.succeeded(ran, "BEGIN")

        self._connection.query, self._connection.begin = watched, begun  # where all cursors execute

    def unwatch(self) -> None:
        for name in ("query", "begin"):
            vars(self._connection).pop(name, None)

    async def stand_alone(self) -> None:
        await self._connection.autocommit(True)

    async def close(self) -> None:
        with suppress(Exception):  # the server may be gone
            await self._connection.ensure_closed()
        self._connection.close()
