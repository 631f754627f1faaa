"""Local transactions with several messages: one trace from the request to the consumers."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gantrymq.aio import Message
from gantrymq.sql import AsyncTransactions, Transactions

pytest.importorskip("opentelemetry.sdk")

from sqlalchemy.ext.asyncio import create_async_engine

from tests.client.peer import run
from tests.client.real import server
from tests.client.tracing.recorded import Recorded, of, recording

STATE = "gantrymq.transaction.state"


def _pay(recorded: Recorded, name_servers: str, database: Path) -> None:
    transactions = Transactions("shop", lambda: sqlite3.connect(database), name_servers=name_servers)
    transactions.create_table()
    with transactions:
        with recorded.tracer.start_as_current_span("request"), transactions.begin() as tx:
            tx.execute("INSERT INTO orders VALUES ('o-1')")
            tx.send(Message("Paid", "o-1"), Message("Points", "o-1"))
        with pytest.raises(ValueError), transactions.begin() as tx:
            tx.send(Message("Never", "o-2"))
            raise ValueError("no")


def test_a_blocking_transaction(tmp_path: Path) -> None:
    async def test() -> None:
        database = tmp_path / "shop.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
        with recording() as recorded:
            async with server(tmp_path / "store") as address:
                await asyncio.to_thread(_pay, recorded, address, database)
        _judge(recorded)

    run(test)


def test_a_transaction_on_the_event_loop(tmp_path: Path) -> None:
    async def test() -> None:
        with recording() as recorded:
            async with server(tmp_path / "store") as address:
                engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
                transactions = AsyncTransactions("shop", engine, name_servers=address)
                await transactions.create_table()
                async with transactions:
                    with recorded.tracer.start_as_current_span("request"):
                        async with transactions.begin() as tx:
                            tx.send(Message("Paid", "o-1"), Message("Points", "o-1"))
                    with pytest.raises(ValueError):
                        async with transactions.begin() as tx:
                            tx.send(Message("Never", "o-2"))
                            raise ValueError("no")
                await engine.dispose()
        _judge(recorded)

    run(test)


def _judge(recorded: Recorded) -> None:
    assert recorded.names() == [
        "commit Paid", "commit Points", "half Never", "half Paid", "half Points", "local_transaction",
        "local_transaction", "request", "rollback Never",
    ]  # fmt: skip
    paid, failed = recorded.named("local_transaction")
    assert [of(span, STATE) for span in (paid, failed)] == [["COMMIT"], ["ROLLBACK"]]
    assert recorded.parent(paid) == "request" and failed.parent is None
    parents = {
        "half Paid": "local_transaction", "half Points": "local_transaction", "half Never": "local_transaction",
        "commit Paid": "half Paid", "commit Points": "half Points", "rollback Never": "half Never",
    }  # fmt: skip
    assert {name: recorded.parent(recorded.one(name)) for name in parents} == parents
    assert len(recorded.traces()) == 2
