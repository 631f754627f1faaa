"""A block of an event loop on another one: refused; and what such a mistake leaves on a connection loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from gantrymq import Message
from gantrymq.errors import Closed, ConfigError, TransactionBroken
from gantrymq.sql import AsyncTransactions, Transactions, send
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place

OTHER_LOOP = "belong to another event loop"


async def elsewhere(work: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Run it on the event loop of another thread; what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        async def whole() -> None:
            await asyncio.wait_for(work(), 30)

        try:
            asyncio.run(whole())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await asyncio.to_thread(thread.join)
    return raised[0] if raised else None


class Shop:
    """Transactions on an engine with one connection, so that each block gets that of the block before."""

    def __init__(self, engine: AsyncEngine, gantry: LocalCluster) -> None:
        self.engine = engine
        self.transactions = AsyncTransactions("g", engine, name_servers=gantry.name_servers)

    async def prepare(self) -> None:
        await self.transactions.create_table()
        async with self.engine.begin() as connection:
            await connection.execute(text("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))

    async def pay(self, number: int) -> None:
        async with self.transactions.begin() as tx:
            await tx.session.execute(text(f"INSERT INTO orders VALUES ({number})"))
            tx.send(Message("orders", str(number)))


def run(place: Place, gantry: LocalCluster, test: Callable[[Shop], Awaitable[None]]) -> tuple[set[int], set[int]]:
    """The rows and the messages behind it."""
    gantry.create_topic("orders")

    async def whole() -> None:
        pool = {"pool_size": 1, "max_overflow": 0} if place.kind == "postgresql" else {}
        engine = create_async_engine(place.async_url, **pool)
        shop = Shop(engine, gantry)
        await shop.prepare()
        async with shop.transactions:
            await test(shop)
        await engine.dispose()

    asyncio.run(whole())
    assert gantry.open_transactions() == []
    rows = {row[0] for row in place.execute("SELECT id FROM orders")}
    return rows, {int(message.body) for message in gantry.messages("orders")}


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_a_block_on_another_loop_is_refused_and_the_next_one_here_is_whole(
    database: Place, gantry: LocalCluster
) -> None:
    async def test(shop: Shop) -> None:
        await shop.pay(1)
        raised = await elsewhere(lambda: shop.pay(2))
        assert isinstance(raised, ConfigError) and OTHER_LOOP in str(raised)
        await shop.pay(3)

    assert run(database, gantry, test) == ({1, 3}, {1, 3})


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_a_message_is_refused_on_another_loop_and_in_a_thread_without_one(
    database: Place, gantry: LocalCluster
) -> None:
    async def test(shop: Shop) -> None:
        async with shop.transactions.begin() as tx:
            await tx.session.execute(text("INSERT INTO orders VALUES (1)"))

            async def send(body: str = "2") -> None:
                tx.send(Message("orders", body))

            for _ in range(2):  # the first message of a block, and a later one
                assert isinstance(await elsewhere(send), ConfigError)
                with pytest.raises(ConfigError, match=OTHER_LOOP):
                    await asyncio.to_thread(tx.send, Message("orders", "3"))
                await send("1")

    assert run(database, gantry, test) == ({1}, {1})


def test_a_message_before_the_start_is_refused_with_the_way_to_start(gantry: LocalCluster, sqlite: Place) -> None:
    async def whole() -> None:
        engine = create_async_engine(sqlite.async_url)
        sessions = async_sessionmaker(engine)
        AsyncTransactions("g", engine, name_servers=gantry.name_servers).attach(sessions)
        async with sessions() as session:
            with pytest.raises(Closed, match="not started"):
                send(session, Message("orders", "1"))
        await engine.dispose()

    asyncio.run(whole())


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_transaction_that_was_left_open_on_a_connection_swallows_no_block(
    database: Place, gantry: LocalCluster
) -> None:
    """What a statement on another loop leaves, with SQLAlchemy and asyncpg alone: the BEGIN arrives at the server, the
    task fails, and every block behind it is a savepoint of that transaction, whose commits are none."""

    async def test(shop: Shop) -> None:
        async with shop.engine.connect() as connection:
            raw: Any = (await connection.get_raw_connection()).driver_connection
            await raw.transaction().start()
        await shop.pay(1)
        await shop.pay(3)

    assert run(database, gantry, test) == ({1, 3}, {1, 3})


@pytest.mark.slow
def test_a_commit_behind_which_a_transaction_runs_is_none(mariadb: Place, gantry: LocalCluster) -> None:
    """Of a driver that takes something else for the transaction: here its commit does nothing."""
    engine = create_engine(mariadb.url())
    mariadb.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    transactions = Transactions("g", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    with transactions:
        still = pytest.raises(TransactionBroken, match="a transaction still runs on its connection")
        with still, transactions.begin() as tx:
            tx.session.execute(text("INSERT INTO orders VALUES (1)"))
            tx.send(Message("orders", "1"))
            raw: Any = tx.session.connection().connection.dbapi_connection
            raw.commit = lambda: None
        assert gantry.open_transactions() == []
    engine.dispose()
    assert mariadb.execute("SELECT id FROM orders") == [] and gantry.messages("orders") == []


@pytest.mark.slow
def test_a_transaction_that_the_server_begins_by_itself_is_none_of_the_block(
    mariadb: Place, gantry: LocalCluster
) -> None:
    """``completion_type = CHAIN``: each commit begins the next transaction. The commit raised before, and was one."""
    gantry.create_topic("orders")
    engine = create_engine(mariadb.url(), connect_args={"init_command": "SET completion_type = 'CHAIN'"})
    mariadb.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    transactions = Transactions("g", engine, name_servers=gantry.name_servers)
    transactions.create_table()
    with transactions, transactions.begin() as tx:
        tx.session.execute(text("INSERT INTO orders VALUES (1)"))
        tx.send(Message("orders", "1"))
    engine.dispose()
    assert mariadb.execute("SELECT id FROM orders") == [(1,)]
    assert [message.body for message in gantry.messages("orders")] == [b"1"]
