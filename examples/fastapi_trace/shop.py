"""A web service that takes orders, and a consumer that ships them. Each has a database of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import FastAPI
from sqlalchemy import create_engine, text
from telemetry import trace_statements

from gantrymq import ConsumeFromWhere, Message, MessageView, PushConsumer
from gantrymq.sql import Inbox, Transactions

NAME_SERVERS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
ORDERS = "orders"


def database(variable: str, default: str, table: str) -> Any:
    engine = create_engine(os.environ.get(variable, default))
    trace_statements(engine)
    with engine.begin() as connection:  # in production: a migration
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table} (id VARCHAR(40) PRIMARY KEY)"))
    return engine


@asynccontextmanager
async def lifespan(app: FastAPI) -> Any:
    engine = database("SHOP_URL", "sqlite:///shop.db", "orders")
    transactions = Transactions("shop", engine, name_servers=NAME_SERVERS, topics=[ORDERS])
    transactions.create_table()
    with transactions:
        app.state.transactions = transactions
        yield
    engine.dispose()


app = FastAPI(lifespan=lifespan, telemetry={"operation_spans": False})  # a span for each request, and none inside


@app.post("/orders/{order_id}", status_code=201)
def order(order_id: str) -> dict[str, str]:
    """The row and the message appear together, or neither does."""
    with app.state.transactions.begin() as tx:
        tx.session.execute(text("INSERT INTO orders VALUES (:id)"), {"id": order_id})
        tx.send(Message(ORDERS, order_id, keys=[order_id]))
    return {"id": order_id}


@contextmanager
def shipping() -> Iterator[None]:
    """The consumer; in production, a process of its own."""
    engine = database("SHIPPING_URL", "sqlite:///shipping.db", "parcels")
    inbox = Inbox("shipping", engine)
    inbox.create_table()

    @inbox.once
    def ship(message: MessageView, tx: Any) -> None:
        tx.session.execute(text("INSERT INTO parcels VALUES (:id)"), {"id": message.keys[0]})

    first = ConsumeFromWhere.FIRST_OFFSET
    with PushConsumer("shipping", name_servers=NAME_SERVERS, listener=ship, from_where=first).subscribe(ORDERS):
        yield
    engine.dispose()
