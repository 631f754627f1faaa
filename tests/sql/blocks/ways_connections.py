"""The way in by connections of a driver: psycopg, PyMySQL and sqlite3."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

from gantrymq import Message
from tests.sql.blocks.play import Impossible, at_once
from tests.sql.blocks.statements import BEHIND, NOTHING, PROGRAM, TENANT, UNDONE
from tests.sql.blocks.ways import ATTEMPTS, Body, Site, service

_names = itertools.count(1)


class Raw:
    """A savepoint by statements."""

    def __init__(self, hands: Any, name: str) -> None:
        self._hands, self._name = hands, name

    async def rollback(self) -> None:
        await self._hands.execute(f"ROLLBACK TO SAVEPOINT {self._name}")


@asynccontextmanager
async def raw_savepoint(hands: Any, *, release: bool = True) -> AsyncIterator[Raw]:
    """What people write by hand: SAVEPOINT, and ROLLBACK TO at an error."""
    name = f"by_hand_{next(_names)}"
    await hands.execute(f"SAVEPOINT {name}")
    made = Raw(hands, name)
    try:
        yield made
    except BaseException:
        await made.rollback()
        raise
    if release:
        await hands.execute(f"RELEASE SAVEPOINT {name}")


class Undo:
    """A savepoint that cannot be rolled back without an error."""

    async def rollback(self) -> None:
        raise Impossible


class ConnectionHands:
    """``tx``, and its connection."""

    def __init__(self, site: ConnectionSite, tx: Any) -> None:
        self._site, self._tx = site, tx

    async def execute(self, statement: str) -> Any:
        cursor = self._tx.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return None if row is None else next(iter(row.values() if isinstance(row, dict) else row))

    async def insert(self, table: str, number: int) -> None:
        self._tx.execute(f"INSERT INTO {table} (id) VALUES ({number})")

    async def send(self, message: Message) -> None:
        self._tx.send(message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "ours":
            with self._tx.savepoint():
                yield Undo()
        elif kind == "driver":
            if self._site.ground.kind != "postgresql":
                raise Impossible
            with self._tx.connection.transaction() as made:
                yield _Psycopg(made)
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    async def call(self, kind: str) -> str:
        connection, postgresql = self._tx.connection, self._site.ground.kind == "postgresql"
        if kind == "commit":
            connection.commit()
            return PROGRAM
        if kind == "rollback":
            connection.rollback()
            return UNDONE
        if kind == "close":
            connection.close()
            return UNDONE
        if kind == "autocommit":
            return self._autocommit(connection)
        if kind == "script" and self._site.ground.kind == "sqlite":
            connection.executescript("SELECT 1;")
            return PROGRAM
        if self._site.ground.kind == "mariadb" and kind in ("begin", "ping", "select_db"):
            return self._pymysql(kind, connection)
        if kind == "pipeline" and postgresql:
            with connection.pipeline():
                connection.execute("SELECT 1")
            return NOTHING
        raise Impossible

    def _autocommit(self, connection: Any) -> str:
        if self._site.ground.kind == "mariadb":
            connection.autocommit(True)
        elif self._site.ground.kind == "sqlite":
            connection.isolation_level = None
        else:
            connection.autocommit = True
        return PROGRAM

    def _pymysql(self, kind: str, connection: Any) -> str:
        if kind == "begin":
            connection.begin()
            return BEHIND
        if kind == "ping":
            connection.ping(reconnect=True)
            return NOTHING
        connection.select_db(f"{self._site.ground.place.name}_{TENANT}")
        return NOTHING

    def cut(self, kind: str) -> None:
        self._site.cut(kind, lambda: self._tx.connection)


class _Psycopg:
    def __init__(self, made: Any) -> None:
        self._made = made

    async def rollback(self) -> None:
        import psycopg

        raise psycopg.Rollback(self._made)


class ConnectionSite(Site):
    """``Transactions(group, connect)``."""

    way = "connections"
    forms = ("begin", "on", "on_begun", "run")
    ours = frozenset(forms)
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": (
            "default", "autocommit", "dict_rows", "prepare_0", "serializable", "repeatable", "proxy", "fresh",
            "deferrable", "server_cursor",
        ),
        "mariadb": (
            "default", "autocommit", "init_autocommit", "dict_rows", "chain", "release", "serializable", "committed",
            "multi", "proxy", "fresh",
        ),
        "sqlite": ("default", "autocommit", "immediate", "exclusive", "dict_rows", "uncommitted", "fresh"),
    }  # fmt: skip
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": ("ours", "driver", "raw", "raw_open"),
        "mariadb": ("ours", "raw", "raw_open"),
        "sqlite": ("ours", "raw", "raw_open"),
    }
    calls: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": ("commit", "rollback", "close", "autocommit", "pipeline"),
        "mariadb": ("commit", "rollback", "close", "autocommit", "begin", "ping", "select_db"),
        "sqlite": ("commit", "rollback", "close", "autocommit", "script"),
    }

    def open(self) -> None:
        self.transactions = service(self.ground, self.connect)
        if self.setting != "fresh":
            self.transactions.start()

    def connect(self) -> Any:
        return {"postgresql": self._psycopg, "mariadb": self._pymysql, "sqlite": self._sqlite}[self.ground.kind]()

    def _psycopg(self) -> Any:
        import psycopg
        from psycopg.rows import dict_row

        known: dict[str, dict[str, Any]] = {
            "autocommit": {"autocommit": True}, "dict_rows": {"row_factory": dict_row},
            "prepare_0": {"prepare_threshold": 0}, "server_cursor": {"cursor_factory": psycopg.ClientCursor},
        }  # fmt: skip
        connection = self.place.connect(**known.get(self.setting, {}))
        if self.setting in ("serializable", "deferrable"):
            connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            connection.deferrable = self.setting == "deferrable"
        if self.setting == "repeatable":
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    def _pymysql(self) -> Any:
        from pymysql.constants import CLIENT
        from pymysql.cursors import DictCursor

        begin = {
            "init_autocommit": "SET autocommit = 1", "chain": "SET completion_type = 'CHAIN'",
            "release": "SET completion_type = 'RELEASE'",
            "serializable": "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "committed": "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        }.get(self.setting)  # fmt: skip
        options: dict[str, Any] = {} if begin is None else {"init_command": begin}
        if self.setting == "autocommit":
            options["autocommit"] = True
        if self.setting == "init_autocommit":
            options["autocommit"] = None
        if self.setting == "dict_rows":
            options["cursorclass"] = DictCursor
        if self.setting == "multi":
            options["client_flag"] = CLIENT.MULTI_STATEMENTS
        return self.place.connect(**options)

    def _sqlite(self) -> Any:
        import sqlite3

        levels: dict[str, Any] = {"autocommit": None, "immediate": "IMMEDIATE", "exclusive": "EXCLUSIVE"}
        options = {"isolation_level": levels[self.setting]} if self.setting in levels else {}
        connection = self.place.connect(timeout=2, check_same_thread=False, **options)
        if self.setting == "dict_rows":
            connection.row_factory = sqlite3.Row
        if self.setting == "uncommitted":
            connection.execute("PRAGMA read_uncommitted = 1")
        return connection

    def run(self, form: str, body: Body) -> None:
        if form == "run":
            self.transactions.run(lambda tx: at_once(body(ConnectionHands(self, tx))), ATTEMPTS)
        elif form == "begin":
            with self.transactions.begin() as tx:
                at_once(body(ConnectionHands(self, tx)))
        else:
            connection = self.connect()
            try:
                if form == "on_begun":
                    connection.cursor().execute("SELECT 1" if self.ground.kind != "sqlite" else "BEGIN")
                with self.transactions.on(connection) as tx:
                    at_once(body(ConnectionHands(self, tx)))
            finally:
                with suppress(Exception):  # it was lost
                    connection.close()

    def close(self) -> None:
        self.transactions.close()
