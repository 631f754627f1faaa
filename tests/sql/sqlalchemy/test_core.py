"""Messages in the transactions of Core's connections: ``attach(engine)``, then ``send(connection, message)``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionBroken, TransactionClaimed
from gantrymq.sql import send
from gantrymq.sql.sqlalchemy import core
from gantrymq.testing import LocalCluster
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place
from tests.sql.sqlalchemy.test_async_traps import TWO, play
from tests.sql.sqlalchemy.test_async_traps import Shop as AsyncShop
from tests.sql.traps import LEVELS, ROLLBACK, Shop, level, shop

__all__ = ["level", "shop"]
USUAL = [LEVELS[0], LEVELS[2], LEVELS[4]]
usual = pytest.mark.parametrize("level", USUAL, ids=[one[0] for one in USUAL], indirect=True)
networked = pytest.mark.parametrize("level", USUAL[:2], ids=["postgresql", "mariadb"], indirect=True)
postgresql = pytest.mark.parametrize("level", USUAL[:1], ids=["postgresql"], indirect=True)
mariadb = pytest.mark.parametrize("level", USUAL[1:2], ids=["mariadb"], indirect=True)
sqlite = pytest.mark.parametrize("level", [LEVELS[4]], ids=["sqlite"], indirect=True)


def pay(connection: Connection, number: int) -> None:
    connection.execute(text(f"INSERT INTO orders VALUES ({number})"))
    send(connection, Message("orders", str(number)))


@contextmanager
def begun(shop: Shop) -> Iterator[Connection]:
    with shop.engine.begin() as connection:
        yield connection


@contextmanager
def as_you_go(shop: Shop) -> Iterator[Connection]:
    with shop.engine.connect() as connection:
        yield connection
        connection.commit()


@contextmanager
def by_a_transaction(shop: Shop) -> Iterator[Connection]:
    with shop.engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def in_a_session(shop: Shop) -> Iterator[Connection]:
    """Of a program that has sessions, too, which take no messages themselves."""
    with Session(shop.engine) as session, session.begin():
        yield session.connection()


FORMS: list[Callable[[Shop], Any]] = [begun, as_you_go, by_a_transaction, in_a_session]


@usual
def test_rows_and_messages_agree_in_every_form(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    for number, form in enumerate(FORMS):
        with form(shop) as connection:
            pay(connection, 10 * number + 1)
            pay(connection, 10 * number + 2)
        with pytest.raises(ZeroDivisionError), form(shop) as connection:
            pay(connection, 10 * number + 3)
            raise ZeroDivisionError
    shop.check(*(10 * number + one for number in range(len(FORMS)) for one in (1, 2)))
    assert len(shop.outcomes()) == len(FORMS)


@usual
def test_commit_as_you_go(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    with shop.engine.connect() as connection:
        send(connection, Message("orders", "1"))  # before there is a transaction
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        connection.commit()
        pay(connection, 2)
        connection.rollback()
        pay(connection, 3)
        connection.commit()
        pay(connection, 4)  # and is closed without a commit
    shop.check(1, 3)


@usual
def test_savepoints(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    with shop.engine.begin() as connection:
        pay(connection, 1)
        for kept in (2, 4):
            with connection.begin_nested():
                pay(connection, kept)
            with connection.begin_nested() as gone:
                pay(connection, kept + 1)
                gone.rollback()
        connection.execute(text("SAVEPOINT by_hand"))
        pay(connection, 6)
        connection.execute(text("ROLLBACK TO SAVEPOINT by_hand"))
    shop.check(1, 2, 4)


@networked
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_dies_at_the_commit(shop: Shop, moment: Moment) -> None:
    """The database is asked, and where it has committed, nobody hears of the error; the connection can be used on."""
    with CuttingProxy(shop.place.port) as proxy, shop.sibling(shop.new_engine(port=proxy.port)) as transactions:
        engine = transactions._database.engine
        transactions.attach(engine)
        with engine.connect() as connection:
            pay(connection, 1)
            proxy.cut(moment)
            if moment == "before":
                with pytest.raises(Exception, match=r"(?i)lost|closed"):
                    connection.commit()
                connection.rollback()
            else:
                connection.commit()
            pay(connection, 2)
            connection.commit()
        assert proxy.cuts == 1
    shop.check(*([2] if moment == "before" else [1, 2]))


@mariadb
def test_what_the_server_ends_is_told(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    with pytest.raises(TransactionBroken, match="ended inside"), shop.engine.begin() as connection:
        pay(connection, 1)
        connection.execute(text("CREATE TABLE more (id INTEGER)"))
    with pytest.raises(TransactionBroken, match="committed inside"), shop.engine.begin() as connection:
        pay(connection, 2)
        connection.execute(text("DROP TABLE more"))
        raise ZeroDivisionError
    with shop.engine.connect() as connection:
        for end, number in ((connection.commit, 3), (connection.rollback, 4)):
            pay(connection, number)
            connection.execute(text("TRUNCATE stock"))
            with pytest.raises(TransactionBroken):
                end()
            connection.rollback()
        pay(connection, 5)  # it can be used on
        connection.commit()
    shop.settled()
    assert (shop.paid(), shop.announced()) == ([1, 2, 3, 4, 5], [5])


@postgresql
def test_in_another_schema_the_outcome_lies_where_it_is_looked_for(shop: Shop) -> None:
    shop.place.execute("CREATE SCHEMA tenant1", "CREATE TABLE tenant1.orders (id INTEGER PRIMARY KEY)")
    shop.transactions.attach(shop.engine)
    with shop.engine.begin() as connection:
        connection.execute(text("SET LOCAL search_path TO tenant1"))
        pay(connection, 1)
    shop.settled()
    assert (shop.announced(), shop.outcomes()) == ([1], [1])


@postgresql
def test_one_that_was_claimed_does_not_commit(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    with pytest.raises(TransactionClaimed), shop.engine.begin() as connection:
        pay(connection, 1)
        enlistment = core._running[connection].enlistment
        assert enlistment is not None
        assert shop.asked(shop.local(), enlistment.transaction_id).state is ROLLBACK
    shop.check()


@sqlite
def test_what_takes_no_messages_is_refused_by_name(shop: Shop) -> None:
    message = Message("orders", "1")
    with shop.engine.begin() as connection:
        with pytest.raises(ConfigError, match=r"transactions\.attach\(engine\)"):
            send(connection, message)
        shop.transactions.attach(shop.engine)
        with pytest.raises(ConfigError, match="began before its engine was attached"):
            send(connection, message)
    with pytest.raises(ConfigError, match="attached already"):
        shop.transactions.attach(shop.engine.execution_options(logging_token="again"))
    with pytest.raises(ConfigError, match="in autocommit"):
        shop.transactions.attach(shop.new_engine().execution_options(isolation_level="AUTOCOMMIT"))
    with pytest.raises(ConfigError, match="in autocommit"):
        shop.transactions.attach(create_engine(shop.place.url(), isolation_level="AUTOCOMMIT"))
    with pytest.raises(ConfigError, match="the pool StaticPool"):
        shop.transactions.attach(create_engine("sqlite://", poolclass=StaticPool))
    autocommit = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection, pytest.raises(ConfigError, match="are committed"):
        send(connection, message)
    shop.check()


@postgresql
def test_a_transaction_that_another_decides_is_refused(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    with shop.engine.connect() as connection:
        with connection.begin_twophase() as outer:
            with pytest.raises(ConfigError, match="begin_twophase"):
                send(connection, Message("orders", "1"))
            outer.rollback()
        with pytest.raises(Exception, match="division by zero"):
            connection.execute(text("SELECT 1 / 0"))
        with pytest.raises(Exception, match="aborted"):
            pay(connection, 1)
        connection.rollback()
    shop.check()


@sqlite
def test_sessions_of_an_attached_engine(shop: Shop) -> None:
    """A session that takes messages sends those of its connection, too: there is one outcome."""
    shop.transactions.attach(shop.engine)
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with sessions.begin() as session:
        session.execute(text("INSERT INTO orders VALUES (1)"))
        send(session, Message("orders", "1"))
        pay(session.connection(), 2)
        with session.begin_nested() as gone:
            pay(session.connection(), 3)
            gone.rollback()
    with shop.transactions.begin() as tx:
        shop.pay(tx, 4)
    with shop.engine.begin() as connection:
        pay(connection, 5)
        with Session(connection) as session:  # its own commit is none
            session.execute(text("INSERT INTO orders VALUES (6)"))
            session.commit()
        send(connection, Message("orders", "6"))
    shop.check(1, 2, 4, 5, 6)
    assert len(shop.outcomes()) == 3


@sqlite
def test_a_message_behind_the_last_commit_is_not_dropped_without_a_word(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.transactions.attach(shop.engine)
    with shop.engine.connect() as connection:
        pay(connection, 1)
        connection.commit()
        send(connection, Message("orders", "2"))
    assert "no statement and no commit came behind the last message" in caplog.text
    shop.check(1)


@sqlite
@pytest.mark.gantry(broker={"transactionTimeOut": 1000, "transactionCheckInterval": 1000})
def test_a_connection_that_is_forgotten_is_rolled_back(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    connection: Any = shop.engine.connect()
    pay(connection, 1)
    del connection
    gc.collect()
    shop.check()


@sqlite
def test_a_connection_that_the_program_gives_up_is_rolled_back(shop: Shop) -> None:
    shop.transactions.attach(shop.engine)
    with pytest.raises(Exception, match="rolled back"), shop.engine.begin() as connection:
        pay(connection, 1)
        connection.invalidate()
    shop.check()


@TWO
def test_on_an_event_loop(database: Place, gantry: LocalCluster) -> None:
    async def run(shop: AsyncShop) -> None:
        async with shop.service() as (transactions, engine):
            transactions.attach(engine)

            async def paid(connection: Any, number: int) -> None:
                await connection.execute(text(f"INSERT INTO orders VALUES ({number})"))
                send(connection, Message("orders", str(number)))

            async with engine.begin() as connection:
                await paid(connection, 1)
                async with connection.begin_nested() as gone:
                    await paid(connection, 2)
                    await gone.rollback()
            with pytest.raises(ZeroDivisionError):
                async with engine.begin() as connection:
                    await paid(connection, 3)
                    raise ZeroDivisionError
            async with engine.connect() as connection:
                with pytest.raises(ConfigError, match="no transaction runs on this connection"):
                    send(connection, Message("orders", "4"))
                await paid(connection, 5)
                await connection.commit()
                await paid(connection, 6)
            await shop.check(1, 5)

    play(gantry, database, run)
