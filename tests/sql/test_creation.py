"""Processes of a service that start at the same time all create the tables: none of them fails, in any way in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq.sql import AsyncInbox, AsyncTransactions, Inbox, Transactions
from gantrymq.sql.alembic import create_tables
from gantrymq.sql.rows.tables import INBOX, OUTCOMES
from tests.sql.databases import ASYNC_DRIVERS, Place

AT_ONCE = 8
NAME_SERVERS = "127.0.0.1:1"
Creating = Callable[[Callable[[], object]], object]
"""Creates the tables; it calls its argument just before, when everything is connected."""


def at_once(create: Creating) -> list[BaseException]:
    """Have as many create them at once as start together; their errors."""
    barrier, errors = threading.Barrier(AT_ONCE), list[BaseException]()

    def one() -> None:
        try:
            create(barrier.wait)
        except BaseException as error:
            barrier.abort()
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@contextmanager
def engine_of(place: Place) -> Iterator[Any]:
    engine = create_engine(place.url())
    try:
        engine.connect().close()
        yield engine
    finally:
        engine.dispose()


def by_sqlalchemy(place: Place) -> Creating:
    def create(ready: Callable[[], object]) -> None:
        with engine_of(place) as engine:
            ready()
            Transactions("g", engine, name_servers=NAME_SERVERS).create_table()

    return create


def by_connections(place: Place) -> Creating:
    def create(ready: Callable[[], object]) -> None:
        ready()
        Transactions("g", place.connect, name_servers=NAME_SERVERS).create_table()

    return create


def by_inbox(place: Place) -> Creating:
    def create(ready: Callable[[], object]) -> None:
        with engine_of(place) as engine:
            ready()
            Inbox("g", engine).create_table()
            Transactions("g", engine, name_servers=NAME_SERVERS).create_table()

    return create


def by_alembic(place: Place) -> Creating:
    """As ``upgrade()`` of a migration, in the transaction that Alembic makes."""

    def create(ready: Callable[[], object]) -> None:
        with engine_of(place) as engine, engine.begin() as connection:
            ready()
            create_tables(Operations(MigrationContext.configure(connection)))

    return create


def by_async_engine(place: Place) -> Creating:
    async def create(ready: Callable[[], object]) -> None:
        engine = create_async_engine(place.async_url)
        await (await engine.connect()).close()
        ready()
        await AsyncInbox("g", engine).create_table()
        await AsyncTransactions("g", engine, name_servers=NAME_SERVERS).create_table()
        await engine.dispose()

    return lambda ready: asyncio.run(create(ready))


WAYS: dict[str, Callable[[Place], Creating]] = {
    "engines": by_sqlalchemy,
    "connections": by_connections,
    "inboxes": by_inbox,
    "migrations of Alembic": by_alembic,
    "asynchronous engines": by_async_engine,
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_many_that_create_the_tables_at_once_all_succeed(database: Place, way: str) -> None:
    if way == "asynchronous engines" and database.kind not in ASYNC_DRIVERS:
        pytest.skip(f"no asynchronous driver of {database.kind} is among the tests' packages")
    assert at_once(WAYS[way](database)) == []
    assert database.execute(f"SELECT COUNT(*) FROM {INBOX}") == [(0,)]
    rows = database.execute(f"SELECT COUNT(*) FROM {OUTCOMES}")[0][0]
    assert rows == (0 if way.startswith("migrations") else 2)
