"""A local transaction that takes longer than ``longest_transaction`` in a process that lives: a check of a broker gives
it up, whoever is asked. Before that time nothing happens to it, and the number of checks does not matter."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq import Message
from gantrymq.errors import TransactionClaimed
from gantrymq.sql import AsyncTransactions, ConnectionTransaction, ConnectionTransactions, Transactions
from gantrymq.sql.sqlalchemy import last_statement
from gantrymq.testing import LocalCluster

CHECKS = 3
MANY_CHECKS_S = 10.0 * CHECKS
"""Time for more checks than a half message may have answered with UNKNOWN before it is parked."""
LONGEST_S = 60.0
SETTINGS: Any = {"name_servers": "127.0.0.1:9876", "topics": ["orders"], "claim_timeout": 0.05}
pytestmark = pytest.mark.gantry(
    virtual_time=True,
    broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000, "transactionCheckMax": CHECKS},
)


@pytest.fixture
def path(tmp_path: Path, gantry: LocalCluster) -> str:
    gantry.create_topic("orders")
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return str(tmp_path / "shop.db")


def service(path: str) -> ConnectionTransactions:
    return Transactions("service", lambda: sqlite3.connect(path, timeout=0.05, check_same_thread=False), **SETTINGS)


@pytest.fixture
def transactions(path: str) -> Iterator[ConnectionTransactions]:
    made = service(path)
    made.create_table()
    with made:
        yield made


def pay(tx: ConnectionTransaction, number: int = 1) -> None:
    """From here on the local transaction holds SQLite's only lock for writers: nobody can claim anything."""
    tx.execute("INSERT INTO orders VALUES (?)", (number,))
    tx.send(Message("orders", b"%d" % number))


def paid(path: str) -> list[Any]:
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM orders")]


def test_before_the_longest_time_nobody_gives_it_up(
    gantry: LocalCluster, path: str, transactions: ConnectionTransactions
) -> None:
    with service(path), transactions.begin() as tx:
        pay(tx)
        gantry.advance(LONGEST_S - 1)
        assert len(gantry.open_transactions()) == 1
    gantry.settle()
    assert (paid(path), len(gantry.messages("orders"))) == ([1], 1)


@pytest.mark.parametrize("siblings", [0, 1, 2])
def test_after_the_longest_time_it_is_given_up_and_never_parked(
    gantry: LocalCluster, path: str, transactions: ConnectionTransactions, siblings: int
) -> None:
    others = [service(path) for _ in range(siblings)]
    for other in others:
        other.start()
    with pytest.raises(TransactionClaimed, match="raise longest_transaction"), transactions.begin() as tx:
        pay(tx)
        gantry.advance(LONGEST_S + MANY_CHECKS_S)
        assert gantry.open_transactions() == [], "rolled back"
    gantry.advance(1)
    assert (paid(path), gantry.messages("orders"), gantry.messages("TRANS_CHECK_MAX_TIME_TOPIC")) == ([], [], [])
    with transactions.begin() as tx:  # again, as the error says
        pay(tx)
    gantry.settle()
    assert (paid(path), len(gantry.messages("orders"))) == ([1], 1)
    for other in others:
        other.close()


def test_one_that_was_given_up_takes_no_more_messages(
    gantry: LocalCluster, path: str, transactions: ConnectionTransactions
) -> None:
    with pytest.raises(TransactionClaimed), transactions.begin() as tx:
        pay(tx)
        gantry.advance(LONGEST_S + 1)
        tx.send(Message("orders", b"2"))
        pytest.fail("not reached")
    gantry.advance(1)
    assert (paid(path), gantry.messages("orders"), gantry.open_transactions()) == ([], [], [])


def test_all_messages_of_one_that_was_given_up_are_rolled_back(
    gantry: LocalCluster, path: str, transactions: ConnectionTransactions
) -> None:
    """Each of them is asked about at a time of its own."""
    with pytest.raises(TransactionClaimed), transactions.begin() as tx:
        pay(tx, 1)
        gantry.advance(LONGEST_S / 2)
        pay(tx, 2)
        gantry.advance(LONGEST_S / 2 + 1)
        assert len(gantry.open_transactions()) == 1
    gantry.advance(1)
    assert (paid(path), gantry.messages("orders"), gantry.open_transactions()) == ([], [], [])


def test_one_whose_database_is_committing_is_not_given_up(gantry: LocalCluster, path: str) -> None:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.05, "check_same_thread": False})
    made = Transactions("service", engine, **SETTINGS)
    made.create_table()
    with made:
        last_statement._dialects.discard(engine.dialect)  # together with the commit there is no such moment
        event.listen(made._sessions.class_, "before_commit", lambda _: gantry.advance(2))  # type: ignore[attr-defined]
        with made.begin() as tx:
            tx.session.execute(text("INSERT INTO orders VALUES (1)"))
            tx.send(Message("orders", b"1"))
            gantry.advance(LONGEST_S - 1)
        gantry.settle()
        assert (paid(path), len(gantry.messages("orders"))) == ([1], 1)
    engine.dispose()


@pytest.mark.parametrize("too_long", [False, True])
def test_on_an_event_loop(gantry: LocalCluster, path: str, too_long: bool) -> None:
    async def play() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}", connect_args={"timeout": 0.05})
        transactions = AsyncTransactions("service", engine, **SETTINGS)
        await transactions.create_table()
        async with transactions:
            try:
                async with transactions.begin() as tx:
                    await tx.session.execute(text("INSERT INTO orders VALUES (1)"))
                    tx.send(Message("orders", b"1"))
                    await gantry.advance_async(LONGEST_S + (MANY_CHECKS_S if too_long else -1))
                    assert len(gantry.open_transactions()) == (not too_long)
            except TransactionClaimed:
                assert too_long
            await gantry.advance_async(1)
        await engine.dispose()

    asyncio.run(play())
    assert (len(paid(path)), len(gantry.messages("orders")), gantry.open_transactions()) == (
        not too_long, not too_long, [],
    )  # fmt: skip
