"""Publishing inside a session of SQLAlchemy commits with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from faststream import Depends
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from gantrymq.errors import ConfigError
from gantrymq.faststream import GantryBroker, GantryResponse, TestGantryBroker
from gantrymq.sql import AsyncTransactions
from gantrymq.testing import LocalCluster
from tests.faststream.playing import play, quiet
from tests.sql.outbox.rows_shop import until

TIME = pytest.mark.gantry(virtual_time=True)


class Shop:
    """A database with orders, its sessions, and a broker."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self.Session = async_sessionmaker(engine, expire_on_commit=False)
        transactions = AsyncTransactions("shop", engine, name_servers="127.0.0.1:9876")
        transactions.attach(self.Session)
        self.transactions = transactions
        self.broker: GantryBroker = quiet(transactions=transactions)

    async def insert(self, session: AsyncSession, order: str) -> None:
        await session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": order})

    async def orders(self) -> list[str]:
        async with self.Session() as session:
            return sorted((await session.execute(text("SELECT id FROM orders"))).scalars())


@asynccontextmanager
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE orders (id TEXT PRIMARY KEY)"))
    made = Shop(engine)
    await made.transactions.create_table()
    try:
        yield made
    finally:
        await made.broker.stop()
        await engine.dispose()


def bodies(gantry: LocalCluster, topic: str) -> list[bytes]:
    return sorted(message.body for message in gantry.messages(topic))


def test_the_message_is_there_when_the_session_has_committed_and_not_before(
    gantry: LocalCluster, tmp_path: Path
) -> None:
    async def test() -> None:
        async with shop(tmp_path) as made, made.broker:
            async with made.Session.begin() as session:
                await made.insert(session, "o-1")
                sent = await made.broker.publish("o-1", "orders", session=session, keys="o-1", headers={"kind": "paid"})
                assert sent is None
                assert bodies(gantry, "orders") == []
            assert await made.orders() == ["o-1"]

    play(test)
    [message] = gantry.messages("orders")
    assert (message.body, message.keys, message.properties["kind"]) == (b"o-1", ["o-1"], "paid")


def test_a_session_that_rolls_back_sends_nothing(gantry: LocalCluster, tmp_path: Path) -> None:
    async def test() -> None:
        async with shop(tmp_path) as made, made.broker:
            with pytest.raises(ValueError, match="declined"):
                async with made.Session.begin() as session:
                    await made.insert(session, "o-1")
                    await made.broker.publish_batch("o-1", "o-2", topic="orders", session=session)
                    raise ValueError("declined")
            assert await made.orders() == []
        assert gantry.open_transactions() == []

    play(test)
    assert bodies(gantry, "orders") == []


@TIME
def test_a_handler_publishes_with_the_session_of_its_dependency(gantry: LocalCluster, tmp_path: Path) -> None:
    async def test() -> None:
        async with shop(tmp_path) as made:
            broker = made.broker

            async def of_a_session() -> AsyncIterator[AsyncSession]:
                async with made.Session.begin() as session:
                    yield session

            shipped, points = broker.publisher("shipped", keys="k"), broker.publisher("points", batch=True)

            @broker.subscriber("orders", group="shipping")
            async def ship(order: str, session: Annotated[Any, Depends(of_a_session, cast=False)]) -> None:
                await made.insert(session, order)
                await shipped.publish(order, session=session)
                await points.publish(order, order, session=session)
                if order == "o-2":
                    raise ValueError("no stock")

            await broker.start()
            await broker.publish("o-1", "orders")
            await broker.publish("o-2", "orders")
            await gantry.advance_async(5)
            assert await made.orders() == ["o-1"]

    play(test)
    assert bodies(gantry, "shipped") == [b"o-1"]
    assert bodies(gantry, "points") == [b"o-1", b"o-1"]


def test_messages_of_a_session_keep_the_order_of_their_key(gantry: LocalCluster, tmp_path: Path) -> None:
    gantry.create_topic("orders")

    async def test() -> None:
        async with shop(tmp_path) as made, made.broker:
            for number in range(6):
                async with made.Session.begin() as session:
                    await made.insert(session, f"o-{number}")
                    await made.broker.publish(f"o-{number}", "orders", session=session, order_key="customer-7")
            await asyncio.to_thread(until, lambda: len(bodies(gantry, "orders")) == 6, "all are sent")

    play(test)
    messages = gantry.messages("orders")
    assert [message.body for message in messages] == [b"o-%d" % number for number in range(6)]
    assert len({message.queue for message in messages}) == 1


def test_what_takes_no_message_says_why(gantry: LocalCluster, tmp_path: Path) -> None:
    async def test() -> None:
        async with shop(tmp_path) as made, made.broker:
            broker, stranger = made.broker, async_sessionmaker(made.engine)
            async with stranger() as session:
                with pytest.raises(ConfigError, match="attach"):
                    await broker.publish("o-1", "orders", session=session)
            async with made.Session() as session:
                with pytest.raises(ConfigError, match="a request is answered at once"):
                    await broker.publisher("orders").request("o-1", session=session)  # type: ignore[call-arg]
            with pytest.raises(ConfigError):
                await broker.publish("o-1", "orders", session="a text")
        async with TestGantryBroker(made.broker) as tested:
            with pytest.raises(ConfigError, match="TestGantryBroker runs no transactions"):
                await tested.publish("o-1", "orders", session=object())
        with pytest.raises(ConfigError, match="session goes to publish and publish_batch, inside the handler"):
            GantryResponse("o-1", session=object())  # type: ignore[call-arg]

    play(test)
