"""Payments become orders that are paid: the row and the message to shipping appear together, or neither does.

Run it with ``faststream run shop:app``, with ``NAMESRV_ADDR`` and ``DATABASE_URL`` in the environment if needed.
Kill it at any moment (``kill -9``): the next process of the service settles what was open.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Annotated, Any

from faststream import Depends, FastStream
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from gantrymq.faststream import GantryBroker
from gantrymq.sql import AsyncTransactions

NAME_SERVERS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///shop.db"))
Session = async_sessionmaker(engine)
transactions = AsyncTransactions("shop", engine, name_servers=NAME_SERVERS)
transactions.attach(Session)
broker = GantryBroker(NAME_SERVERS, transactions=transactions)  # starts and closes the transactions, too
app = FastStream(broker)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    cents: Mapped[int]


class Payment(BaseModel):
    order: str
    cents: int


async def begin() -> AsyncIterator[Any]:
    async with Session.begin() as session:  # commits when the handler has returned, rolls back when it raised
        yield session


orders_paid = broker.publisher("orders-paid", schema=Payment)


@app.on_startup
async def create_tables() -> None:  # in production: a migration
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await transactions.create_table()


@app.after_shutdown
async def disconnect() -> None:
    await engine.dispose()


@broker.subscriber("payments", group="shop")
async def pay(payment: Payment, session: Annotated[Any, Depends(begin, cast=False)]) -> None:
    """Pay an order. A payment that comes twice pays once, and shipping hears of it once."""
    if payment.cents <= 0:
        raise ValueError(f"a payment of {payment.cents} cents")  # comes again, and ends in the dead letters
    if (await session.scalars(select(Order).where(Order.id == payment.order))).first() is None:
        session.add(Order(id=payment.order, cents=payment.cents))
        await orders_paid.publish(payment, session=session, keys=payment.order)
