"""The way in by Django: ``transaction.atomic()`` and ``gantrymq.django.send``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from django.core.handlers.base import BaseHandler
from django.db import connection as default
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import override_settings

from gantrymq import Message
from gantrymq import django as gantry_django
from tests.django.conftest import entry
from tests.sql.blocks.grounds import SETTINGS
from tests.sql.blocks.play import OWN, Impossible, at_once
from tests.sql.blocks.statements import NOTHING, PROGRAM, TENANT, UNDONE
from tests.sql.blocks.ways import ATTEMPTS, Body, Site, group_of
from tests.sql.blocks.ways_connections import raw_savepoint


class ByHand:
    """``transaction.savepoint()``."""

    def __init__(self, sid: Any) -> None:
        self._sid = sid

    async def rollback(self) -> None:
        transaction.savepoint_rollback(self._sid)


class Marked:
    """``set_rollback`` in an inner block."""

    async def rollback(self) -> None:
        transaction.set_rollback(True)


class DjangoHands:
    """The default connection of the project."""

    def __init__(self, site: DjangoSite) -> None:
        self._site = site

    async def execute(self, statement: str) -> Any:
        with default.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None

    async def insert(self, table: str, number: int) -> None:
        with default.cursor() as cursor:
            cursor.execute(f"INSERT INTO {table} (id) VALUES (%s)", [number])

    async def send(self, message: Message) -> None:
        gantry_django.send(message)

    @asynccontextmanager
    async def savepoint(self, kind: str) -> AsyncIterator[Any]:
        if kind == "atomic":
            with transaction.atomic():
                yield Marked()
        elif kind == "by_hand":
            sid = transaction.savepoint()
            if sid is None:  # outside of atomic, Django makes none on SQLite, and rolls nothing back to it
                raise Impossible
            try:
                yield ByHand(sid)
            except BaseException:
                transaction.savepoint_rollback(sid)
                raise
            transaction.savepoint_commit(sid)
        elif self._empties_the_database():
            raise Impossible
        else:
            async with raw_savepoint(self, release=kind == "raw") as raw:
                yield raw

    def _empties_the_database(self) -> bool:
        """SQLite itself (3.40.1, 3.51.1) loses all tables by SAVEPOINT s, BEGIN IMMEDIATE (which fails), ROLLBACK TO s,
        COMMIT, where nothing was read on the connection before. Django begins so behind a SAVEPOINT that it has not
        seen."""
        begins = self._site.setting in ("immediate", "exclusive") and not default.in_atomic_block
        return begins and not (default.connection is not None and default.connection.in_transaction)

    async def call(self, kind: str) -> str:
        if kind == "commit":
            transaction.commit()
            return OWN
        if kind == "rollback":
            transaction.rollback()
            return UNDONE
        if kind == "close":
            default.close()
            return UNDONE
        if kind == "set_autocommit":
            transaction.set_autocommit(True)
            return PROGRAM  # refused while there are messages
        if kind == "set_autocommit_off":
            transaction.set_autocommit(False)
            return NOTHING
        if kind in ("driver_commit", "driver_rollback") and default.connection is None:
            raise Impossible  # it is closed
        if kind == "driver_commit":
            default.connection.commit()
            return PROGRAM
        if kind == "driver_rollback":
            default.connection.rollback()
            return UNDONE
        if kind == "driver_autocommit" and self._site.ground.kind != "sqlite":
            self._driver_autocommit()
            return PROGRAM
        raise Impossible

    def _driver_autocommit(self) -> None:
        if self._site.ground.kind == "mariadb":
            default.connection.autocommit(True)
        else:
            default.connection.autocommit = True

    def cut(self, kind: str) -> None:
        self._site.cut(kind, lambda: default.connection)


class DjangoSite(Site):
    """A project in this process. One at a time: a process has one configuration of Django."""

    way = "django"
    forms = ("atomic", "durable", "manual", "request", "run")
    settings: ClassVar[dict[str, tuple[str, ...]]] = {
        "postgresql": ("default", "autocommit_off", "serializable", "tenant", "proxy", "fresh"),
        "mariadb": ("default", "autocommit_off", "serializable", "init_autocommit", "chain", "proxy", "fresh"),
        "sqlite": ("default", "autocommit_off", "immediate", "exclusive", "fresh"),
    }
    savepoints: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "mariadb", "sqlite"), ("atomic", "by_hand", "raw", "raw_open")
    )
    calls: ClassVar[dict[str, tuple[str, ...]]] = dict.fromkeys(
        ("postgresql", "mariadb", "sqlite"),
        (
            "commit",
            "rollback",
            "close",
            "set_autocommit",
            "set_autocommit_off",
            "driver_commit",
            "driver_rollback",
            "driver_autocommit",
        ),
    )

    def open(self) -> None:
        gantry_django.close()
        options, more = self._options()
        if self.setting == "autocommit_off":
            more["AUTOCOMMIT"] = False
        more["ATOMIC_REQUESTS"] = True
        configured = connections.configure_settings({"default": entry(self.place, **options) | more})
        self._before = connections.settings["default"]
        connections["default"].close()
        connections.settings["default"] = configured["default"]
        del connections["default"]
        own = {
            "GROUP": group_of(self.ground),
            "NAME_SERVERS": SETTINGS["name_servers"],
            "LONGEST_TRANSACTION": 10,
            "KEEP_ROWS": None,
        }
        self._override = override_settings(GANTRYMQ=own)
        self._override.enable()
        if self.setting != "fresh":
            gantry_django.start()

    def _options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        kind, setting = self.ground.kind, self.setting
        if kind == "postgresql":
            from psycopg import IsolationLevel

            if setting == "serializable":
                return {"isolation_level": IsolationLevel.SERIALIZABLE}, {}
            return ({"options": f"-c search_path=public,{TENANT}"} if setting == "tenant" else {}), {}
        if kind == "mariadb":
            return {
                "serializable": {"isolation_level": "serializable"},
                "init_autocommit": {"init_command": "SET autocommit = 1"},
                "chain": {"init_command": "SET completion_type = 'CHAIN'"},
            }.get(setting, {}), {}
        chosen = {"transaction_mode": setting.upper()} if setting in ("immediate", "exclusive") else {}
        return {"timeout": 2, **chosen}, {}

    def run(self, form: str, body: Body) -> None:
        hands = DjangoHands(self)
        try:
            self._run(form, hands, body)
        finally:
            if not default.in_atomic_block and not default.get_autocommit():
                default.close()  # as Django does at the end of a request that left a transaction open

    def _run(self, form: str, hands: DjangoHands, body: Body) -> None:
        if form in ("atomic", "durable"):
            with transaction.atomic(durable=form == "durable"):
                at_once(body(hands))
        elif form == "manual":
            transaction.set_autocommit(False)
            try:
                at_once(body(hands))
                transaction.commit()
            except BaseException:
                transaction.rollback()
                raise
            finally:
                if not default.in_atomic_block and default.connection is not None:
                    transaction.set_autocommit(True)
        elif form == "request":

            def view(request: HttpRequest) -> HttpResponse:
                at_once(body(hands))
                return HttpResponse("done")

            BaseHandler().make_view_atomic(view)(HttpRequest())
        else:
            gantry_django.run(lambda: at_once(body(hands)), attempts=ATTEMPTS)

    def close(self) -> None:
        default.close()
        gantry_django.close()
        self._override.disable()
        connections.settings["default"] = self._before
        del connections["default"]
