"""The transaction of a session is ended, moved or undone by the database or by the block's own code: row and message
agree, or an error says so."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import sessionmaker
from sqlalchemy.pool import StaticPool

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionBroken
from gantrymq.sql import Transactions, send
from tests.sql.databases import Place
from tests.sql.traps import Shop, engine_of, level, shop

__all__ = ["level", "shop"]
USUAL = [("postgresql", "READ COMMITTED"), ("mariadb", "REPEATABLE READ"), ("sqlite", "WAL")]
usual = pytest.mark.parametrize("level", USUAL, ids=[kind for kind, _ in USUAL], indirect=True)
mariadb = pytest.mark.parametrize("level", USUAL[1:2], ids=["mariadb"], indirect=True)
sqlite = pytest.mark.parametrize("level", USUAL[2:], ids=["sqlite"], indirect=True)
postgresql = pytest.mark.parametrize("level", USUAL[:1], ids=["postgresql"], indirect=True)


def execute(tx: Any, statement: str) -> None:
    tx.session.execute(text(statement))


# 1. Another schema, or another database.


@pytest.fixture
def elsewhere(shop: Shop) -> Iterator[tuple[str, str]]:
    """Outcome tables with another identity, and the statement that leads a connection there. Also a table of bills,
    which only the new place has."""
    there = f"{shop.place.name}_tenant" if shop.place.kind == "mariadb" else "tenant1"
    shop.place.execute(f"CREATE {'DATABASE' if shop.place.kind == 'mariadb' else 'SCHEMA'} {there}")
    shop.place.execute(f"CREATE TABLE {there}.bills (id INTEGER PRIMARY KEY)")
    made = shop.sibling(table=f"{there}.gantrymq_outcomes", inbox_table=f"{there}.gantrymq_inbox", keep_rows=None)
    made.create_table()
    switch = f"USE {there}" if shop.place.kind == "mariadb" else f"SET LOCAL search_path TO {there}"
    yield there, switch
    if shop.place.kind == "mariadb":
        shop.place.execute(f"DROP DATABASE {there}")


@pytest.mark.parametrize("level", USUAL[:2], ids=["postgresql", "mariadb"], indirect=True)
def test_in_another_schema_row_and_message_agree(shop: Shop, elsewhere: tuple[str, str]) -> None:
    there, switch = elsewhere
    with shop.transactions.begin() as tx:
        execute(tx, switch)
        execute(tx, "INSERT INTO bills VALUES (1)")
        tx.send(Message("orders", "1"))
    shop.settled()
    assert shop.announced() == [1]
    assert shop.outcomes() == [1]
    assert shop.place.execute(f"SELECT id FROM {there}.bills") == [(1,)]
    assert shop.place.execute(f"SELECT outcome FROM {there}.gantrymq_outcomes WHERE outcome > 0") == []


@sqlite
def test_a_temporary_table_of_the_same_name_takes_no_outcome(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        execute(tx, "CREATE TEMP TABLE gantrymq_outcomes (id TEXT PRIMARY KEY NOT NULL, outcome INT, note TEXT)")
        shop.pay(tx, 1)
    shop.check(1)
    assert shop.outcomes() == [1]


@usual
def test_a_session_of_another_database_is_refused(shop: Shop, tmp_path: Any) -> None:
    kind = shop.place.kind
    on_server = kind != "sqlite"
    other = shop.place.create(shop.place.name + "_b") if on_server else Place("sqlite", str(tmp_path / "other.db"))
    engine = engine_of(other, shop.level)
    try:
        Transactions("others", engine, name_servers=shop.gantry.name_servers).create_table()
        other.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        strangers = sessionmaker(engine)
        shop.transactions.attach(strangers)
        # Of one server of MariaDB, a transaction may change several databases: the outcome is where it is looked for.
        works = kind == "mariadb"
        refused = pytest.raises(TransactionBroken, match="another database")
        with nullcontext() if works else refused, strangers.begin() as session:
            session.execute(text("INSERT INTO orders VALUES (1)"))
            send(session, Message("orders", "1"))
        shop.settled()
        assert [row[0] for row in other.execute("SELECT id FROM orders")] == shop.announced() == ([1] if works else [])
        assert shop.outcomes() == ([1] if works else [2])
    finally:
        engine.dispose()
        if on_server:
            other.drop()


@mariadb
def test_an_outcome_table_that_cannot_roll_back_is_refused_at_the_start(shop: Shop) -> None:
    shop.place.execute("ALTER TABLE gantrymq_outcomes ENGINE=MyISAM")
    with pytest.raises(ConfigError, match="storage engine MyISAM, which cannot roll anything back"):
        shop.sibling().start()


# 2. The database rolls back, and the code goes on.


def deadlock(shop: Shop, tx: Any) -> OperationalError:
    """Makes MariaDB roll back the transaction of ``tx``, which has done less than the other one. Returns its error."""
    with shop.place.connect() as other:
        cursor = other.cursor()
        cursor.execute("INSERT INTO stock VALUES (10, 0), (11, 0), (12, 0), (13, 0)")
        cursor.execute("UPDATE stock SET n = 1 WHERE id = 1")
        execute(tx, "INSERT INTO stock VALUES (2, 0)")
        waiting = threading.Thread(target=cursor.execute, args=("UPDATE stock SET n = 1 WHERE id = 2",))
        waiting.start()
        shop.place.await_lock(lambda: not waiting.is_alive())
        try:
            with pytest.raises(OperationalError, match="1213") as raised:
                execute(tx, "UPDATE stock SET n = 2 WHERE id = 1")
            return raised.value
        finally:
            waiting.join()
            other.rollback()


@mariadb
@pytest.mark.parametrize("then", ["nothing", "send", "insert", "insert and send"])
def test_a_deadlock_that_is_swallowed_commits_nothing(shop: Shop, then: str) -> None:
    with pytest.raises(TransactionBroken, match="rolled back this transaction"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        deadlock(shop, tx)
        if "insert" in then:
            execute(tx, "INSERT INTO orders VALUES (2)")
        if "send" in then:
            tx.send(Message("orders", "2"))
    shop.check()


@mariadb
def test_a_deadlock_that_leaves_the_block_is_run_again(shop: Shop) -> None:
    tries = []

    def work(tx: Any) -> None:
        tries.append(tx)
        shop.pay(tx, 1)
        if len(tries) == 1:
            raise deadlock(shop, tx)

    shop.transactions.run(work)
    assert len(tries) == 2
    shop.check(1)


@sqlite
@pytest.mark.parametrize("then", ["nothing", "insert"])
def test_a_conflict_that_rolls_back_sqlite_commits_nothing(shop: Shop, then: str) -> None:
    with pytest.raises(TransactionBroken, match="rolled back this transaction"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        with suppress(IntegrityError):
            execute(tx, "INSERT OR ROLLBACK INTO orders VALUES (1)")
        if then == "insert":
            execute(tx, "INSERT INTO orders VALUES (2)")
    shop.check()


@usual
@pytest.mark.parametrize("how", ["ROLLBACK", "COMMIT", "driver rollback"])
def test_an_end_by_the_block_itself_delivers_nothing(shop: Shop, how: str) -> None:
    with pytest.raises(TransactionBroken, match="ended inside the block"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        if how == "driver rollback":
            tx.session.connection().connection.driver_connection.rollback()
        else:
            execute(tx, how)
        execute(tx, "INSERT INTO orders VALUES (2)")
    shop.settled()
    assert shop.announced() == []
    assert shop.paid() == ([1] if how == "COMMIT" else [])


# 3. A statement that commits.


@mariadb
@pytest.mark.parametrize("statement", ["CREATE TABLE more (id INTEGER)", "LOCK TABLES orders WRITE"])
@pytest.mark.parametrize("attached", [False, True])
def test_a_statement_that_commits_and_then_an_error_is_told(shop: Shop, statement: str, attached: bool) -> None:
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with pytest.raises(TransactionBroken, match="committed inside the block") as raised:
        if attached:
            with sessions.begin() as session:
                session.execute(text("INSERT INTO orders VALUES (1)"))
                send(session, Message("orders", "1"))
                session.execute(text(statement))
                raise ValueError("mine")
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
            execute(tx, statement)
            raise ValueError("mine")
    assert isinstance(raised.value.__context__, ValueError)
    # A connection with LOCK TABLES is not given to the next one of the pool: it would make everybody wait.
    assert shop.place.execute("SHOW OPEN TABLES WHERE In_use > 0") == []
    shop.settled()
    assert (shop.paid(), shop.announced()) == ([1], [])


@mariadb
def test_a_statement_that_commits_delivers_nothing(shop: Shop) -> None:
    with pytest.raises(TransactionBroken, match="ended inside the block"), shop.transactions.begin() as tx:
        execute(tx, "INSERT INTO orders VALUES (1)")
        execute(tx, "CREATE TABLE more (id INTEGER)")
        shop.pay(tx, 2)
    shop.settled()
    assert (shop.paid(), shop.announced()) == ([1], [])


# 4. Savepoints that are not ours.


@usual
@pytest.mark.parametrize("way", ["begin_nested of the connection", "statements"])
def test_savepoints_that_are_not_of_the_session(shop: Shop, way: str) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        connection = tx.session.connection()
        for number, kept in ((2, False), (3, True), (4, False)):
            if way == "statements":
                execute(tx, "SAVEPOINT mine")
                shop.pay(tx, number)
                execute(tx, "RELEASE SAVEPOINT mine" if kept else "ROLLBACK TO SAVEPOINT Mine")
            else:
                nested = connection.begin_nested()
                shop.pay(tx, number)
                nested.commit() if kept else nested.rollback()
        shop.pay(tx, 5)
    shop.check(1, 3, 5)


@usual
def test_a_savepoint_that_nobody_saw_begin(shop: Shop) -> None:
    with pytest.raises(TransactionBroken, match="not known which messages"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.session.connection().connection.cursor().execute("SAVEPOINT hidden")
        shop.pay(tx, 2)
        execute(tx, "ROLLBACK TO SAVEPOINT hidden")
    shop.check()


@usual
def test_a_message_that_is_sent_behind_the_commit_is_not_dropped_without_a_word(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with pytest.raises(TransactionBroken, match="sent behind commit"), sessions() as session:
        session.execute(text("INSERT INTO orders VALUES (1)"))
        session.commit()
        send(session, Message("orders", "1"))
    assert "sent behind commit" in caplog.text
    with sessions() as session:
        session.execute(text("INSERT INTO orders VALUES (2)"))
        session.commit()
        send(session, Message("orders", "2"))
        session.rollback()  # which says that it is not wanted
    with sessions() as session:
        send(session, Message("orders", "3"))
        session.commit()
        send(session, Message("orders", "4"))
        session.commit()
    shop.settled()
    assert shop.announced() == [3, 4]


# 5 and 27. What is not a transaction at all.


@pytest.mark.parametrize("pool", ["StaticPool", "of each thread"])
def test_an_engine_with_one_connection_for_everything_is_refused(pool: str) -> None:
    options: dict[str, Any] = {"poolclass": StaticPool} if pool == "StaticPool" else {}
    engine = create_engine("sqlite://", **options)
    with pytest.raises(ConfigError, match="connections of their own"):
        Transactions("service", engine, name_servers="127.0.0.1:9876")
    engine.dispose()


AUTOCOMMIT: dict[str, Callable[[Shop], Any]] = {
    "isolation_level": lambda shop: create_engine(shop.place.url(), isolation_level="AUTOCOMMIT"),
    "execution_options": lambda shop: shop.engine.execution_options(isolation_level="AUTOCOMMIT"),
    "the driver": lambda shop: create_engine(shop.place.url(), connect_args={"autocommit": True}),
}


@pytest.mark.parametrize("level", USUAL[:2], ids=["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("how", AUTOCOMMIT)
@pytest.mark.parametrize("attached", [False, True])
def test_autocommit_is_refused_before_the_first_statement(shop: Shop, how: str, attached: bool) -> None:
    engine = AUTOCOMMIT[how](shop)
    shop.engines.append(engine)
    sibling = shop.sibling(engine)
    sessions = sessionmaker(engine)
    sibling.attach(sessions)
    with sibling, pytest.raises(ConfigError, match="in autocommit"):
        engine.dispose()  # the start has used a connection, which SQLAlchemy has taken out of autocommit behind it
        if attached:
            with sessions.begin() as session:
                send(session, Message("orders", "1"))
                session.execute(text("INSERT INTO orders VALUES (1)"))
        with sibling.begin() as tx:
            shop.pay(tx, 1)
    shop.check()


@sqlite
@pytest.mark.parametrize(
    "statement", ["CREATE TABLE more (id INTEGER)", "WITH one AS (SELECT 1) INSERT INTO orders SELECT * FROM one"]
)
@pytest.mark.parametrize("isolation", ["", None, "IMMEDIATE", "AUTOCOMMIT"])
def test_everything_of_a_block_is_in_its_transaction(shop: Shop, statement: str, isolation: str | None) -> None:
    """sqlite3 begins a transaction at INSERT, UPDATE, DELETE and REPLACE only. Everything else would be committed."""
    if isolation == "AUTOCOMMIT":
        engine = create_engine(shop.place.url(), isolation_level="AUTOCOMMIT")
    else:
        engine = create_engine(shop.place.url(), connect_args={"isolation_level": isolation})
    shop.engines.append(engine)
    with shop.sibling(engine) as sibling:
        with pytest.raises((ValueError, ConfigError)), sibling.begin() as tx:
            execute(tx, statement)
            tx.send(Message("orders", "1"))
            raise ValueError
        if isolation != "AUTOCOMMIT":
            with sibling.begin() as tx:
                shop.pay(tx, 2)
    assert shop.place.execute("SELECT name FROM sqlite_master WHERE name = 'more'") == []
    shop.check(*([] if isolation == "AUTOCOMMIT" else [2]))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3.Connection.autocommit is of Python 3.12")
@sqlite
def test_the_autocommit_of_python_3_12_is_refused(shop: Shop) -> None:
    engine = create_engine(shop.place.url(), connect_args={"autocommit": True})
    shop.engines.append(engine)
    with shop.sibling(engine) as sibling, pytest.raises(ConfigError, match="in autocommit"), sibling.begin() as tx:
        shop.pay(tx, 1)
    shop.check()


@usual
def test_a_session_with_several_databases_is_refused(shop: Shop) -> None:
    second = shop.new_engine()
    sessions = sessionmaker(shop.engine)
    shop.transactions.attach(sessions)
    with pytest.raises(ConfigError, match="more than one database connection"), sessions.begin() as session:
        session.execute(text("SELECT 1"))
        session.execute(text("SELECT 1"), bind_arguments={"bind": second})
        send(session, Message("orders", "1"))
    shop.check()
