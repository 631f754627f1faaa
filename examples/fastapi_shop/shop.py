"""A web service that pays orders: the row in its database and the message to others appear together, or neither does.

Run it with ``uvicorn shop:app``, with ``NAMESRV_ADDR`` and ``DATABASE_URL`` in the environment if needed.
Kill it at any moment (``kill -9``): another process of the same service, or the next one, settles what was open.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from sqlalchemy import ForeignKey, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from gantrymq import Message
from gantrymq.sql import AsyncTransactions

PAID, POINTS = "orders-paid", "points-earned"


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(default="new")


class Payment(Base):
    __tablename__ = "payments"
    order_id: Mapped[str] = mapped_column(ForeignKey("orders.id"), primary_key=True)
    cents: Mapped[int]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    engine = create_async_engine(os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///shop.db"))
    name_servers = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
    transactions = AsyncTransactions(
        "shop", engine, name_servers=name_servers, topics=[PAID, POINTS],
        when_broker_is_away="row",  # orders are paid meanwhile, and their messages follow
    )  # fmt: skip
    async with engine.begin() as connection:  # in production: a migration
        await connection.run_sync(Base.metadata.create_all)
    await transactions.create_table()
    async with transactions:  # from here on, this process also answers for others of the group that died
        app.state.transactions = transactions
        yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order_id}", status_code=201)
async def place(order_id: str) -> dict[str, str]:
    """A new order. Nobody else is told of it."""
    try:
        async with app.state.transactions.begin() as tx:
            tx.session.add(Order(id=order_id))
    except IntegrityError:
        raise HTTPException(409, f"order {order_id} exists") from None
    return {"id": order_id, "status": "new"}


@app.post("/orders/{order_id}/payment")
async def pay(order_id: str, cents: int) -> dict[str, str]:
    """Pay an order. Shipping and the bonus points learn of it if, and only if, it is paid here."""
    async with app.state.transactions.begin() as tx:
        tx.send(Message(PAID, order_id, keys=[order_id]))
        tx.send(Message(POINTS, f"{order_id} {cents // 100}", keys=[order_id]))
        unpaid = update(Order).where(Order.id == order_id, Order.status == "new").values(status="paid")
        if (await tx.session.execute(unpaid)).rowcount == 0:
            raise HTTPException(409, f"order {order_id} is paid already, or does not exist")  # nothing is sent
        tx.session.add(Payment(order_id=order_id, cents=cents))
    return {"id": order_id, "status": "paid"}
