"""The traps that are different with an AsyncEngine."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session

from gantrymq import Message
from gantrymq.errors import Closed, ConfigError
from gantrymq.sql import AsyncTransactions, send
from gantrymq.testing import LocalCluster
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place

BROKER = pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
TWO = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


class Shop:
    """A database with a table of orders, and an asyncio service that pays them."""

    def __init__(self, gantry: LocalCluster, place: Place) -> None:
        self.gantry = gantry
        self.place = place
        place.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        gantry.create_topic("orders")

    @asynccontextmanager
    async def service(self, url: str = "", **settings: Any) -> AsyncIterator[tuple[Any, AsyncEngine]]:
        engine = create_async_engine(url or self.place.async_url)
        transactions = AsyncTransactions("service", engine, name_servers=self.gantry.name_servers, **settings)
        await transactions.create_table()
        try:
            async with transactions:
                yield transactions, engine
        finally:
            await engine.dispose()

    async def pay(self, session: AsyncSession, number: int) -> None:
        await session.execute(text(f"INSERT INTO orders VALUES ({number})"))
        send(session, Message("orders", str(number)))

    async def check(self, *numbers: int) -> None:
        await self.gantry.wait_until_async(lambda: not self.gantry.open_transactions(), 60)
        paid = [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]
        announced = sorted(int(message.body) for message in self.gantry.messages("orders"))
        assert (paid, announced) == (list(numbers), list(numbers))


def play(gantry: LocalCluster, place: Place, test: Callable[[Shop], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(Shop(gantry, place))

    asyncio.run(run())


class OwnSession(Session):
    """A user's own class."""


@TWO
@pytest.mark.parametrize("options", [{}, {"sync_session_class": OwnSession}, {"expire_on_commit": False}])
def test_attach_an_async_sessionmaker(database: Place, gantry: LocalCluster, options: dict[str, Any]) -> None:
    async def test(shop: Shop) -> None:
        async with shop.service() as (transactions, engine):
            maker = async_sessionmaker(engine, **options)
            transactions.attach(maker)
            with pytest.raises(ConfigError, match="attached already"):
                transactions.attach(maker)
            for number, ends in ((1, "commit"), (2, "rollback"), (3, "close")):
                async with maker() as session:
                    await shop.pay(session, number)
                    await getattr(session, ends)()
            async with maker.begin() as session:
                await shop.pay(session, 4)
                with pytest.raises(ZeroDivisionError):
                    async with session.begin_nested():
                        await shop.pay(session, 5)
                        1 / 0  # noqa: B018
            await shop.check(1, 4)

    play(gantry, database, test)


@pytest.mark.slow
@BROKER
@TWO
@pytest.mark.parametrize("prepared", [False, True])
def test_a_session_that_is_forgotten_is_rolled_back(database: Place, gantry: LocalCluster, prepared: bool) -> None:
    async def test(shop: Shop) -> None:
        async with shop.service(longest_transaction=1) as (transactions, _):
            tx = await transactions.begin().__aenter__()
            await shop.pay(tx.session, 1)
            await gantry.wait_until_async(lambda: len(gantry.open_transactions()) == 1)
            if prepared:

                def prepare(session: Session) -> None:
                    connection = session.connection()
                    enlistment = session.info["gantrymq.enlisted"]
                    enlistment.prepare(lambda statement: connection.exec_driver_sql(*statement))

                await tx.session.run_sync(prepare)
            connection = await tx.session.connection()
            await connection.invalidate()  # SQLAlchemy cannot give one back from the garbage collector here
            del tx, connection
            gc.collect()
            await shop.check()

    play(gantry, database, test)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_connection_that_dies_before_or_after_the_server_has_committed(
    postgresql: Place, gantry: LocalCluster, moment: Moment, driver: str
) -> None:
    async def test(shop: Shop) -> None:
        with CuttingProxy(postgresql.port) as proxy:
            url = replace(postgresql, port=proxy.port).url(driver)
            async with shop.service(url) as (transactions, _):
                block = transactions.begin()
                if moment == "before":
                    with pytest.raises(Exception, match=r"(?i)lost|closed"):
                        async with block as tx:
                            await shop.pay(tx.session, 1)
                            proxy.cut(moment)
                else:
                    async with block as tx:
                        await shop.pay(tx.session, 1)
                        proxy.cut(moment)
                assert proxy.cuts == 1
                await shop.check(*([] if moment == "before" else [1]))

    play(gantry, postgresql, test)


@TWO
def test_close_waits_for_a_transaction(database: Place, gantry: LocalCluster) -> None:
    async def test(shop: Shop) -> None:
        async with shop.service() as (transactions, _):
            inside, go_on = asyncio.Event(), asyncio.Event()

            async def work() -> None:
                async with transactions.begin() as tx:
                    await shop.pay(tx.session, 1)
                    inside.set()
                    await go_on.wait()

            working = asyncio.create_task(work())
            await inside.wait()
            closing = asyncio.create_task(transactions.close())
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(working, closing)
            with pytest.raises(Closed, match="create new ones"):
                async with transactions.begin():
                    pytest.fail("not reached")
        await shop.check(1)

    play(gantry, database, test)
