"""The databases of the harness: a program's tables and ours, in the usual schema and in that of a tenant."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gantrymq.sql import Transactions
from tests.sql.blocks.statements import SCHEMA, STATEMENTS, TENANT, Statement
from tests.sql.databases import Place

NAME_SERVERS = "127.0.0.1:9876"
SETTINGS: dict[str, Any] = {"name_servers": NAME_SERVERS, "longest_transaction": 10, "keep_rows": None}


@dataclass
class Ground:
    """One database, prepared, and the rivals of the blocks in it."""

    place: Place
    _rival: Any = None
    _admin: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kind(self) -> str:
        return self.place.kind

    @property
    def tenant(self) -> Place:
        """Where the tables of the tenant are."""
        if self.kind == "mariadb":
            return replace(self.place, name=f"{self.place.name}_{TENANT}")
        return replace(self.place, name=f"{self.place.name}.{TENANT}") if self.kind == "sqlite" else self.place

    def connect_tenant(self) -> Any:
        """A connection whose tables are those of the tenant."""
        connection = self.tenant.connect()
        if self.kind == "postgresql":
            connection.execute(f"SET search_path TO {TENANT}")
            connection.commit()
        return connection

    def prepare(self) -> None:
        if self.kind == "mariadb":
            self.place.create(self.tenant.name)
        elif self.kind == "postgresql":
            self.place.execute(f"CREATE SCHEMA {TENANT}")
        else:
            for place in (self.place, self.tenant):  # nobody waits for a disk, and readers never for writers
                place.execute("PRAGMA journal_mode = DELETE")
        for connect in (self.place.connect, self.connect_tenant):
            connection = connect()
            cursor = connection.cursor()
            for statement in (*SCHEMA[self.kind], "INSERT INTO items VALUES (0)"):
                cursor.execute(statement)
            connection.commit()
            connection.close()
            Transactions("prepare", connect, **SETTINGS).create_table()

    def rows(self) -> set[int]:
        """The units whose rows are there, in whatever schema."""
        found: set[int] = set()
        tables = ["items", *(["items_myisam"] if self.kind == "mariadb" else [])]
        for connect in (self.place.connect, self.connect_tenant):
            connection = connect()
            try:
                cursor = connection.cursor()
                for table in tables:
                    cursor.execute(f"SELECT id FROM {table}")
                    found.update(row[0] for row in cursor.fetchall())
            finally:
                connection.close()
        return found

    def outcomes(self) -> dict[str, int]:
        """What a check-back would find."""
        return {row[0]: row[1] for row in self.place.execute("SELECT id, outcome FROM gantrymq_outcomes")}

    def empty(self) -> None:
        """Between two rounds: so that the reading stays quick."""
        for connect in (self.place.connect, self.connect_tenant):
            connection = connect()
            cursor = connection.cursor()
            cursor.execute("DELETE FROM items WHERE id > 0")
            cursor.execute("DELETE FROM gantrymq_outcomes WHERE id >= '0'")
            connection.commit()
            connection.close()

    def statement(self, name: str) -> Statement | None:
        """None: this database has no such statement."""
        found = STATEMENTS[self.kind].get(name)
        if found is None:
            return None
        return replace(found, texts=tuple(text.format(name=self.place.name) for text in found.texts))

    # Rivals.

    def kill_backend(self, number: int) -> None:
        """End one connection, as an administrator or a failover does."""
        if self.kind == "postgresql":
            self.admin_execute(f"SELECT pg_terminate_backend({number}, 5000)")
        elif self.kind == "mariadb":
            with suppress(Exception):  # it has ended by itself
                self.admin_execute(f"KILL HARD CONNECTION {number}")

    def admin_execute(self, statement: str) -> None:
        if self._admin is None:
            self._admin = self.place.connect(autocommit=True)
        self._admin.cursor().execute(statement)

    def deadlock_rival(self) -> DeadlockRival:
        return DeadlockRival(self.place)

    def close(self) -> None:
        for connection in (self._rival, self._admin):
            if connection is not None:
                with suppress(Exception):
                    connection.close()
        self._rival = self._admin = None

    def drop(self) -> None:
        self.close()
        self.place.drop()
        if self.kind != "postgresql":
            self.tenant.drop()
        if self.kind == "sqlite":
            for place in (self.place, self.tenant):
                for ending in ("-wal", "-shm", "-journal"):
                    Path(place.name + ending).unlink(missing_ok=True)


class DeadlockRival:
    """Another transaction of MariaDB, which holds what we want, and wants what we hold. It has changed more rows than a
    block, so that the server chooses the block as the victim."""

    HELD = "UPDATE stock FORCE INDEX (PRIMARY) SET n = n + 1 WHERE id BETWEEN 20 AND 60"
    WANTED = "UPDATE stock FORCE INDEX (PRIMARY) SET n = n + 1 WHERE id = 1"

    def __init__(self, place: Place) -> None:
        self._connection = place.connect()
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET SESSION innodb_lock_wait_timeout = 3")
        self._cursor.execute(self.HELD)
        self._thread = threading.Thread(target=self._want, daemon=True)

    def _want(self) -> None:
        with suppress(Exception):
            self._cursor.execute(self.WANTED)
            self._connection.rollback()  # a block in autocommit holds nothing, and would wait for us

    def want(self) -> None:
        """Wait for a row that the block holds."""
        self._thread.start()

    def close(self) -> None:
        if self._thread.ident is not None:  # the block may have failed before it held anything
            self._thread.join(10)
        with suppress(Exception):
            self._connection.rollback()
        self._connection.close()


def grounds(kinds: Iterable[str], server: Any, root: Path) -> dict[str, Ground]:
    """A ground for each kind. ``server(kind)``: the Place of a server that runs."""
    found = {}
    for kind in kinds:
        if kind == "sqlite":
            place = Place("sqlite", str(root / f"blocks-{os.getpid()}.db"))
        else:
            place = server(kind).create(f"blocks_{os.getpid()}")
        found[kind] = Ground(place)
        found[kind].prepare()
    return found
