"""The ways in on an event loop: AsyncSession on an AsyncEngine, and asynchronous connections of psycopg."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from gantrymq import Message
from gantrymq.sql import AsyncTransactions, send
from tests.sql.blocks.grounds import SETTINGS
from tests.sql.blocks.play import OWN, Impossible, UserError
from tests.sql.blocks.statements import NOTHING, PROGRAM, UNDONE
from tests.sql.blocks.ways import ATTEMPTS, ELSEWHERE, Body, Site, group_of
from tests.sql.blocks.ways_connections import Undo, raw_savepoint
from tests.sql.blocks.ways_sessions import TABLES, engine_of
from tests.sql.databases import ASYNC_DRIVERS

HANGS_S = 15.0
_loops: list[asyncio.AbstractEventLoop] = []


def loop() -> asyncio.AbstractEventLoop:
    """The event loop of all asynchronous ways in this process."""
    if not _loops:
        _loops.append(asyncio.new_event_loop())
    return _loops[0]


async def in_time(work: Any, seconds: float = HANGS_S) -> None:
    """The same, or TimeoutError. It is left as it is then: a cancellation may hang as well."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        raise TimeoutError(f"a block hung for {seconds:g} s")
    await task


class AsyncNested:
    def __init__(self, made: Any) -> None:
        self._made = made

    async def rollback(self) -> None:
        await self._made.rollback()


class AsyncSessionHands:
    """An AsyncSession that takes messages."""

    def __init__(self, site: AsyncSessionSite, session: Any, tx: Any = None) -> None:
        self._site, self._session, self._tx = site, session, tx

    async def execute(self, statement: str) -> Any:
        result = await self._session.execute(text(statement))
        return result.scalar() if result.returns_rows else None

    async def insert(self, table: str, number: int) -> None:
        await self._session.execute(TABLES[table].insert().values(id=number))

    async def send(self, message: Message) -> None:
        if self._tx is None:
            send(self._session, message)
        else:
            self._tx.send(message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "session":
            async with self._session.begin_nested() as made:
                yield AsyncNested(made)
        elif kind == "connection":
            async with (await self._session.connection()).begin_nested() as made:
                yield AsyncNested(made)
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    async def call(self, kind: str) -> str:
        if kind == "commit":
            await self._session.commit()
            return OWN
        if kind in ("rollback", "close", "invalidate"):
            await getattr(self._session, kind)()
            return UNDONE
        if kind == "autocommit":
            await self._session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
            return NOTHING
        if kind in ("connection_rollback", "connection_commit"):
            running = (await self._session.connection()).get_transaction()
            if running is None:  # it was ended so before
                raise Impossible
            await getattr(running, kind.removeprefix("connection_"))()
            return UNDONE if kind == "connection_rollback" else PROGRAM
        raise Impossible

    def cut(self, kind: str) -> None:
        def raw() -> Any:
            raise Impossible

        self._site.cut(kind, raw)


class AsyncSite(Site):
    def run(self, form: str, body: Body) -> None:
        if form in ELSEWHERE:
            other = asyncio.new_event_loop()
            try:
                other.run_until_complete(in_time(self.block(ELSEWHERE[form], body), 10.0))
            except RuntimeError as error:
                if form == "other_loop":
                    raise
                raise UserError("the session of the program is on another loop") from error  # not ours to refuse
            finally:
                if self.setting == "fresh":  # it was started on that loop, and cannot be closed from another
                    with suppress(Exception):
                        other.run_until_complete(in_time(self.disconnect(), 3.0))
                loop().run_until_complete(asyncio.sleep(0.02))  # an answer that came for the other loop is read here
                other.close()
        else:
            try:
                loop().run_until_complete(in_time(self.block(form, body)))
            finally:  # the rollback of a message that a savepoint dropped is sent in the background
                loop().run_until_complete(asyncio.sleep(0.005))

    async def block(self, form: str, body: Body) -> None:
        raise NotImplementedError

    async def disconnect(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        loop().run_until_complete(in_time(self.disconnect()))


class AsyncSessionSite(AsyncSite):
    """``AsyncTransactions(group, async_engine)``."""

    way = "async_sessions"
    forms = ("begin", "run", "maker", "plain", "open", "other_loop", "maker_elsewhere")
    ours = frozenset({"begin", "run", "other_loop"})
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": (
            "default", "psycopg", "autocommit", "option_autocommit", "maker_autocommit", "serializable", "null_pool",
            "prepare_0", "proxy", "fresh", "commit_listener",
        ),
        "sqlite": (
            "default", "autocommit", "option_autocommit", "driver_autocommit", "null_pool", "begin_event", "fresh",
            "commit_listener",
        ),
        "mariadb": (
            "default", "autocommit", "option_autocommit", "maker_autocommit", "driver_autocommit", "serializable",
            "null_pool", "reset_commit", "chain", "fresh", "proxy", "commit_listener",
        ),
    }  # fmt: skip
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "mariadb", "sqlite"), ("session", "connection", "raw", "raw_open")
    )
    calls: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "mariadb", "sqlite"),
        ("commit", "rollback", "close", "invalidate", "autocommit", "connection_rollback", "connection_commit"),
    )

    def open(self) -> None:
        kind = self.ground.kind
        usual = {**ASYNC_DRIVERS, "mariadb": "aiomysql"}[kind]
        driver = "psycopg" if self.setting in ("psycopg", "prepare_0") else usual
        self.engine = engine_of(
            self.place.url(driver), "" if kind == "postgresql" else kind, self.setting, make_async_engine
        )
        shown: Any = self.engine
        if self.setting == "option_autocommit":
            shown = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        bound = shown
        if self.setting == "maker_autocommit":
            bound = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        loop().run_until_complete(self._make(shown, bound))

    async def _make(self, shown: Any, bound: Any) -> None:
        self.transactions: Any = AsyncTransactions(group_of(self.ground), shown, **SETTINGS)
        self.maker = async_sessionmaker(bound)
        self.transactions.attach(self.maker)
        if self.setting != "fresh":
            await self.transactions.start()

    async def block(self, form: str, body: Body) -> None:
        if form == "begin":
            async with self.transactions.begin() as tx:
                await body(AsyncSessionHands(self, tx.session, tx))
        elif form == "run":
            await self.transactions.run(lambda tx: body(AsyncSessionHands(self, tx.session, tx)), ATTEMPTS)
        else:
            if asyncio.get_running_loop() is loop():
                await self.transactions.start()  # ``send`` cannot wait for it
            if form == "maker":
                async with self.maker.begin() as session:
                    await body(AsyncSessionHands(self, session))
            else:
                async with self.maker() as session:
                    await body(AsyncSessionHands(self, session))
                    if form == "plain":
                        await session.commit()

    async def disconnect(self) -> None:
        await self.transactions.close()
        await self.engine.dispose()


def make_async_engine(url: str, connect_args: dict[str, Any], **options: Any) -> Any:
    connect_args.pop("check_same_thread", None)
    return create_async_engine(url, connect_args=connect_args, **options)


class AsyncConnectionHands:
    """``tx`` on an asynchronous connection of psycopg."""

    def __init__(self, site: AsyncConnectionSite, tx: Any) -> None:
        self._site, self._tx = site, tx

    async def execute(self, statement: str) -> Any:
        cursor = await self._tx.execute(statement)
        row = await cursor.fetchone() if cursor.description else None
        return None if row is None else next(iter(row.values() if isinstance(row, dict) else row))

    async def insert(self, table: str, number: int) -> None:
        await self._tx.execute(f"INSERT INTO {table} (id) VALUES ({number})")

    async def send(self, message: Message) -> None:
        self._tx.send(message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "ours":
            async with self._tx.savepoint():
                yield Undo()
        elif kind == "driver":
            async with self._tx.connection.transaction():
                yield Undo()
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    async def call(self, kind: str) -> str:
        if kind not in ("commit", "rollback", "close"):
            raise Impossible
        await getattr(self._tx.connection, kind)()
        return PROGRAM if kind == "commit" else UNDONE

    def cut(self, kind: str) -> None:
        self._site.cut(kind, lambda: self._tx.connection)


class AsyncConnectionSite(AsyncSite):
    """``AsyncTransactions(group, connect)``."""

    hands: ClassVar[type[AsyncConnectionHands]] = AsyncConnectionHands

    way = "async_connections"
    forms = ("begin", "on", "run", "other_loop")
    ours = frozenset(forms)
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": ("default", "autocommit", "prepare_0", "proxy", "fresh")
    }
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = {"postgresql": ("ours", "driver", "raw", "raw_open")}
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"postgresql": ("commit", "rollback", "close")}

    def open(self) -> None:
        loop().run_until_complete(self._make())

    async def _make(self) -> None:
        self.transactions: Any = AsyncTransactions(group_of(self.ground), self.connect, **SETTINGS)
        if self.setting != "fresh":
            await self.transactions.start()

    async def connect(self) -> Any:
        import psycopg

        known: dict[str, dict[str, Any]] = {
            "autocommit": {"autocommit": True},
            "prepare_0": {"prepare_threshold": 0},
        }
        return await psycopg.AsyncConnection.connect(self.place.dsn, **known.get(self.setting, {}))

    async def block(self, form: str, body: Body) -> None:
        if form == "begin":
            async with self.transactions.begin() as tx:
                await body(self.hands(self, tx))
        elif form == "run":
            await self.transactions.run(lambda tx: body(self.hands(self, tx)), ATTEMPTS)
        else:
            connection = await self.connect()
            try:
                if form == "on_begun":
                    await self.begin_by_hand(connection)
                async with self.transactions.on(connection) as tx:
                    await body(self.hands(self, tx))
            finally:
                with suppress(Exception):  # it was lost
                    await self.disconnect_own(connection)

    async def begin_by_hand(self, connection: Any) -> None:
        """Of the program, before the block."""
        raise NotImplementedError

    async def disconnect_own(self, connection: Any) -> None:
        await connection.close()

    async def disconnect(self) -> None:
        await self.transactions.close()
