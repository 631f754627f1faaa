"""On PostgreSQL the outcome row and the COMMIT are one round trip. Nothing else changes by that."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from gantrymq import Message
from gantrymq.client.sending.halves import Halves
from gantrymq.errors import ConfigError, TransactionClaimed
from gantrymq.sql import AsyncTransactions
from gantrymq.sql.sqlalchemy import last_statement
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place
from tests.sql.traps import ROLLBACK, Shop, level, only, shop

__all__ = ["level", "shop"]


@pytest.fixture
def statements(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is executed on the engine of the shop; the beginnings."""
    return watched(shop.engine, monkeypatch)


def watched(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: seen.append(_shown(given[2])))
    execute = last_statement.execute

    def noted(*given: Any) -> int:
        seen.append(_shown(given[1]))
        return execute(*given)

    monkeypatch.setattr(last_statement, "execute", noted)
    return seen


def _shown(statement: str) -> str:
    statement = statement.replace('"public".', "").replace('"main".', "")
    if statement.startswith("INSERT INTO `"):
        statement = "INSERT INTO " + statement.partition(".")[2]
    words = statement.split()[: 3 if statement.startswith(("INSERT", "UPDATE")) else 2]
    return " ".join(words).partition("(")[0] + (" ... COMMIT" if statement.endswith("; COMMIT") else "")


@only("postgresql")
def test_the_outcome_row_and_the_commit_are_one_statement(shop: Shop, statements: list[str]) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    assert statements == ["SELECT set_config", "INSERT INTO orders", "INSERT INTO gantrymq_outcomes ... COMMIT"]
    shop.check(1)
    assert shop.outcomes() == [1]


@only("postgresql")
def test_a_transaction_with_messages_only(shop: Shop, statements: list[str]) -> None:
    with shop.transactions.begin() as tx:
        tx.send(Message("orders", "1"))
    assert statements == ["SELECT set_config", "INSERT INTO gantrymq_outcomes ... COMMIT"]
    shop.settled()
    assert shop.announced() == [1]


@only("postgresql", "sqlite")
def test_a_transaction_leaves_nothing_to_the_garbage_collector(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session and its messages referred to each other: a tenth of the time of a service was garbage collection. And
    the client was woken up once more, when the object was freed."""
    woken: list[object] = []
    abandon = Halves.abandon
    monkeypatch.setattr(Halves, "abandon", lambda *given: woken.append(abandon(*given)))
    gc.disable()
    try:
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
            session = weakref.ref(tx.session)
        del tx
        assert session() is None
    finally:
        gc.enable()
    assert woken == []
    shop.check(1)


@only("mariadb", "sqlite")
def test_elsewhere_they_are_not(shop: Shop, statements: list[str]) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    begins = ["BEGIN"] if shop.place.kind == "sqlite" else []
    assert statements == [*begins, "SAVEPOINT gantrymq_begin", "INSERT INTO orders", "INSERT INTO gantrymq_outcomes"]
    shop.check(1)


@only("postgresql")
def test_what_another_listener_executes_belongs_to_the_transaction(shop: Shop, statements: list[str]) -> None:
    def listener(connection: Any) -> None:
        connection.execute(text("UPDATE stock SET n = n + 1"))

    event.listen(shop.engine, "commit", listener)
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    last = ["UPDATE stock SET", "INSERT INTO gantrymq_outcomes ... COMMIT"]
    assert statements == ["SELECT set_config", "INSERT INTO orders", *last]
    shop.check(1)
    assert shop.place.execute("SELECT n FROM stock") == [(1,)]


@only("postgresql")
def test_one_that_was_claimed_does_not_commit(shop: Shop) -> None:
    with shop.sibling() as sibling, pytest.raises(TransactionClaimed), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        assert shop.asked(sibling._started()[0], tx.transaction_id or "").state is ROLLBACK
    assert shop.outcomes() == [2]
    shop.check()


@only("postgresql")
@pytest.mark.parametrize("unique", [True, False])
def test_a_constraint_that_the_commit_breaks_is_no_claim(shop: Shop, unique: bool) -> None:
    """A deferred one is noticed by the COMMIT. A unique one has the same error as the outcome row of a claim."""
    kind = "UNIQUE (id)" if unique else "FOREIGN KEY (id) REFERENCES stock (id)"
    shop.place.execute(f"CREATE TABLE late (id INTEGER, {kind} DEFERRABLE INITIALLY DEFERRED)")
    with pytest.raises(IntegrityError, match="late"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.session.execute(text("INSERT INTO late VALUES (2), (2)"))
    shop.check()
    with shop.transactions.begin() as tx:
        shop.pay(tx, 3)
    shop.check(3)


@only("postgresql")
def test_a_connection_in_autocommit_is_refused_before_its_first_statement(shop: Shop, statements: list[str]) -> None:
    with pytest.raises(ConfigError, match="in autocommit"), shop.transactions.begin() as tx:
        tx.session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
    assert statements == []
    shop.check()


@only("postgresql")
def test_an_error_that_was_swallowed_does_not_commit(shop: Shop) -> None:
    """PostgreSQL calls the COMMIT of a failed transaction a success."""
    with pytest.raises(Exception, match="aborted"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        with pytest.raises(IntegrityError):
            tx.session.connection().exec_driver_sql("INSERT INTO orders VALUES (1)")
    shop.check()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_on_an_event_loop(
    postgresql: Place, gantry: LocalCluster, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    seen: list[str] = []

    async def play() -> None:
        engine = create_async_engine(postgresql.url(driver))
        transactions = AsyncTransactions("service", engine, name_servers=gantry.name_servers)
        await transactions.create_table()
        async with transactions:
            statements = watched(engine.sync_engine, monkeypatch)
            async with transactions.begin() as tx:
                await tx.session.execute(text("CREATE TABLE made (id INTEGER)"))
                tx.send(Message("orders", "1"))
            seen.extend(statements)
        await engine.dispose()

    asyncio.run(play())
    assert seen == [
        "SELECT set_config",
        "CREATE TABLE",
        "INSERT INTO gantrymq_outcomes" + " ... COMMIT" * (driver == "psycopg"),
    ]
    assert [message.body for message in gantry.messages("orders")] == [b"1"]
    assert postgresql.execute("SELECT outcome FROM gantrymq_outcomes WHERE outcome > 0") == [(1,)]
