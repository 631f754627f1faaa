"""``wait_for_brokers=False``: a commit does not wait for the brokers, and nothing is lost when the program closes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq import Message
from gantrymq.errors import ConfigError
from gantrymq.sql import Transactions
from gantrymq.testing import LocalCluster

COUNT = 30
ROW = text("INSERT INTO orders (id) VALUES (:id)")
CREATE = text("CREATE TABLE orders (id INTEGER PRIMARY KEY)")


def bodies(gantry: LocalCluster) -> list[int]:
    return sorted(int(message.body) for message in gantry.messages("paid"))


def test_closing_waits_for_the_brokers(gantry: LocalCluster, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    with engine.begin() as connection:
        connection.execute(CREATE)
    transactions = Transactions("orders", engine, name_servers=gantry.name_servers, wait_for_brokers=False)
    transactions.create_table()
    with transactions:
        for number in range(COUNT):
            with transactions.begin() as tx:
                tx.session.execute(ROW, {"id": number})
                tx.send(Message("paid", str(number)))
    assert bodies(gantry) == list(range(COUNT))
    engine.dispose()


def test_closing_waits_for_the_brokers_on_an_event_loop(gantry: LocalCluster, tmp_path: Path) -> None:
    async def play() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'orders.db'}")
        async with engine.begin() as connection:
            await connection.execute(CREATE)
        transactions = Transactions("orders", engine, name_servers=gantry.name_servers, wait_for_brokers=False)
        await transactions.create_table()
        async with transactions:
            for number in range(COUNT):
                async with transactions.begin() as tx:
                    await tx.session.execute(ROW, {"id": number})
                    tx.send(Message("paid", str(number)))
        await engine.dispose()

    asyncio.run(play())
    assert bodies(gantry) == list(range(COUNT))


def test_what_is_rolled_back_is_not_delivered(gantry: LocalCluster, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    transactions = Transactions("orders", engine, name_servers=gantry.name_servers, wait_for_brokers=False)
    transactions.create_table()
    with transactions, pytest.raises(ZeroDivisionError), transactions.begin() as tx:
        tx.send(Message("paid", "1"))
        print(1 // 0)
    assert bodies(gantry) == []
    assert not gantry.open_transactions()
    engine.dispose()


@pytest.mark.parametrize("value", [None, 0, "no"])
def test_it_is_true_or_false(value: Any, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    with pytest.raises(ConfigError, match="True or False"):
        Transactions("orders", engine, name_servers="127.0.0.1:1", wait_for_brokers=value)
