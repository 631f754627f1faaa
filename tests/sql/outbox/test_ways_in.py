"""Messages by row through the other ways in: sessions, sessions that exist already, Core, and event loops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, sessionmaker

from gantrymq import Message
from gantrymq.errors import Closed
from gantrymq.sql import AsyncTransactions, Transactions, send
from tests.sql.outbox.rows_shop import RowsShop, shop

__all__ = ["shop"]
AWAY = pytest.mark.parametrize("away", ["row", "always"])
INSERT = text("INSERT INTO orders VALUES (:id)")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)


def options(away: str) -> dict[str, Any]:
    return {"name_servers": "127.0.0.1:9876", "when_broker_is_away": away, "send_timeout_ms": 1000}


def message(number: int) -> Message:
    return Message("orders", b"%d" % number)


@AWAY
def test_sessions_and_core(shop: RowsShop, away: str) -> None:
    engine = create_engine(shop.place.url())
    transactions = Transactions("order-service", engine, **options(away))
    own, core = sessionmaker(engine), create_engine(shop.place.url())
    transactions.attach(own)
    transactions.attach(core)

    def sell(first: int) -> None:
        with transactions.begin() as tx:
            for number in (first, first + 1):
                tx.session.execute(INSERT, {"id": number})
                tx.send(message(number))
        with own.begin() as session:
            session.execute(INSERT, {"id": first + 2})
            send(session, message(first + 2))
        with core.begin() as connection:
            connection.execute(INSERT, {"id": first + 3})
            send(connection, message(first + 3))
        with own() as session:
            session.execute(INSERT, {"id": first + 4})
            send(session, message(first + 4))  # and nobody commits

    with transactions:
        sell(10)
        with shop.broker_away():
            sell(20)
            assert shop.paid() == [10, 11, 12, 13, 20, 21, 22, 23]
        shop.wait_until_agreed()
    engine.dispose()
    core.dispose()


def connect_on_a_loop(shop: RowsShop, driver: str) -> Any:
    place = shop.place
    if driver == "asyncpg":
        import asyncpg

        return asyncpg.connect(place.dsn)
    if driver == "psycopg":
        import psycopg

        return psycopg.AsyncConnection.connect(place.dsn)
    import aiomysql

    return aiomysql.connect(host="127.0.0.1", port=place.port, user=place.user, db=place.name)


async def on_a_loop(shop: RowsShop, transactions: Any, sell: Callable[[int], Awaitable[None]]) -> None:
    async with transactions:
        await sell(1)
        shop.gantry.stop_broker()
        await sell(2)
        await sell(3)
        assert shop.paid() == [1, 2, 3]
        shop.gantry.start_broker()
        await shop.until_agreed_on_a_loop()


@AWAY
@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_async_sessions(shop: RowsShop, away: str) -> None:
    import asyncio

    async def run() -> None:
        engine = create_async_engine(shop.place.async_url)
        transactions = AsyncTransactions("order-service", engine, **options(away))

        async def sell(number: int) -> None:
            async with transactions.begin() as tx:
                await tx.session.execute(INSERT, {"id": number})
                tx.send(message(number))

        await on_a_loop(shop, transactions, sell)
        await engine.dispose()

    asyncio.run(run())


@AWAY
@pytest.mark.parametrize(
    ("database", "driver"),
    [("postgresql", "asyncpg"), ("postgresql", "psycopg"), ("mariadb", "aiomysql")],
    indirect=["database"],
)
def test_drivers_on_an_event_loop(shop: RowsShop, away: str, driver: str) -> None:
    import asyncio

    async def run() -> None:
        connect = lambda: connect_on_a_loop(shop, driver)  # noqa: E731
        transactions = AsyncTransactions("order-service", connect, **options(away))

        async def sell(number: int) -> None:
            async with transactions.begin() as tx:
                await tx.execute(f"INSERT INTO orders VALUES ({number})")
                tx.send(message(number))

        await on_a_loop(shop, transactions, sell)

    asyncio.run(run())


def places(shop: RowsShop) -> list[int]:
    """The numbers of all messages; those of a key are in one queue."""
    return [int(found.body) for found in shop.gantry.messages("orders")]


def test_sessions_and_core_take_ordering_keys(shop: RowsShop) -> None:
    engine = create_engine(shop.place.url())
    transactions = Transactions("order-service", engine, **options("refuse"))
    own, core = sessionmaker(engine), create_engine(shop.place.url())
    transactions.attach(own)
    transactions.attach(core)
    with transactions:
        for first in range(10, 60, 10):
            if first == 20:
                shop.gantry.stop_broker()
            with transactions.begin() as tx:
                tx.session.execute(INSERT, {"id": first})
                tx.session.execute(INSERT, {"id": first + 1})
                tx.send(message(first), message(first + 1), order_key="k")
            with own.begin() as session:
                session.execute(INSERT, {"id": first + 2})
                send(session, message(first + 2), order_key="k")
            with core.begin() as connection:
                connection.execute(INSERT, {"id": first + 3})
                send(connection, message(first + 3), order_key="k")
        shop.gantry.start_broker()
        shop.wait_until_agreed()
    assert places(shop) == shop.paid()
    engine.dispose()
    core.dispose()


@pytest.mark.parametrize(
    ("database", "driver"),
    [("postgresql", "sqlalchemy"), ("sqlite", "sqlalchemy"), ("postgresql", "asyncpg"), ("postgresql", "psycopg"),
     ("mariadb", "aiomysql")],
    indirect=["database"],
)  # fmt: skip
def test_event_loops_take_ordering_keys(shop: RowsShop, driver: str) -> None:
    import asyncio

    async def run() -> None:
        engine = create_async_engine(shop.place.async_url) if driver == "sqlalchemy" else None
        given: Any = engine if engine is not None else lambda: connect_on_a_loop(shop, driver)

        async def sell(number: int) -> None:
            async with transactions.begin() as tx:
                execute = tx.execute if engine is None else tx.session.execute
                insert = f"INSERT INTO orders VALUES ({number})"
                await execute(insert if engine is None else text(insert))
                tx.send(message(number), order_key="k")

        transactions: Any = AsyncTransactions("order-service", given, **options("refuse"))
        await on_a_loop(shop, transactions, sell)
        assert places(shop) == [1, 2, 3]
        if engine is not None:
            await engine.dispose()

    asyncio.run(run())


@AWAY
@pytest.mark.parametrize("first", [True, False])
def test_a_message_sent_in_the_flush_of_the_commit_is_not_lost(shop: RowsShop, away: str, first: bool) -> None:
    """SQLAlchemy flushes after its event before_commit, when the other messages may be rows already."""
    engine = create_engine(shop.place.url())
    maker = sessionmaker(engine)
    transactions = Transactions("order-service", engine, **options(away))
    transactions.attach(maker)
    event.listen(maker, "before_flush", lambda session, *_: send(session, message(1)))
    with transactions:
        with shop.broker_away(), maker() as session:
            session.add(Order(id=1))
            if not first:
                send(session, message(2))
                session.add(Order(id=2))
            session.commit()
        shop.wait_until_agreed()
    engine.dispose()


@pytest.mark.parametrize("first", [True, False])
def test_a_key_that_is_given_in_the_flush_of_the_commit_is_kept_or_refused(shop: RowsShop, first: bool) -> None:
    """Where half messages of the transaction are committed with it already, a row comes too late."""
    engine = create_engine(shop.place.url())
    maker = sessionmaker(engine)
    transactions = Transactions("order-service", engine, **options("refuse"))
    transactions.attach(maker)
    event.listen(maker, "before_flush", lambda session, *_: send(session, message(1), order_key="k"))
    kept = True
    with transactions:
        with maker() as session:
            session.add(Order(id=1))
            if not first:
                send(session, message(2))
                session.add(Order(id=2))
            try:
                session.commit()
            except Closed as error:
                assert "before the commit begins" in str(error)
                kept = False
        shop.wait_until_agreed()
    assert shop.paid() == ([] if not kept else [1] if first else [1, 2])
    assert kept or not first
    engine.dispose()


@AWAY
def test_a_message_that_comes_behind_the_rows_is_refused(shop: RowsShop, away: str) -> None:
    """From another thread, for example. It would be in no row, and its half message would be rolled back."""
    with shop.service(away) as service, shop.broker_away():
        enlistment = service._enlist()
        enlistment.send(message(2))
        enlistment.prepare(lambda statement: 1)
        with pytest.raises(Closed, match="before the commit begins"):
            enlistment.send(message(1))
        enlistment.rolled_back()
