"""The connection of a session is committed by somebody else than the session: by its pool, by the program, by the
server. Row and message agree, or an error says what is committed. Found by ``tests.sql.blocks``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import sessionmaker

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql import send
from tests.sql.sqlalchemy.test_ended_behind import execute, level, mariadb, postgresql, shop, sqlite, usual
from tests.sql.traps import Shop

__all__ = ["level", "shop"]


def rolled_back_below(tx: Any) -> None:
    """The mark of the block is gone, and the commit is refused."""
    tx.session.connection().connection.rollback()


def another_listener(tx: Any) -> None:
    """One of the program, behind ours, refuses the commit."""

    def refuse(session: Any) -> None:
        raise ValueError("mine")

    event.listen(tx.session, "before_commit", refuse)


@usual
@pytest.mark.parametrize("refuse", [rolled_back_below, another_listener])
def test_a_pool_that_commits_what_it_gets_back_commits_no_block(shop: Shop, refuse: Callable[[Any], None]) -> None:
    engine = create_engine(shop.place.url(), pool_reset_on_return="commit")
    shop.engines.append(engine)
    with shop.sibling(engine) as sibling:
        with pytest.raises((TransactionBroken, ValueError)), sibling.begin() as tx:
            execute(tx, "SELECT 1")
            shop.pay(tx, 1)
            refuse(tx)
        with sibling.begin() as tx:
            shop.pay(tx, 2)
        shop.check(2)


@usual
@pytest.mark.parametrize("then", ["nothing", "rollback", "more"])
def test_a_commit_that_is_not_of_the_session_is_refused(shop: Shop, then: str) -> None:
    with pytest.raises(TransactionBroken, match="without its session"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        try:
            tx.session.connection().get_transaction().commit()
        finally:
            if then == "rollback":
                tx.session.rollback()
            elif then == "more":
                with suppress(Exception):
                    execute(tx, "INSERT INTO orders VALUES (2)")
    shop.check()


@postgresql
@pytest.mark.parametrize("commit", ["COMMIT", "COMMIT AND CHAIN"])
@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_rollback_behind_a_commit_by_hand_is_told(shop: Shop, commit: str, end: str) -> None:
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    session = sessions()
    session.execute(text("INSERT INTO orders VALUES (1)"))
    send(session, Message("orders", "1"))
    session.execute(text(commit))
    with pytest.raises(TransactionBroken, match="committed inside the block"):
        getattr(session, end)()
    session.close()
    shop.settled()
    assert (shop.paid(), shop.announced()) == ([1], [])


@usual
def test_a_refusal_of_autocommit_that_is_caught_stays_one(shop: Shop) -> None:
    engine = create_engine(shop.place.url(), isolation_level="AUTOCOMMIT")
    shop.engines.append(engine)
    with shop.sibling(engine) as sibling, pytest.raises(ConfigError, match="in autocommit"), sibling.begin() as tx:
        with suppress(ConfigError):
            execute(tx, "SELECT 1")
        execute(tx, "INSERT INTO orders VALUES (1)")
    shop.check()


@sqlite
def test_a_message_behind_the_commit_is_noticed_also_when_a_savepoint_was_rolled_back(shop: Shop) -> None:
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with pytest.raises(TransactionBroken, match="sent behind commit"), sessions() as session:
        session.begin_nested().rollback()
        session.commit()
        send(session, Message("orders", "1"))
    shop.check()


@mariadb
def test_a_server_that_begins_the_next_transaction_with_each_commit(shop: Shop) -> None:
    engine = create_engine(shop.place.url(), connect_args={"init_command": "SET completion_type = 'CHAIN'"})
    shop.engines.append(engine)
    with shop.sibling(engine) as sibling:
        for number in (1, 2):
            with sibling.begin() as tx:
                shop.pay(tx, number)
        shop.check(1, 2)


@mariadb
@pytest.mark.parametrize("statement", ["CREATE TABLE more (id INTEGER)", "BEGIN"])
@pytest.mark.parametrize("then", ["the connection is lost", "nothing was sent"])
def test_a_statement_that_commits_is_told_whatever_follows(shop: Shop, statement: str, then: str) -> None:
    lost = then == "the connection is lost"
    with pytest.raises(TransactionBroken, match="committed inside the block") as raised:  # noqa: SIM117 - one is caught
        with shop.transactions.begin() as tx:
            execute(tx, "INSERT INTO orders VALUES (1)")
            if lost:
                tx.send(Message("orders", "1"))
            execute(tx, statement)
            if not lost:
                raise ValueError("mine")
            number = tx.session.execute(text("SELECT CONNECTION_ID()")).scalar()
            shop.place.execute(f"KILL HARD CONNECTION {number}")
            execute(tx, "SELECT 1")
    assert isinstance(raised.value.__context__, OperationalError if lost else ValueError)
    shop.settled()
    assert (shop.paid(), shop.announced()) == ([1], [])
