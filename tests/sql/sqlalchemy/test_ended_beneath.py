"""The connection of a session is rolled back or committed without the session, or a listener of the program keeps it
from ending: nothing that follows commits a row without its message. Found by ``tests.sql.blocks``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import sessionmaker

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql import send
from tests.sql.sqlalchemy.test_ended_behind import USUAL, execute, level, postgresql, shop, sqlite, usual
from tests.sql.traps import Shop

__all__ = ["level", "shop"]


def ended(tx: Any, how: str) -> None:
    running = tx.session.connection().get_transaction()
    getattr(running, how)()


@usual
@pytest.mark.parametrize("how", ["rollback", "commit"])
def test_what_follows_the_end_of_the_connection_alone_is_refused(shop: Shop, how: str) -> None:
    """Of the first four steps, three go through on SQLite: INSERT OR ROLLBACK ends the transaction that SQLAlchemy has
    begun unseen, the savepoint is one of its own, and its end commits the row."""
    with (
        pytest.raises(TransactionBroken, match=r"without its session|committed inside"),
        shop.transactions.begin() as tx,
    ):
        execute(tx, "SELECT 1")
        ended(tx, how)
        with suppress(DBAPIError, TransactionBroken):
            execute(tx, "INSERT OR ROLLBACK INTO stock VALUES (1, 1)")
        with tx.session.begin_nested():
            tx.send(Message("orders", "1"))
            execute(tx, "INSERT INTO orders VALUES (1)")
    shop.check()
    with shop.transactions.begin() as tx:
        shop.pay(tx, 2)
    shop.check(2)


@sqlite
def test_a_session_that_had_no_message_is_told_what_may_be_committed(shop: Shop) -> None:
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with pytest.raises(TransactionBroken, match="may be committed"), sessions.begin() as session:
        session.connection().get_transaction().rollback()  # type: ignore[union-attr]
        with suppress(DBAPIError):
            session.execute(text("INSERT OR ROLLBACK INTO stock VALUES (1, 1)"))
        with session.begin_nested():
            session.execute(text("INSERT INTO orders VALUES (1)"))
        send(session, Message("orders", "1"))
    shop.settled()
    assert (shop.paid(), shop.announced()) == ([1], [])


@usual
@pytest.mark.parametrize("when", ["commit", "rollback"])
def test_a_listener_that_fails_leaves_no_transaction_to_the_next_block(shop: Shop, when: str) -> None:
    """SQLAlchemy takes the transaction for ended, and the next block that gets the connection would commit it."""
    engine = shop.new_engine(pool_size=1)
    fails = [True]

    def refuse(connection: Any) -> None:
        if fails.pop():
            raise ValueError("mine")

    with shop.sibling(engine) as sibling:
        sibling.start()
        sibling.attach(engine)
        event.listen(engine, when, refuse)
        with pytest.raises(ValueError, match="mine"), engine.connect() as connection:
            connection.execute(text("INSERT INTO orders VALUES (1)"))
            send(connection, Message("orders", "1"))
            getattr(connection, when)()
        fails.append(False)
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO orders VALUES (2)"))
            send(connection, Message("orders", "2"))
        fails[:] = [False, True] if when == "commit" else [False]
        if when == "commit":
            with pytest.raises(ValueError, match="mine"), sibling.begin() as tx:
                shop.pay(tx, 3)
            with sibling.begin() as tx:
                shop.pay(tx, 4)
        else:
            with sibling.begin() as tx:
                shop.pay(tx, 4)
        shop.check(2, 4)


SETTINGS: dict[str, Callable[[Shop], Any]] = {
    "isolation_level": lambda shop: create_engine(shop.place.url(), isolation_level="AUTOCOMMIT"),
    "execution_options": lambda shop: shop.engine.execution_options(isolation_level="AUTOCOMMIT"),
    "the driver": lambda shop: create_engine(shop.place.url(), connect_args={"autocommit": True}),
}


@pytest.mark.parametrize("level", USUAL[:2], ids=["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("how", SETTINGS)
def test_an_attached_session_in_autocommit_is_refused_before_its_first_row(shop: Shop, how: str) -> None:
    """It was told at the first ``send`` only that its rows are committed."""
    engine = SETTINGS[how](shop)
    shop.engines.append(engine)
    sessions = sessionmaker(engine)
    shop.transactions.attach(sessions)
    with pytest.raises(ConfigError, match="session maker or an engine that is not attached"):  # noqa: SIM117
        with sessions.begin() as session:
            session.execute(text("INSERT INTO orders VALUES (1)"))
            send(session, Message("orders", "1"))
    shop.check()
    with sessionmaker(engine).begin() as session:  # which takes no messages
        session.execute(text("INSERT INTO orders VALUES (2)"))
    assert shop.paid() == [2]


@usual
def test_a_session_may_ask_for_autocommit_where_it_sends_nothing(shop: Shop) -> None:
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with sessions() as session:
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        session.execute(text("INSERT INTO orders VALUES (1)"))
        with pytest.raises(ConfigError, match="are committed"):
            send(session, Message("orders", "1"))
    assert shop.paid() == [1]


@pytest.mark.parametrize("level", USUAL[:2], ids=["postgresql", "mariadb"], indirect=True)
def test_an_attached_engine_whose_driver_commits_each_statement_is_refused_before_the_first(shop: Shop) -> None:
    engine = SETTINGS["the driver"](shop)
    shop.engines.append(engine)
    shop.transactions.attach(engine)
    with engine.connect() as connection:
        for _ in range(2):  # a refusal that is caught stays one
            with pytest.raises(ConfigError, match="engine that is not attached"):
                connection.execute(text("INSERT INTO orders VALUES (1)"))
    shop.check()


@postgresql
def test_an_error_that_was_caught_is_told_as_the_database_says_it(shop: Shop) -> None:
    """SQLAlchemy stumbled over the connection, which was closed here: "'NoneType' object has no attribute 'closed'"."""
    with pytest.raises(DBAPIError, match="aborted"), shop.transactions.begin() as tx:
        tx.send(Message("orders", "1"))
        with suppress(DBAPIError):
            execute(tx, "SELEKT 1")
    shop.check()
