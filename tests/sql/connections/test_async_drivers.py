"""Local transactions on connections of asyncpg and aiomysql, without SQLAlchemy. Those of psycopg are in
``test_async_connections``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.sql import AsyncConnectionTransaction, AsyncConnectionTransactions, AsyncInbox, AsyncTransactions
from gantrymq.testing import LocalCluster
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place

INSERT = {"asyncpg": "INSERT INTO orders VALUES ($1)", "aiomysql": "INSERT INTO orders VALUES (%s)"}


class Shop:
    """A database with a table of orders, and a service that pays them."""

    def __init__(self, gantry: LocalCluster, driver: str, place: Place) -> None:
        self.gantry, self.driver, self.place = gantry, driver, place
        place.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        gantry.create_topic("orders")

    async def connect(self, place: Place | None = None) -> Any:
        place = place or self.place
        if self.driver == "asyncpg":
            import asyncpg

            return await asyncpg.connect(place.dsn)
        import aiomysql

        return await aiomysql.connect(host="127.0.0.1", port=place.port, user=place.user, db=place.name)

    async def close(self, connection: Any) -> None:
        closing = connection.close()
        if closing is not None:
            await closing

    def service(self, place: Place | None = None) -> AsyncConnectionTransactions:
        return AsyncTransactions("service", lambda: self.connect(place), name_servers="127.0.0.1:9876")

    def run(self, work: Callable[[AsyncConnectionTransactions], Awaitable[None]], place: Place | None = None) -> None:
        async def main() -> None:
            await self.service().create_table()
            async with self.service(place) as transactions:
                await work(transactions)

        asyncio.run(main())

    async def insert(self, tx: Any, number: int) -> None:
        await tx.execute(INSERT[self.driver], (number,))

    async def pay(self, tx: AsyncConnectionTransaction, number: int) -> None:
        await self.insert(tx, number)
        tx.send(Message("orders", str(number)))

    def check(self, *numbers: int) -> None:
        """These orders are paid and announced, and no others; nothing is open."""
        assert not self.gantry.open_transactions()
        paid = [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]
        announced = sorted(int(message.body) for message in self.gantry.messages("orders"))
        assert (paid, announced) == (list(numbers), list(numbers))


@pytest.fixture(params=["asyncpg", "aiomysql"])
def shop(request: pytest.FixtureRequest, gantry: LocalCluster) -> Shop:
    driver = request.param
    return Shop(gantry, driver, request.getfixturevalue("postgresql" if driver == "asyncpg" else "mariadb"))


def only(driver: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shop", [driver], indirect=True)


def test_rows_and_messages_appear_together_or_not_at_all(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        async with transactions.begin() as tx:
            await shop.pay(tx, 1)
            with pytest.raises(ZeroDivisionError):
                async with tx.savepoint():
                    await shop.pay(tx, 2)
                    raise ZeroDivisionError
            async with tx.savepoint():
                await shop.pay(tx, 3)
            for name, statement in (("kept", "RELEASE SAVEPOINT kept"), ("gone", "ROLLBACK TO SAVEPOINT gone")):
                await tx.execute(f"SAVEPOINT {name}")
                await shop.pay(tx, 4 if name == "kept" else 5)
                await tx.execute(statement)
        with pytest.raises(ZeroDivisionError):
            async with transactions.begin() as tx:
                await shop.pay(tx, 6)
                raise ZeroDivisionError
        with pytest.raises(Exception, match=r"(?i)duplicate"):
            async with transactions.begin() as tx:
                await shop.pay(tx, 7)
                await shop.insert(tx, 1)
        await transactions.clean()

    shop.run(work)
    shop.check(1, 3, 4)


def test_a_connection_of_the_caller(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        connection = await shop.connect()
        for number, begins in ((1, False), (2, True)):
            if begins:
                await (connection.execute("BEGIN") if shop.driver == "asyncpg" else connection.begin())
            async with transactions.on(connection) as tx:
                await shop.pay(tx, number)
                with pytest.raises(ConfigError, match="savepoint"):
                    async with transactions.on(connection):
                        pass
        with pytest.raises(ZeroDivisionError):
            async with transactions.on(connection) as tx:
                await shop.pay(tx, 3)
                raise ZeroDivisionError
        async with transactions.on(connection) as tx:
            await shop.pay(tx, 4)
        await shop.close(connection)

    shop.run(work)
    shop.check(1, 2, 4)


@only("asyncpg")
def test_what_asyncpg_has_of_its_own(shop: Shop) -> None:
    import asyncpg

    async def work(transactions: AsyncConnectionTransactions) -> None:
        async with asyncpg.create_pool(shop.place.dsn, min_size=1, max_size=1) as pool:
            async with pool.acquire() as connection, transactions.on(connection) as tx:
                await shop.pay(tx, 1)
                async with connection.transaction():  # a savepoint
                    await shop.pay(tx, 2)
                with pytest.raises(ZeroDivisionError):
                    async with connection.transaction():
                        await shop.pay(tx, 3)
                        raise ZeroDivisionError
            async with pool.acquire() as connection, connection.transaction():
                with pytest.raises(ConfigError, match="commits it later"):
                    async with transactions.on(connection):
                        pass
        for sends in (True, False):
            with pytest.raises(TransactionBroken, match="a statement of this transaction has failed"):
                async with transactions.begin() as tx:
                    await shop.insert(tx, 4)
                    if sends:
                        tx.send(Message("orders", "4"))
                    with pytest.raises(asyncpg.UniqueViolationError):
                        await shop.insert(tx, 4)

    shop.run(work)
    shop.check(1, 2)


def test_an_end_inside_of_the_block_is_told(shop: Shop) -> None:
    ends = ["ROLLBACK", "ROLLBACK AND CHAIN"]

    async def work(transactions: AsyncConnectionTransactions) -> None:
        for statement in ends:
            with pytest.raises(TransactionBroken, match="ended inside"):
                async with transactions.begin() as tx:
                    await shop.pay(tx, 1)
                    await tx.execute(statement)
        with pytest.raises(TransactionBroken, match="ended inside"):
            async with transactions.begin() as tx:
                tx.send(Message("orders", "2"))
                await tx.execute("COMMIT")
                raise ZeroDivisionError

    shop.run(work)
    shop.check()


@pytest.mark.parametrize("shop", ["aiomysql"], indirect=True)
def test_a_connection_of_the_program_keeps_no_lock_of_a_table(shop: Shop) -> None:
    shop.place.execute("CREATE TABLE more (id INTEGER)")

    async def work(transactions: AsyncConnectionTransactions) -> None:
        connection = await shop.connect()
        with pytest.raises(TransactionBroken, match="in the database"):
            async with transactions.on(connection) as tx:
                tx.send(Message("orders", "1"))
                await tx.execute("LOCK TABLES more WRITE")
        shop.place.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO more VALUES (1)")
        async with transactions.on(connection) as tx:
            await shop.pay(tx, 2)
        await shop.close(connection)

    shop.run(work)
    shop.check(2)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_lost_at_the_commit_is_settled_by_asking_the_database(shop: Shop, moment: Moment) -> None:
    with CuttingProxy(shop.place.port) as proxy:

        async def work(transactions: AsyncConnectionTransactions) -> None:
            async def one() -> None:
                async with transactions.begin() as tx:
                    await shop.pay(tx, 1)
                    proxy.cut(moment)

            if moment == "before":
                with pytest.raises(Exception, match=r"(?i)lost|closed"):
                    await one()
            else:
                await one()

        shop.run(work, replace(shop.place, port=proxy.port))
    assert proxy.cuts == 1
    shop.check(*([1] if moment == "after" else []))


def test_a_cancelled_task_leaves_both_sides_equal(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        reached = asyncio.Event()

        async def one() -> None:
            async with transactions.begin() as tx:
                await shop.pay(tx, 1)
                reached.set()
                await tx.execute("SELECT pg_sleep(60)" if shop.driver == "asyncpg" else "SELECT SLEEP(60)")

        task = asyncio.create_task(one())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    shop.run(work)
    shop.check()


def test_an_inbox(shop: Shop) -> None:
    message = MessageView("orders", b"1", {}, 0, MessageQueue("orders", "b", 0), 0, "m", "m", 0, "", 0, "", 0, 0)

    async def work(transactions: AsyncConnectionTransactions) -> None:
        for number, given in enumerate((shop.connect, lambda: shop.connect(), transactions)):
            inbox = AsyncInbox(f"group-{number}", given)
            await inbox.create_table()
            for duplicate in (False, True):
                async with inbox.once(message) as tx:
                    assert tx.duplicate is duplicate
                    await shop.insert(tx, number)
                    if given is transactions:
                        tx.send(Message("orders", str(number)))
            await inbox.clean()

    shop.run(work)
    paid = [row[0] for row in shop.place.execute("SELECT id FROM orders ORDER BY id")]
    assert (paid, [one.body for one in shop.gantry.messages("orders")]) == ([0, 1, 2], [b"2"])
