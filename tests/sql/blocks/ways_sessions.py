"""The ways in by sessions of SQLAlchemy on an Engine."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from sqlalchemy import Column, Integer, MetaData, StaticPool, Table, create_engine, event, text
from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool, QueuePool, SingletonThreadPool

from gantrymq import Message
from gantrymq.sql import send
from tests.sql.blocks.play import OWN, Impossible, UserError, at_once
from tests.sql.blocks.statements import NOTHING, PROGRAM, SCHEMA, TENANT, UNDONE
from tests.sql.blocks.ways import ATTEMPTS, Body, Site, group_of, service
from tests.sql.blocks.ways_connections import raw_savepoint

_names = itertools.count(1)
TABLES = {
    name: Table(name.rpartition(".")[2], MetaData(), Column("id", Integer, primary_key=True), schema=schema)
    for name, schema in {"items": None, "items_myisam": None, f"{TENANT}.items": TENANT}.items()
}


class Nested:
    def __init__(self, made: Any) -> None:
        self._made = made

    async def rollback(self) -> None:
        self._made.rollback()


class SessionHands:
    """A session that takes messages."""

    def __init__(self, site: SessionSite, session: Any, tx: Any = None) -> None:
        self._site, self._session, self._tx = site, session, tx
        self._plain: Any = session() if isinstance(session, scoped_session) else session
        """A scoped_session lacks some methods of its session."""

    async def execute(self, statement: str) -> Any:
        result = self._session.execute(text(statement))
        return result.scalar() if result.returns_rows else None

    async def insert(self, table: str, number: int) -> None:
        self._session.execute(TABLES[table].insert().values(id=number))

    async def send(self, message: Message) -> None:
        if self._tx is None:
            send(self._session, message)
        else:
            self._tx.send(message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "session":
            with self._session.begin_nested() as made:
                yield Nested(made)
        elif kind == "connection":
            with self._session.connection().begin_nested() as made:
                yield Nested(made)
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    async def call(self, kind: str) -> str:
        session = self._session
        if kind == "commit":
            session.commit()
            return OWN
        if kind in ("rollback", "close", "invalidate"):
            getattr(self._plain, kind)()
            return UNDONE
        if kind == "autocommit":
            session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        elif kind == "translate":
            session.connection(execution_options={"schema_translate_map": {None: self._site.tenant}})
        elif kind == "driver_autocommit":
            driver_autocommit(session.connection().connection.driver_connection)
            return PROGRAM
        elif kind == "driver_commit":
            session.connection().connection.commit()
            return PROGRAM
        elif kind == "driver_rollback":
            session.connection().connection.rollback()
            return UNDONE
        elif kind in ("connection_rollback", "connection_commit"):
            running = session.connection().get_transaction()
            if running is None:  # it was ended so before
                raise Impossible
            if kind == "connection_rollback":
                running.rollback()
                return UNDONE
            running.commit()
            return PROGRAM
        else:
            raise Impossible
        return NOTHING

    def cut(self, kind: str) -> None:
        self._site.cut(kind, lambda: self._session.connection().connection.driver_connection)


def driver_autocommit(raw: Any) -> None:
    """What is done in the event ``connect``, and by people who help themselves."""
    module = type(raw).__module__.partition(".")[0]
    if module == "pymysql":
        raw.autocommit(True)
    elif module == "psycopg":
        raw.autocommit = True
    else:
        raw.isolation_level = None


class SessionSite(Site):
    """``Transactions(group, engine)``."""

    way = "sessions"
    forms = ("begin", "run", "maker", "plain", "open", "scoped", "context")
    ours = frozenset({"begin", "run"})
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": (
            "default", "autocommit", "option_autocommit", "maker_autocommit", "driver_autocommit", "event_autocommit",
            "serializable", "repeatable", "null_pool", "static_pool", "prepare_0", "translate", "reset_commit",
            "reset_none", "twophase", "fresh", "proxy", "autobegin_off", "commit_listener",
        ),
        "mariadb": (
            "default", "autocommit", "option_autocommit", "maker_autocommit", "driver_autocommit", "event_autocommit",
            "init_autocommit", "serializable", "null_pool", "static_pool", "translate", "reset_commit", "chain",
            "twophase", "fresh", "proxy", "autobegin_off", "commit_listener",
        ),
        "sqlite": (
            "default", "autocommit", "option_autocommit", "maker_autocommit", "driver_autocommit", "event_autocommit",
            "null_pool", "static_pool", "thread_pool", "memory", "memory_fresh", "memory_shared", "begin_event",
            "fresh", "autobegin_off", "commit_listener",
        ),
    }  # fmt: skip
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "mariadb", "sqlite"), ("session", "connection", "raw", "raw_open")
    )
    calls: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "mariadb", "sqlite"),
        (
            "commit", "rollback", "close", "invalidate", "autocommit", "translate", "driver_autocommit",
            "driver_commit", "driver_rollback", "connection_rollback", "connection_commit",
        ),
    )  # fmt: skip

    @property
    def tenant(self) -> str:
        return f"{self.ground.place.name}_{TENANT}" if self.ground.kind == "mariadb" else TENANT

    @property
    def in_memory(self) -> bool:
        return self.setting.startswith("memory")

    def open(self) -> None:
        self.engine = self._engine()
        shown: Any = self.engine
        if self.setting == "option_autocommit":
            shown = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        if self.setting == "translate":
            shown = self.engine.execution_options(schema_translate_map={None: self.tenant})
        if self.in_memory:
            with self.engine.begin() as connection:
                for statement in (*SCHEMA["sqlite"], "INSERT INTO items VALUES (0)"):
                    connection.exec_driver_sql(statement)
        self.transactions = service(self.ground, shown, group_of(self.ground, "-memory") if self.in_memory else "")
        if self.in_memory:
            self.transactions.create_table()
        bound = shown
        if self.setting == "maker_autocommit":
            bound = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        more: dict[str, Any] = {
            "twophase": {"twophase": True}, "autobegin_off": {"autobegin": False},
        }.get(self.setting, {})  # fmt: skip
        self.maker = sessionmaker(bound, **more)
        self.transactions.attach(self.maker)
        if self.setting not in ("fresh", "memory_fresh"):
            self.transactions.start()

    def _engine(self) -> Engine:
        if self.in_memory:
            if self.setting == "memory_shared":
                name = f"file:blocks{next(_names)}?mode=memory&cache=shared&uri=true"
                return create_engine(f"sqlite:///{name}", poolclass=QueuePool)
            return create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        made: Engine = engine_of(self.place.url(), self.ground.kind, self.setting)
        return made

    def run(self, form: str, body: Body) -> None:
        if form == "begin":
            with self.transactions.begin() as tx:
                at_once(body(SessionHands(self, tx.session, tx)))
        elif form == "run":
            self.transactions.run(lambda tx: at_once(body(SessionHands(self, tx.session, tx))), ATTEMPTS)
        elif form == "maker":
            with self.maker.begin() as session:
                at_once(body(SessionHands(self, session)))
        elif form == "scoped":
            scoped: scoped_session[Session] = scoped_session(self.maker)
            try:
                self._begin(scoped)
                at_once(body(SessionHands(self, scoped)))
                scoped.commit()
            finally:
                scoped.remove()
        else:
            self._plain(form, body)

    def _plain(self, form: str, body: Body) -> None:
        with self.maker() as session:
            if form == "context":
                with session.begin():
                    at_once(body(SessionHands(self, session)))
                return
            self._begin(session)
            at_once(body(SessionHands(self, session)))
            if form == "plain":
                session.commit()

    def _begin(self, session: Any) -> None:
        if self.setting == "autobegin_off":
            session.begin()

    def close(self) -> None:
        self.transactions.close()
        self.engine.dispose()

    def rows(self) -> set[int] | None:
        if not self.in_memory:
            return None
        return {row[0] for row in self._own("SELECT id FROM items")}

    def outcomes(self) -> dict[str, int] | None:
        if not self.in_memory:
            return None
        return {row[0]: row[1] for row in self._own("SELECT id, outcome FROM main.gantrymq_outcomes")}

    def _own(self, statement: str) -> list[Any]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(statement)]


def engine_of(url: str, kind: str, setting: str, make: Any = create_engine) -> Any:
    """An engine with this setting."""
    known: dict[str, dict[str, Any]] = {
        "autocommit": {"isolation_level": "AUTOCOMMIT"}, "serializable": {"isolation_level": "SERIALIZABLE"},
        "repeatable": {"isolation_level": "REPEATABLE READ"}, "null_pool": {"poolclass": NullPool},
        "static_pool": {"poolclass": StaticPool}, "thread_pool": {"poolclass": SingletonThreadPool},
        "reset_commit": {"pool_reset_on_return": "commit"}, "reset_none": {"pool_reset_on_return": None},
    }  # fmt: skip
    arguments: dict[str, Any] = {"check_same_thread": False, "timeout": 2} if kind == "sqlite" else {}
    if setting == "driver_autocommit":
        arguments |= {"isolation_level": None} if kind == "sqlite" else {"autocommit": True}
    if setting == "prepare_0":
        arguments["prepare_threshold"] = 0
    if setting == "init_autocommit":
        arguments |= {"init_command": "SET autocommit = 1", "autocommit": None}
    if setting == "chain":
        arguments["init_command"] = "SET completion_type = 'CHAIN'"
    made = make(url, connect_args=arguments, **known.get(setting, {}))
    sync = getattr(made, "sync_engine", made)
    if setting == "event_autocommit":
        event.listen(sync, "connect", lambda connection, record: driver_autocommit(_driver(connection)))
    if setting in ("commit_listener"):
        event.listen(sync, setting.removesuffix("_listener"), fails_at_times())
    if setting == "begin_event":  # what SQLAlchemy's documents recommend for savepoints of SQLite
        event.listen(sync, "connect", lambda connection, record: setattr(connection, "isolation_level", None))
        event.listen(sync, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return made


def fails_at_times() -> Callable[[Any], None]:
    """A listener of the program that fails when it is called first, third and so on; not for our own statements."""
    calls = itertools.count()

    def listener(connection: Any) -> None:
        ours = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
        if not ours and next(calls) % 2 == 0:
            raise UserError("of a listener")

    return listener


def _driver(connection: Any) -> Any:
    with suppress(AttributeError):
        return connection.driver_connection
    return connection
