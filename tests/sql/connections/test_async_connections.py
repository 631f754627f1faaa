"""Local transactions on psycopg's asynchronous connections, with a real PostgreSQL and a real broker."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from gantrymq import Message
from gantrymq.errors import Closed, ConfigError, TransactionClaimed
from gantrymq.sql import AsyncConnectionTransaction, AsyncConnectionTransactions, AsyncTransactions, Transactions
from gantrymq.sql.connections.drivers import TransactionBroken
from gantrymq.testing import LocalCluster
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place

INSERT = "INSERT INTO orders VALUES (%s)"


class Shop:
    """A database with a table of orders, and a service that pays them."""

    def __init__(self, gantry: LocalCluster, place: Place) -> None:
        self.gantry, self.place = gantry, place
        place.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        for topic in ("orders", "points"):
            gantry.create_topic(topic)

    def service(self, place: Place | None = None, **options: Any) -> AsyncConnectionTransactions:
        dsn = (place or self.place).dsn
        return AsyncTransactions(
            "order-service", lambda: psycopg.AsyncConnection.connect(dsn), name_servers="127.0.0.1:9876", **options
        )

    def run(self, work: Callable[[AsyncConnectionTransactions], Awaitable[None]], place: Place | None = None) -> None:
        async def main() -> None:
            await self.service().create_table()
            async with self.service(place) as transactions:
                await work(transactions)

        asyncio.run(main())

    async def pay(self, tx: AsyncConnectionTransaction, number: int) -> None:
        await tx.execute(INSERT, (number,))
        tx.send(Message("orders", b"%d" % number))

    def paid(self) -> list[int]:
        return [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]

    def bodies(self, topic: str = "orders") -> list[bytes]:
        return sorted(message.body for message in self.gantry.messages(topic))

    def nothing_happened(self) -> bool:
        return not self.paid() and not self.bodies() and not self.gantry.open_transactions()


@pytest.fixture
def shop(gantry: LocalCluster, postgresql: Place) -> Shop:
    return Shop(gantry, postgresql)


def test_rows_and_messages_appear_together_or_not_at_all(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        async with transactions.begin() as tx:
            await shop.pay(tx, 1)
            tx.send(Message("points", b"10"), Message("points", b"20"))
        with pytest.raises(ZeroDivisionError):
            async with transactions.begin() as tx:
                await shop.pay(tx, 2)
                1 / 0  # noqa: B018
        async with transactions.begin() as tx:
            await tx.execute(INSERT, (3,))

    shop.run(work)
    assert (shop.paid(), shop.bodies(), shop.bodies("points")) == ([1, 3], [b"1"], [b"10", b"20"])
    assert not shop.gantry.open_transactions()


def test_savepoints(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        async with transactions.begin() as tx:
            await shop.pay(tx, 1)
            with pytest.raises(psycopg.errors.UniqueViolation):
                async with tx.savepoint():
                    tx.send(Message("orders", b"dropped"))
                    await tx.execute(INSERT, (1,))
            async with tx.savepoint():
                await shop.pay(tx, 2)
        with pytest.raises(TransactionBroken, match="could not be rolled back"):
            async with transactions.begin() as tx:
                await shop.pay(tx, 3)
                with pytest.raises(ZeroDivisionError):
                    async with tx.savepoint():
                        await tx.execute("RELEASE SAVEPOINT gantrymq_1")
                        1 / 0  # noqa: B018

    shop.run(work)
    assert (shop.paid(), shop.bodies()) == ([1, 2], [b"1", b"2"])


def test_a_connection_of_the_caller(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        connection = await psycopg.AsyncConnection.connect(shop.place.dsn)
        await connection.execute(INSERT, (1,))
        async with transactions.on(connection) as tx:
            await shop.pay(tx, 2)
            with pytest.raises(ConfigError, match="savepoint"):
                async with transactions.on(connection):
                    pass
        with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
            async with transactions.on(connection) as tx:
                await shop.pay(tx, 3)
                await connection.commit()
        await connection.set_autocommit(True)
        async with transactions.on(connection) as tx:
            await shop.pay(tx, 4)
            assert shop.paid() == [1, 2]
        await connection.close()

    shop.run(work)
    assert (shop.paid(), shop.bodies()) == ([1, 2, 4], [b"2", b"4"])


def test_a_caught_error_inside_the_block_is_no_silent_rollback(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        with pytest.raises(TransactionBroken, match="savepoint"):
            async with transactions.begin() as tx:
                await shop.pay(tx, 1)
                with pytest.raises(psycopg.errors.UniqueViolation):
                    await tx.execute(INSERT, (1,))

    shop.run(work)
    assert shop.nothing_happened()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_lost_at_the_commit_is_settled_by_asking_the_database(shop: Shop, moment: Moment) -> None:
    with CuttingProxy(shop.place.port) as proxy:

        async def work(transactions: AsyncConnectionTransactions) -> None:
            async def one() -> None:
                async with transactions.begin() as tx:
                    await shop.pay(tx, 1)
                    proxy.cut(moment)

            if moment == "before":
                with pytest.raises(psycopg.OperationalError):
                    await one()
            else:
                await one()

        shop.run(work, replace(shop.place, port=proxy.port))
    assert proxy.cuts == 1
    assert not shop.gantry.open_transactions()
    assert (shop.paid(), shop.bodies()) == (([1], [b"1"]) if moment == "after" else ([], []))


@pytest.mark.parametrize("moment", ["inside", "at the commit"])
def test_a_cancelled_task_leaves_both_sides_equal(shop: Shop, moment: str) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        reached, never = asyncio.Event(), asyncio.Event()

        async def one() -> None:
            async with transactions.begin() as tx:
                await shop.pay(tx, 1)
                if moment == "inside":
                    reached.set()
                    await never.wait()
                driver: Any = tx._driver

                async def commit() -> None:
                    reached.set()
                    await never.wait()

                driver.commit = commit

        task = asyncio.create_task(one())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    shop.run(work)
    assert shop.nothing_happened()


@pytest.mark.slow
def test_siblings_claim_and_commit_for_a_process_that_is_gone(shop: Shop) -> None:
    async def reach(condition: Callable[[], bool]) -> None:
        await asyncio.to_thread(shop.gantry.wait_until, condition, 60)

    def open_transactions() -> int:
        return len(shop.gantry.open_transactions())

    async def work(transactions: AsyncConnectionTransactions) -> None:
        async with shop.service(topics=["orders"]):
            async with transactions.begin() as tx:
                await shop.pay(tx, 1)
                await reach(lambda: open_transactions() == 1)
                await asyncio.to_thread(shop.gantry.kill, transactions._running)
            await reach(lambda: open_transactions() == 0)
            assert shop.bodies() == [b"1"]
            async with shop.service() as second:
                with pytest.raises(TransactionClaimed):
                    async with second.begin() as tx:
                        tx.send(Message("orders", b"2"))
                        await reach(lambda: open_transactions() == 1)
                        await asyncio.to_thread(shop.gantry.kill, second._running)
                        await reach(lambda: open_transactions() == 0)
                        await tx.execute(INSERT, (2,))

    shop.run(work)
    assert (shop.paid(), shop.bodies()) == ([1], [b"1"])


def test_a_block_is_used_once_and_inside_only(shop: Shop) -> None:
    async def work(transactions: AsyncConnectionTransactions) -> None:
        block = transactions.begin()
        with pytest.raises(Closed):
            block.send(Message("orders", b"1"))
        async with block:
            pass
        with pytest.raises(ConfigError, match="used already"):
            await block.__aenter__()

    shop.run(work)


def test_a_coroutine_function_makes_the_asynchronous_kind(postgresql: Place) -> None:
    made: object = Transactions("g", psycopg.AsyncConnection.connect, name_servers="127.0.0.1:9876")
    assert isinstance(made, AsyncConnectionTransactions)


async def _connected(what: Any) -> Any:
    return what


@pytest.mark.parametrize(
    ("connect", "words"),
    [
        (lambda: psycopg.connect("host=127.0.0.1 port=1"), "Connection refused|connection failed"),
        (object, "for blocking connections, use Transactions"),
        (lambda: _connected(io.StringIO()), "create_async_engine"),
    ],
)
def test_what_is_no_way_to_connect_is_refused(connect: Any, words: str) -> None:
    transactions: AsyncConnectionTransactions = AsyncTransactions("g", connect, name_servers="127.0.0.1:9876")
    with pytest.raises(Exception, match=words):
        asyncio.run(transactions.start())


def test_an_engine_for_threads_is_refused() -> None:
    import sqlalchemy

    with pytest.raises(ConfigError, match="with an Engine, use Transactions"):
        AsyncTransactions("g", sqlalchemy.create_engine("sqlite://"), name_servers="127.0.0.1:9876")  # type: ignore[call-overload]
