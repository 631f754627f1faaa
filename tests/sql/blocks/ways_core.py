"""The ways in by Core's connections, of an Engine and of an AsyncEngine that are attached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar

from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from gantrymq import Message
from gantrymq.sql import AsyncTransactions, send
from tests.sql.blocks.grounds import SETTINGS
from tests.sql.blocks.play import OWN, Impossible, at_once
from tests.sql.blocks.statements import NOTHING, PROGRAM, TENANT, UNDONE
from tests.sql.blocks.ways import ELSEWHERE, Body, Site, group_of, service
from tests.sql.blocks.ways_async import AsyncNested, AsyncSite, loop, make_async_engine
from tests.sql.blocks.ways_connections import raw_savepoint
from tests.sql.blocks.ways_sessions import TABLES, Nested, driver_autocommit, engine_of
from tests.sql.databases import ASYNC_DRIVERS

KINDS = ("postgresql", "mariadb", "sqlite")


@contextmanager
def refused_by_sqlalchemy() -> Iterator[None]:
    """A change that is not possible in a transaction changes nothing."""
    try:
        yield
    except InvalidRequestError as error:
        raise Impossible from error


class CoreHands:
    """A Connection of an engine that takes messages."""

    def __init__(self, site: CoreSite, connection: Any) -> None:
        self._site, self._connection = site, connection

    async def execute(self, statement: str) -> Any:
        result = self._connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None

    async def insert(self, table: str, number: int) -> None:
        self._connection.execute(TABLES[table].insert().values(id=number))

    async def send(self, message: Message) -> None:
        send(self._connection, message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "connection":
            with self._connection.begin_nested() as made:
                yield Nested(made)
        elif kind == "session":
            if not self._connection.in_transaction():
                self._connection.begin()  # which the session would begin and commit, as its own
            with Session(self._connection, join_transaction_mode="create_savepoint") as session, session.begin():
                session.connection()  # a session that has none of its own is in no savepoint yet
                yield Nested(session)
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    async def call(self, kind: str) -> str:
        connection = self._connection
        if kind == "commit":
            connection.commit()
            return OWN
        if kind in ("rollback", "close", "invalidate"):
            getattr(connection, kind)()
            return UNDONE
        if kind == "autocommit":
            with refused_by_sqlalchemy():
                connection.execution_options(isolation_level="AUTOCOMMIT")
            return PROGRAM
        elif kind == "translate":
            connection.execution_options(schema_translate_map={None: self._site.tenant})
        elif kind == "driver_autocommit":
            driver_autocommit(connection.connection.driver_connection)
            return PROGRAM
        elif kind == "driver_commit":
            connection.connection.commit()
            return PROGRAM
        elif kind == "driver_rollback":
            connection.connection.rollback()
            return UNDONE
        elif kind in ("transaction_rollback", "transaction_commit") and connection.get_transaction() is not None:
            getattr(connection.get_transaction(), kind.removeprefix("transaction_"))()
            return UNDONE if kind == "transaction_rollback" else OWN
        else:
            raise Impossible
        return NOTHING

    def cut(self, kind: str) -> None:
        self._site.cut(kind, lambda: self._connection.connection.driver_connection)


class CoreSite(Site):
    """``transactions.attach(engine)``."""

    way = "core"
    forms = ("begin", "connect", "transaction", "open", "session")
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": (
            "default", "autocommit", "option_autocommit", "driver_autocommit", "event_autocommit", "serializable",
            "repeatable", "null_pool", "static_pool", "prepare_0", "translate", "reset_commit", "reset_none", "fresh",
            "proxy", "both", "commit_listener", "rollback_listener",
        ),
        "mariadb": (
            "default", "autocommit", "option_autocommit", "driver_autocommit", "event_autocommit", "init_autocommit",
            "serializable", "null_pool", "static_pool", "translate", "reset_commit", "chain", "fresh", "proxy", "both",
            "rollback_listener",
        ),
        "sqlite": (
            "default", "autocommit", "option_autocommit", "driver_autocommit", "event_autocommit", "null_pool",
            "static_pool", "thread_pool", "begin_event", "fresh", "both", "commit_listener", "rollback_listener",
        ),
    }  # fmt: skip
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        KINDS, ("connection", "session", "raw", "raw_open")
    )
    calls: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        KINDS,
        (
            "commit", "rollback", "close", "invalidate", "autocommit", "translate", "driver_autocommit",
            "driver_commit", "driver_rollback", "transaction_rollback", "transaction_commit",
        ),
    )  # fmt: skip

    @property
    def tenant(self) -> str:
        return f"{self.ground.place.name}_{TENANT}" if self.ground.kind == "mariadb" else TENANT

    def open(self) -> None:
        self.engine: Any = engine_of(self.place.url(), self.ground.kind, self.setting)
        self.shown = self.engine
        if self.setting == "option_autocommit":
            self.shown = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        if self.setting == "translate":
            self.shown = self.engine.execution_options(schema_translate_map={None: self.tenant})
        self.transactions = service(self.ground, self.engine)
        self.transactions.attach(self.engine)
        self.sessions = type("Sessions", (Session,), {})
        if self.setting == "both":  # the sessions of this engine take messages, too
            self.transactions.attach(self.sessions)
        if self.setting != "fresh":
            self.transactions.start()

    def run(self, form: str, body: Body) -> None:
        with self._block(form) as connection:
            at_once(body(CoreHands(self, connection)))

    @contextmanager
    def _block(self, form: str) -> Any:
        if form == "begin":
            with self.shown.begin() as connection:
                yield connection
        elif form == "session":
            with self.sessions(self.shown) as session, session.begin():
                yield session.connection()
        else:
            with self.shown.connect() as connection:
                if form == "transaction":
                    with connection.begin():
                        yield connection
                else:  # commit as you go
                    yield connection
                    if form == "connect":
                        connection.commit()

    def close(self) -> None:
        self.transactions.close()
        self.engine.dispose()


class AsyncCoreHands:
    """An AsyncConnection of an engine that takes messages."""

    def __init__(self, site: AsyncCoreSite, connection: Any) -> None:
        self._site, self._connection = site, connection

    async def execute(self, statement: str) -> Any:
        result = await self._connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None

    async def insert(self, table: str, number: int) -> None:
        await self._connection.execute(TABLES[table].insert().values(id=number))

    async def send(self, message: Message) -> None:
        send(self._connection, message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "connection":
            async with self._connection.begin_nested() as made:
                yield AsyncNested(made)
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    async def call(self, kind: str) -> str:
        connection = self._connection
        if kind in ("commit", "rollback", "close", "invalidate"):
            await getattr(connection, kind)()
            return OWN if kind == "commit" else UNDONE
        if kind == "autocommit":
            with refused_by_sqlalchemy():
                await connection.execution_options(isolation_level="AUTOCOMMIT")
            return PROGRAM
        if kind in ("transaction_rollback", "transaction_commit") and connection.get_transaction() is not None:
            await getattr(connection.get_transaction(), kind.removeprefix("transaction_"))()
            return UNDONE if kind == "transaction_rollback" else OWN
        raise Impossible

    def cut(self, kind: str) -> None:
        def raw() -> Any:
            raise Impossible

        self._site.cut(kind, raw)


class AsyncCoreSite(AsyncSite):
    """``transactions.attach(async_engine)``."""

    way = "async_core"
    forms = ("begin", "connect", "transaction", "open", "begin_elsewhere")
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": (
            "default", "psycopg", "autocommit", "option_autocommit", "serializable", "null_pool", "prepare_0", "proxy",
        ),
        "sqlite": ("default", "autocommit", "option_autocommit", "driver_autocommit", "null_pool", "begin_event"),
    }  # fmt: skip
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "sqlite"), ("connection", "raw", "raw_open")
    )
    calls: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "sqlite"),
        ("commit", "rollback", "close", "invalidate", "autocommit", "transaction_rollback", "transaction_commit"),
    )

    def open(self) -> None:
        kind = self.ground.kind
        driver = "psycopg" if self.setting in ("psycopg", "prepare_0") else ASYNC_DRIVERS[kind]
        url = self.place.url(driver)
        self.engine = engine_of(url, "" if kind == "postgresql" else kind, self.setting, make_async_engine)
        self.shown = self.engine
        if self.setting == "option_autocommit":
            self.shown = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        loop().run_until_complete(self._start())

    async def _start(self) -> None:
        self.transactions: Any = AsyncTransactions(group_of(self.ground), self.engine, **SETTINGS)
        self.transactions.attach(self.engine)
        await self.transactions.start()

    def run(self, form: str, body: Body) -> None:
        autocommit = self.setting.endswith("autocommit")
        if autocommit:  # on another loop, a statement is executed and fails: its row is there, and SQLAlchemy is alone
            form = ELSEWHERE.get(form, form)
        try:
            super().run(form, body)
        finally:
            if autocommit or form in ELSEWHERE:
                # The pool may have a connection of the other loop, or one on which a BEGIN of the program is open.
                loop().run_until_complete(self.engine.dispose())

    async def block(self, form: str, body: Body) -> None:
        if form == "begin":
            async with self.shown.begin() as connection:
                await body(AsyncCoreHands(self, connection))
            return
        async with self.shown.connect() as connection:
            if form == "transaction":
                async with connection.begin():
                    await body(AsyncCoreHands(self, connection))
                return
            await body(AsyncCoreHands(self, connection))
            if form == "connect":
                await connection.commit()

    async def disconnect(self) -> None:
        await self.transactions.close()
        await self.engine.dispose()
