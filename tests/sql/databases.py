"""Databases for tests: each test has an empty one of its own, on servers that the whole test run shares.

| fixture        | what it is                                                                                       |
|----------------|--------------------------------------------------------------------------------------------------|
| ``postgresql`` | an empty database of PostgreSQL                                                                  |
| ``mariadb``    | an empty database of MariaDB; the test is skipped where ``mariadbd`` is not installed            |
| ``sqlite``     | a file of SQLite that does not exist yet                                                         |
| ``database``   | all three, one after the other; ``@pytest.mark.parametrize("database", [...], indirect=True)``   |
|                | for some of them                                                                                 |

A test that kills its server has one of its own: ``PostgreSQL(tmp_path / "db")`` of ``database_servers``, and
``Place.at(server)``.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.sql.database_servers import DatabaseServer, lacking, shared

KINDS = ("postgresql", "mariadb", "sqlite")
DRIVERS = {"postgresql": "psycopg", "mariadb": "pymysql", "sqlite": "pysqlite"}
ASYNC_DRIVERS = {"postgresql": "asyncpg", "sqlite": "aiosqlite"}
"""What SQLAlchemy calls them."""
WAIT_SECONDS = 60.0
NO_TLS = {"ssl_disabled": True}
"""For PyMySQL, which reads all certificates of the machine for each connection otherwise: 37 ms, a quarter of the time
of such a test."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database is, and how to connect to it."""

    kind: str
    name: str
    """Of the database; the path of SQLite's file."""
    port: int = 0
    user: str = ""

    @classmethod
    def at(cls, server: DatabaseServer, name: str = "") -> Place:
        """A new database of this name on a server that runs; without a name, the one that every server has."""
        place = cls(server.kind, _MAINTENANCE[server.kind], server.port, server.user)
        return place.create(name) if name else place

    def url(self, driver: str | None = None) -> str:
        """For SQLAlchemy, with a driver for threads unless it is named."""
        driver = driver or DRIVERS[self.kind]
        if self.kind == "sqlite":
            return f"sqlite+{driver}:///{self.name}"
        scheme = "mysql" if self.kind == "mariadb" else self.kind
        options = "?ssl_disabled=true" if driver == "pymysql" else ""
        return f"{scheme}+{driver}://{self.user}@127.0.0.1:{self.port}/{self.name}{options}"

    @property
    def async_url(self) -> str:
        """For SQLAlchemy's AsyncEngine."""
        return self.url(ASYNC_DRIVERS[self.kind])

    @property
    def dsn(self) -> str:
        """For psycopg and asyncpg."""
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/{self.name}"

    def connect(self, **options: Any) -> Any:
        """A new DB-API connection. Its module: psycopg, PyMySQL or sqlite3."""
        if self.kind == "postgresql":
            import psycopg

            return psycopg.connect(self.dsn, **options)
        if self.kind == "mariadb":
            import pymysql

            where = {"host": "127.0.0.1", "port": self.port, "user": self.user, "database": self.name}
            return pymysql.connect(**{**where, **NO_TLS, **options})
        return sqlite3.connect(self.name, **options)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute the statements on a connection of its own, each a transaction; the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        options = {"isolation_level": None} if self.kind == "sqlite" else {"autocommit": True}
        connection = self.connect(**options)
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
                rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            connection.close()
        return rows

    def create(self, name: str) -> Place:
        """A new database on the same server."""
        self.execute(f"CREATE DATABASE {name}")
        return replace(self, name=name)

    def drop(self) -> None:
        """Remove the database, whoever is connected to it."""
        if self.kind == "sqlite":
            Path(self.name).unlink(missing_ok=True)
            return
        if self.kind == "mariadb":
            self.kill_connections()  # an open transaction of a test that failed would be waited for, for a day
        force = " WITH (FORCE)" if self.kind == "postgresql" else ""
        replace(self, name=_MAINTENANCE[self.kind]).execute(f"DROP DATABASE IF EXISTS {self.name}{force}")

    def await_lock(self, over: Callable[[], bool] = lambda: False) -> None:
        """Return when a statement in this database waits for another transaction, or ``over()`` is true. SQLite cannot
        be asked, and there this returns at once.

        MariaDB has a table of those who wait, but shows it as it was when somebody looked last, unless nobody has
        looked for 0.1 s. So a statement that has run for 0.2 s counts as one that waits.
        """
        question = {
            "postgresql": "SELECT COUNT(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()",
            "mariadb": "SELECT COUNT(*) FROM information_schema.processlist "
            f"WHERE db = '{self.name}' AND command = 'Query' AND time_ms > 200 AND id <> connection_id()",
        }.get(self.kind)
        deadline = time.monotonic() + WAIT_SECONDS
        while question is not None and not over() and not self.execute(question)[0][0]:
            assert time.monotonic() < deadline, f"no statement waited for a lock within {WAIT_SECONDS:g} s"
            time.sleep(0.02)

    def kill_connections(self) -> None:
        """End all connections to this database, as an administrator or a failover does."""
        if self.kind == "postgresql":
            self.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                f"WHERE datname = '{self.name}' AND pid <> pg_backend_pid()"
            )
        elif self.kind == "mariadb":
            elsewhere = replace(self, name=_MAINTENANCE[self.kind])
            for (number,) in elsewhere.execute(
                f"SELECT id FROM information_schema.processlist WHERE db = '{self.name}' AND id <> connection_id()"
            ):
                with suppress(Exception):  # it has ended in the meantime
                    elsewhere.execute(f"KILL HARD CONNECTION {number}")


_MAINTENANCE = {"postgresql": "postgres", "mariadb": "mysql"}
"""A database that every server has."""


@pytest.fixture(scope="session")
def database_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """``database_server("postgresql")`` starts the shared server of that kind, or skips the test."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "databases"
    places: dict[str, Place] = {}
    releases: list[Callable[[], None]] = []
    failures: dict[str, RuntimeError] = {}

    def place_of(kind: str) -> Place:
        reason = lacking(kind)
        if reason is not None:
            pytest.skip(reason)
        if kind in failures:  # hundreds of tests need it; only the first one waits
            raise failures[kind]
        if kind not in places:
            try:
                port, release = shared(kind, root)
            except RuntimeError as error:
                failures[kind] = error
                raise
            releases.append(release)
            places[kind] = Place(kind, _MAINTENANCE[kind], port, {"postgresql": "postgres", "mariadb": "root"}[kind])
        return places[kind]

    yield place_of
    for release in releases:
        release()


_emptied: list[Place] = []
"""Databases of PostgreSQL that were used and emptied. To empty one is ten times faster than to make one."""


@pytest.fixture
def postgresql(database_server: Callable[[str], Place]) -> Iterator[Place]:
    """An empty database of PostgreSQL."""
    server = database_server("postgresql")
    place = _emptied.pop() if _emptied else server.create(f"test_{os.getpid()}_{next(_numbers)}")
    yield place
    if not server.execute(f"SELECT 1 FROM pg_database WHERE datname = '{place.name}'"):
        return  # the test has dropped it
    place.kill_connections()
    server.execute(f"ALTER DATABASE {place.name} RESET ALL")  # from outside: it may be read-only
    schemas = place.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')"
    )
    others = [f"DROP SCHEMA {schema[0]} CASCADE" for schema in schemas]
    place.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", *others)
    _emptied.append(place)


@pytest.fixture
def mariadb(database_server: Callable[[str], Place]) -> Iterator[Place]:
    """An empty database of MariaDB."""
    place = database_server("mariadb").create(f"test_{os.getpid()}_{next(_numbers)}")
    yield place
    place.drop()


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    """A file of SQLite that does not exist yet."""
    return Place("sqlite", str(tmp_path / "database.db"))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> Place:
    """An empty database of each kind."""
    place: Place = request.getfixturevalue(request.param)
    return place
