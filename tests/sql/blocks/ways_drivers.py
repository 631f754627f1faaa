"""The ways in by asyncpg and aiomysql, without SQLAlchemy."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.sql.blocks.play import Impossible
from tests.sql.blocks.statements import BEHIND, NOTHING, PROGRAM, TENANT, UNDONE
from tests.sql.blocks.ways import Body
from tests.sql.blocks.ways_async import AsyncConnectionHands, AsyncConnectionSite


class AsyncpgHands(AsyncConnectionHands):
    """``tx`` on a connection of asyncpg."""

    async def execute(self, statement: str) -> Any:
        rows = await self._tx.execute(statement)
        return rows[0][0] if rows else None

    async def call(self, kind: str) -> str:
        if kind == "close":
            await self._tx.connection.close()
            return UNDONE
        if kind == "terminate":
            self._tx.connection.terminate()
            return UNDONE
        if kind == "script":  # by the simple protocol
            await self._tx.connection.execute("SELECT 1; SELECT 2")
            return NOTHING
        raise Impossible


class AsyncpgSite(AsyncConnectionSite):
    """``AsyncTransactions(group, lambda: asyncpg.connect(dsn))``."""

    way = "asyncpg"
    forms = ("begin", "on", "on_begun", "run", "other_loop")
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": ("default", "pool", "no_cache", "serializable", "proxy", "fresh")
    }
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"postgresql": ("close", "terminate", "script")}
    hands = AsyncpgHands

    async def connect(self) -> Any:
        import asyncpg

        known: dict[str, dict[str, Any]] = {
            "no_cache": {"statement_cache_size": 0},
            "serializable": {"server_settings": {"default_transaction_isolation": "serializable"}},
        }
        return await asyncpg.connect(self.place.dsn, **known.get(self.setting, {}))

    async def begin_by_hand(self, connection: Any) -> None:
        await connection.execute("BEGIN")

    async def block(self, form: str, body: Body) -> None:
        if form == "on" and self.setting == "pool":
            import asyncpg

            pool = asyncpg.create_pool(self.place.dsn, min_size=1, max_size=1)
            async with pool, pool.acquire() as connection, self.transactions.on(connection) as tx:
                await body(AsyncpgHands(self, tx))
        else:
            await super().block(form, body)


class AiomysqlHands(AsyncConnectionHands):
    """``tx`` on a connection of aiomysql."""

    async def call(self, kind: str) -> str:
        connection = self._tx.connection
        if kind in ("commit", "rollback", "begin"):
            await getattr(connection, kind)()
            return {"commit": PROGRAM, "rollback": UNDONE, "begin": BEHIND}[kind]
        if kind == "close":
            connection.close()
            return UNDONE
        if kind == "autocommit":
            await connection.autocommit(True)
            return PROGRAM
        if kind == "select_db":
            await connection.select_db(f"{self._site.ground.place.name}_{TENANT}")
            return NOTHING
        raise Impossible


class AiomysqlSite(AsyncConnectionSite):
    """``AsyncTransactions(group, lambda: aiomysql.connect(...))``."""

    way = "aiomysql"
    forms = ("begin", "on", "on_begun", "run", "other_loop")
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "mariadb": ("default", "autocommit", "dict_rows", "chain", "serializable", "proxy", "fresh")
    }
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = {"mariadb": ("ours", "raw", "raw_open")}
    calls: ClassVar[dict[str, tuple[str, ...]]] = {
        "mariadb": ("commit", "rollback", "close", "autocommit", "begin", "select_db")
    }
    hands = AiomysqlHands

    async def connect(self) -> Any:
        import aiomysql

        place = self.place
        options: dict[str, Any] = {
            "autocommit": {"autocommit": True},
            "dict_rows": {"cursorclass": aiomysql.DictCursor},
            "chain": {"init_command": "SET completion_type = 'CHAIN'"},
            "serializable": {"init_command": "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"},
        }.get(self.setting, {})
        return await aiomysql.connect(host="127.0.0.1", port=place.port, user=place.user, db=place.name, **options)

    async def begin_by_hand(self, connection: Any) -> None:
        await (await connection.cursor()).execute("SELECT 1")

    async def disconnect_own(self, connection: Any) -> None:
        connection.close()
