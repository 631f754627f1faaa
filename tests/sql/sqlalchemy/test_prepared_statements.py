"""Settings of PostgreSQL's drivers for prepared statements, as poolers like PgBouncer need them; and a real PgBouncer
in its mode ``transaction``, where it is installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq import Message
from gantrymq.demo.ports import free_port
from gantrymq.sql import AsyncTransactions, Transactions
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

ROUNDS = 7
"""psycopg prepares a statement when it was executed five times (``prepare_threshold``), asyncpg at once."""
START_SECONDS = 30.0
NO_CACHE = {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "psycopg, prepared at once": ("psycopg", {"prepare_threshold": 0}),
    "psycopg, prepared the second time": ("psycopg", {"prepare_threshold": 1}),
    "psycopg, never prepared": ("psycopg", {"prepare_threshold": None}),
    "psycopg, parameters bound by the client": ("psycopg", {"cursor_factory": psycopg.ClientCursor}),
    "asyncpg": ("asyncpg", {}),
    "asyncpg, never prepared": ("asyncpg", NO_CACHE),
}


def pay_with_threads(place: Place, gantry: LocalCluster, **arguments: Any) -> None:
    engine = create_engine(place.url(), connect_args=arguments)
    transactions = Transactions("g", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    with transactions:
        for number in range(ROUNDS):
            with transactions.begin() as tx:
                tx.session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
                tx.send(Message("orders", str(number)))
        with suppress(ZeroDivisionError), transactions.begin() as tx:
            tx.session.execute(text("INSERT INTO orders VALUES (-1)"))
            tx.send(Message("orders", "-1"))
            raise ZeroDivisionError
    engine.dispose()


async def pay_on_a_loop(url: str, gantry: LocalCluster, **arguments: Any) -> None:
    engine = create_async_engine(url, connect_args=arguments)
    transactions = AsyncTransactions("g", engine, name_servers=gantry.name_servers)
    await transactions.create_table()
    async with transactions:
        for number in range(ROUNDS):
            async with transactions.begin() as tx:
                await tx.session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
                tx.send(Message("orders", str(number)))
    await engine.dispose()


def check(place: Place, gantry: LocalCluster) -> None:
    assert sorted(row[0] for row in place.execute("SELECT id FROM orders")) == list(range(ROUNDS))
    assert sorted(int(message.body) for message in gantry.messages("orders")) == list(range(ROUNDS))
    assert gantry.open_transactions() == []


@pytest.mark.parametrize("way", ["threads", "loop"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_rows_and_messages_with_each_setting(postgresql: Place, gantry: LocalCluster, settings: str, way: str) -> None:
    driver, arguments = SETTINGS[settings]
    if way == ("threads" if driver == "asyncpg" else "loop" if "cursor_factory" in arguments else ""):
        pytest.skip("there is no such thing")
    postgresql.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    if way == "threads":
        pay_with_threads(postgresql, gantry, **arguments)
    else:
        asyncio.run(pay_on_a_loop(postgresql.url(driver), gantry, **arguments))
    check(postgresql, gantry)


@pytest.fixture
def pooled(postgresql: Place) -> Iterator[Place]:
    """The same database behind a PgBouncer with two connections."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    port, account = free_port(), "nobody" if os.geteuid() == 0 else None  # it refuses to be root
    with tempfile.TemporaryDirectory(prefix="gantry-pgbouncer-") as directory:
        root = Path(directory)
        root.chmod(0o755)
        (root / "pgbouncer.ini").write_text(
            f"[databases]\n{postgresql.name} = host=127.0.0.1 port={postgresql.port} user={postgresql.user}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
            "pool_mode = transaction\ndefault_pool_size = 2\nserver_reset_query =\n"
        )
        with (root / "log").open("wb") as log:
            process = subprocess.Popen([program, str(root / "pgbouncer.ini")], stdout=log, stderr=log, user=account)
        place, deadline = replace(postgresql, port=port), time.monotonic() + START_SECONDS
        try:
            while True:
                with suppress(psycopg.OperationalError):
                    place.execute("SELECT 1")
                    break
                assert process.poll() is None and time.monotonic() < deadline, (root / "log").read_text()
                time.sleep(0.02)
            yield place
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["threads", "psycopg on a loop", "asyncpg"])
def test_rows_and_messages_behind_pgbouncer(postgresql: Place, pooled: Place, gantry: LocalCluster, way: str) -> None:
    postgresql.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    if way == "threads":
        pay_with_threads(pooled, gantry, prepare_threshold=None)
    elif way == "asyncpg":
        names = {"prepared_statement_name_func": lambda: ""}
        asyncio.run(pay_on_a_loop(pooled.url("asyncpg"), gantry, **NO_CACHE, **names))
    else:
        asyncio.run(pay_on_a_loop(pooled.url("psycopg"), gantry, prepare_threshold=None))
    check(postgresql, gantry)
