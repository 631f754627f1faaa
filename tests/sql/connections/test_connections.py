"""Local transactions on DB-API connections: every driver, in its real database, with a real broker."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.errors import Closed, ConfigError, RouteNotFound, TransactionClaimed
from gantrymq.sql import ConnectionTransaction, ConnectionTransactions, Transactions
from gantrymq.sql.connections.drivers import SqliteDriver, TransactionBroken
from gantrymq.sql.rules.claim import Failed, Query
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place
from tests.sql.shop import NETWORKED, Shop, service, shop

__all__ = ["shop"]


def test_rows_and_messages_of_several_topics_appear_together(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        shop.pay(tx, 2)
        tx.send(Message("points", b"10"), Message("points", b"20"))
        assert shop.bodies() == []
    assert shop.paid() == [1, 2]
    assert shop.bodies() == [b"1", b"2"]
    assert shop.bodies("points") == [b"10", b"20"]
    assert shop.outcomes() == [1], "one row, whatever the number of messages"
    assert not shop.gantry.open_transactions()


def test_an_error_rolls_both_back(shop: Shop) -> None:
    with pytest.raises(ZeroDivisionError), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        1 / 0  # noqa: B018
    assert shop.nothing_happened()
    assert shop.outcomes() == []


def test_a_transaction_without_messages_is_a_plain_one(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        tx.execute(shop.insert, (1,))
    assert shop.paid() == [1]
    assert shop.outcomes() == []
    assert tx.transaction_id is None


@pytest.mark.gantry(broker={"autoCreateTopicEnable": "false"})
def test_a_message_that_cannot_be_sent_rolls_back(shop: Shop) -> None:
    with pytest.raises(RouteNotFound), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.send(Message("no-such-topic", b"x"))
    assert shop.nothing_happened()


def test_an_error_of_the_database_at_the_commit_is_raised_and_rolls_back(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    with pytest.raises(Exception, match=r"(?i)duplicate|unique"), shop.transactions.begin() as tx:
        tx.send(Message("orders", b"again"))
        tx.execute(shop.insert, (1,))
    assert shop.bodies() == [b"1"]
    assert not shop.gantry.open_transactions()


def test_a_caught_error_inside_the_block_is_no_silent_rollback(shop: Shop) -> None:
    """PostgreSQL calls the COMMIT of a failed transaction a success. The others go on after such an error."""
    with shop.transactions.begin() as tx:
        tx.execute(shop.insert, (1,))

    def work() -> None:
        with shop.transactions.begin() as tx:
            shop.pay(tx, 2)
            with pytest.raises(Exception, match=r"(?i)duplicate|unique"):
                tx.execute(shop.insert, (1,))

    if shop.place.kind == "postgresql":
        with pytest.raises(TransactionBroken, match="savepoint"):
            work()
        assert (shop.paid(), shop.bodies()) == ([1], [])
    else:
        work()
        assert (shop.paid(), shop.bodies()) == ([1, 2], [b"2"])
    assert not shop.gantry.open_transactions()


# Savepoints.


def test_a_savepoint_that_fails_drops_its_messages(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            shop.pay(tx, 2)
            with tx.savepoint():
                shop.pay(tx, 3)
            1 / 0  # noqa: B018
        with tx.savepoint():
            shop.pay(tx, 4)
    assert shop.paid() == [1, 4]
    assert shop.bodies() == [b"1", b"4"]
    assert not shop.gantry.open_transactions()


def test_an_error_of_the_database_in_a_savepoint_leaves_the_rest_usable(shop: Shop) -> None:
    with shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        with pytest.raises(Exception, match=r"(?i)duplicate|unique"), tx.savepoint():
            tx.send(Message("orders", b"dropped"))
            tx.execute(shop.insert, (1,))
        shop.pay(tx, 2)
    assert shop.paid() == [1, 2]
    assert shop.bodies() == [b"1", b"2"]


def test_a_savepoint_that_cannot_be_rolled_back_keeps_the_block_from_committing(shop: Shop) -> None:
    with pytest.raises(TransactionBroken, match="savepoint"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.execute("RELEASE SAVEPOINT gantrymq_1")
            1 / 0  # noqa: B018
    assert shop.nothing_happened()


# Who ends the transaction.


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_commit_or_rollback_inside_the_block_is_noticed(shop: Shop, end: str) -> None:
    """psycopg refuses it; with the others the block fails, and the messages are rolled back."""
    with pytest.raises(Exception, match=r"forbidden|ended inside the block"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        getattr(tx.connection, end)()
        tx.execute(shop.insert, (2,))
    assert shop.bodies() == []
    assert 2 not in shop.paid()
    assert not shop.gantry.open_transactions()


def test_a_commit_by_sql_inside_the_block_is_noticed(shop: Shop) -> None:
    with pytest.raises(TransactionBroken, match="ended inside the block"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.execute("COMMIT")
    assert shop.bodies() == []


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_a_connection_of_the_program_keeps_no_lock_of_a_table(shop: Shop) -> None:
    shop.place.execute("CREATE TABLE more (id INTEGER)")
    connection = shop.place.connect()
    with pytest.raises(TransactionBroken, match="in the database"), shop.transactions.on(connection) as tx:
        shop.pay(tx, 1)
        tx.execute("LOCK TABLES more WRITE")
    shop.place.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO more VALUES (1)")
    with shop.transactions.on(connection) as tx:
        shop.pay(tx, 2)
    connection.close()
    assert (shop.paid(), shop.bodies()) == ([1, 2], [b"2"])


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_ddl_that_commits_is_noticed(shop: Shop) -> None:
    with pytest.raises(TransactionBroken, match="DDL"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.execute("CREATE TABLE more (id INTEGER)")
        tx.execute(shop.insert, (2,))
    assert (shop.paid(), shop.bodies()) == ([1], [])


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
@pytest.mark.parametrize("statement", ["CREATE TABLE more (id INTEGER)", "BEGIN", "begin()"])
@pytest.mark.parametrize("then", ["the connection is lost", "nothing was sent"])
def test_a_statement_that_commits_is_told_whatever_follows(shop: Shop, statement: str, then: str) -> None:
    lost = then == "the connection is lost"
    with pytest.raises(TransactionBroken, match="ended inside the block") as raised, shop.transactions.begin() as tx:
        tx.execute(shop.insert, (1,))
        if lost:
            tx.send(Message("orders", "1"))
        tx.connection.begin() if statement == "begin()" else tx.execute(statement)
        if not lost:
            raise ValueError("mine")
        shop.place.execute(f"KILL HARD CONNECTION {tx.connection.thread_id()}")
        tx.execute("SELECT 1")
    assert ("Lost connection" if lost else "mine") in str(raised.value.__context__)
    assert (shop.paid(), shop.bodies()) == ([1], [])


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
def test_ddl_belongs_to_the_transaction_where_the_database_allows_it(shop: Shop) -> None:
    with pytest.raises(ZeroDivisionError), shop.transactions.begin() as tx:
        tx.execute("CREATE TABLE more (id INTEGER)")
        1 / 0  # noqa: B018
    with pytest.raises(Exception, match=r"no such table|does not exist"):
        shop.place.execute("SELECT * FROM more")


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_a_caught_deadlock_does_not_commit_the_second_half(shop: Shop) -> None:
    """It rolls back everything before it, and later statements would begin another transaction."""
    shop.place.execute("CREATE TABLE locks (id INTEGER PRIMARY KEY)", "INSERT INTO locks VALUES (1), (2)")
    other, holds, asks = shop.place.connect(), threading.Event(), threading.Event()

    def rival() -> None:
        cursor = other.cursor()
        cursor.execute("INSERT INTO orders SELECT 1000 + seq FROM seq_1_to_500")  # heavier: the block is the victim
        cursor.execute("SELECT * FROM locks WHERE id = 2 FOR UPDATE")
        holds.set()
        asks.wait()
        cursor.execute("SELECT * FROM locks WHERE id = 1 FOR UPDATE")
        other.rollback()

    thread = threading.Thread(target=rival)
    thread.start()
    try:
        with pytest.raises(TransactionBroken, match="deadlock"), shop.transactions.begin() as tx:
            shop.pay(tx, 1)
            tx.execute("SELECT * FROM locks WHERE id = 1 FOR UPDATE")
            holds.wait()
            asks.set()
            with pytest.raises(Exception, match="Deadlock"):
                tx.execute("SELECT * FROM locks WHERE id = 2 FOR UPDATE")
            shop.pay(tx, 2)
    finally:
        asks.set()
        thread.join()
        other.close()
    assert shop.nothing_happened()


# Connections of the caller.


def test_a_connection_of_the_caller_is_committed_and_stays_open(shop: Shop) -> None:
    connection = shop.place.connect()
    for number in (1, 2):
        with shop.transactions.on(connection) as tx:
            assert tx.connection is connection
            shop.pay(tx, number)
        assert shop.paid()[-1] == number
    with pytest.raises(ZeroDivisionError), shop.transactions.on(connection) as tx:
        shop.pay(tx, 3)
        1 / 0  # noqa: B018
    connection.cursor().execute("SELECT 1")
    connection.close()
    assert (shop.paid(), shop.bodies()) == ([1, 2], [b"1", b"2"])


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_a_transaction_that_runs_already_is_the_one_that_the_block_ends(shop: Shop, ends: str) -> None:
    connection = shop.place.connect()
    connection.cursor().execute(shop.insert, (1,))
    try:
        with shop.transactions.on(connection) as tx:
            shop.pay(tx, 2)
            if ends == "badly":
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    expected = [1, 2] if ends == "well" else []
    connection.rollback()
    assert shop.paid() == expected
    connection.close()


def test_locks_that_the_caller_took_before_the_block_are_kept(shop: Shop) -> None:
    """A BEGIN of MySQL would commit, and so release, what a SELECT ... FOR UPDATE has locked."""
    if shop.place.kind == "sqlite":
        pytest.skip("SQLite has no FOR UPDATE")
    shop.place.execute("INSERT INTO orders VALUES (1)")
    connection, other = shop.place.connect(), shop.place.connect()
    connection.cursor().execute("SELECT id FROM orders WHERE id = 1 FOR UPDATE")
    with shop.transactions.on(connection) as tx:
        tx.send(Message("orders", b"1"))
        with pytest.raises(Exception, match=r"(?i)could not obtain lock|lock wait|NOWAIT"):
            other.cursor().execute("SELECT id FROM orders WHERE id = 1 FOR UPDATE NOWAIT")
    connection.close()
    other.close()
    assert shop.bodies() == [b"1"]


def test_a_connection_in_autocommit_gets_a_transaction_for_the_block(shop: Shop) -> None:
    options = {"isolation_level": None} if shop.place.kind == "sqlite" else {"autocommit": True}
    connection = shop.place.connect(**options)
    with pytest.raises(ZeroDivisionError), shop.transactions.on(connection) as tx:
        shop.pay(tx, 1)
        1 / 0  # noqa: B018
    assert shop.nothing_happened()
    with shop.transactions.on(connection) as tx:
        shop.pay(tx, 2)
        assert shop.paid() == []
    connection.cursor().execute(shop.insert, (3,))
    connection.close()
    assert (shop.paid(), shop.bodies()) == ([2, 3], [b"2"]), "and is in autocommit again behind it"


def test_behind_the_end_of_the_transaction_no_statement_commits_by_itself(shop: Shop) -> None:
    options = {"isolation_level": None} if shop.place.kind == "sqlite" else {"autocommit": True}
    connection = shop.place.connect(**options)
    with pytest.raises(TransactionBroken, match="ended inside the block"), shop.transactions.on(connection) as tx:
        shop.pay(tx, 1)
        tx.execute("ROLLBACK")
        with pytest.raises(TransactionBroken, match="ended inside the block"):
            tx.execute(shop.insert, (2,))
    connection.close()
    assert shop.nothing_happened()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has the attribute autocommit since Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_new_transaction_control_of_sqlite3(shop: Shop, autocommit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = shop.place.connect(autocommit=autocommit)
    with pytest.raises(ZeroDivisionError), shop.transactions.on(connection) as tx:
        shop.pay(tx, 1)
        1 / 0  # noqa: B018
    with shop.transactions.on(connection) as tx:
        shop.pay(tx, 2)
        assert shop.paid() == []
    assert (shop.paid(), shop.bodies()) == ([2], [b"2"])
    connection.close()
    connect = shop.transactions._database.connect
    shop.transactions._database.connect = lambda: sqlite3.connect(shop.place.name, autocommit=autocommit)  # type: ignore[call-arg,unused-ignore]
    with shop.transactions.begin() as tx:
        shop.pay(tx, 3)
    assert shop.transactions._started()[0].ask(Query.FIND, "0" * 32)
    commit = SqliteDriver.commit

    def interrupted(self: SqliteDriver) -> None:
        commit(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(SqliteDriver, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt), shop.transactions.begin() as tx:
        shop.pay(tx, 4)
    shop.transactions._database.connect = connect
    assert (shop.paid(), shop.bodies()) == ([2, 3, 4], [b"2", b"3", b"4"])


def test_two_blocks_on_one_connection_are_refused(shop: Shop) -> None:
    connection = shop.place.connect()
    with shop.transactions.on(connection) as tx:
        shop.pay(tx, 1)
        with pytest.raises(ConfigError, match="savepoint"), shop.transactions.on(connection):
            pass
        shop.pay(tx, 2)
    connection.close()
    assert shop.paid() == [1, 2]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_block_of_psycopg_may_be_inside_and_not_outside(shop: Shop) -> None:
    connection = shop.place.connect()
    with shop.transactions.on(connection) as tx, connection.transaction():
        shop.pay(tx, 1)
    with connection.transaction(), pytest.raises(ConfigError, match="outside"), shop.transactions.on(connection):
        pass
    with shop.transactions.begin() as tx:
        with tx.connection.transaction():  # the first statement: it must not commit on its own
            tx.execute(shop.insert, (2,))
        assert shop.paid() == [1]
    connection.close()
    assert shop.paid() == [1, 2]


@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_rows_as_dicts_are_no_matter(shop: Shop) -> None:
    import psycopg.rows
    import pymysql.cursors

    options = {
        "postgresql": {"row_factory": psycopg.rows.dict_row, "cursor_factory": psycopg.ClientCursor},
        "mariadb": {"cursorclass": pymysql.cursors.DictCursor},
    }[shop.place.kind]
    with Transactions("dicts", lambda: shop.place.connect(**options), name_servers="127.0.0.1:9876") as transactions:
        with transactions.begin() as tx:
            shop.pay(tx, 1)
            assert tx.execute("SELECT id FROM orders").fetchone() == {"id": 1}
        rows = transactions._started()[0].ask(Query.FIND, tx.transaction_id or "")
        assert not isinstance(rows, Failed)
        assert (tx.transaction_id, 1, "dicts") in rows


# Use.


def test_a_block_is_used_once_and_inside_only(shop: Shop) -> None:
    block = shop.transactions.begin()
    with pytest.raises(Closed, match="once"):
        block.send(Message("orders", b"1"))
    with block, pytest.raises(ConfigError, match="used already"), block:
        pass
    with pytest.raises(ConfigError, match="used already"), block:
        pass
    with pytest.raises(Closed):
        block.__exit__(None, None, None)
    with pytest.raises(Closed):
        block.send(Message("orders", b"1"))


def test_run_repeats_what_was_claimed(shop: Shop) -> None:
    tries: list[str] = []

    def work(tx: ConnectionTransaction) -> str:
        shop.pay(tx, 1)
        tries.append(tx.transaction_id or "")
        if len(tries) == 1:
            raise TransactionClaimed(tries[0])
        return "done"

    assert shop.transactions.run(work) == "done"
    assert len(set(tries)) == 2
    assert (shop.paid(), shop.bodies()) == ([1], [b"1"])


def test_many_threads_share_the_object(shop: Shop) -> None:
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for number in range(first, first + 5):
                with shop.transactions.begin() as tx:
                    if shop.place.kind == "sqlite":
                        tx.execute("PRAGMA busy_timeout = 60000")
                    shop.pay(tx, number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(10 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(shop.paid()) == len(shop.bodies()) == 20


def test_a_missing_table_is_named(gantry: LocalCluster, database: Place) -> None:
    with pytest.raises(ConfigError, match="has no table gantrymq_outcomes"), service(database):
        pass


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("postgresql://localhost", "function that returns a new connection"),
        (lambda: "postgresql://localhost", "connections of builtins.str are not supported"),
        (lambda: object(), "Other drivers work by SQLAlchemy"),
    ],
)
def test_what_is_no_way_to_connect_is_refused(engine: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Transactions("g", engine, name_servers="127.0.0.1:9876").start()


def test_a_coroutine_in_place_of_a_connection_is_refused(postgresql: Place) -> None:
    import psycopg

    transactions: ConnectionTransactions = Transactions(
        "g", lambda: psycopg.AsyncConnection.connect(postgresql.dsn), name_servers="127.0.0.1:9876"
    )
    with pytest.raises(ConfigError, match="use AsyncTransactions"):
        transactions.start()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"claim_timeout": "x"}, "claim_timeout is a number"),
        ({"table": "a b"}, "table name"),
        ({"longest": 3}, "unknown setting 'longest'"),
    ],
)
def test_settings_are_checked(gantry: LocalCluster, sqlite: Place, settings: dict[str, Any], words: str) -> None:
    service(sqlite).create_table()
    with pytest.raises(ConfigError, match=words):
        service(sqlite, **settings).start()


WITHOUT_SQLALCHEMY = """
import sqlite3, sys

sys.modules["sqlalchemy"] = sys.modules["greenlet"] = None  # as if it were not installed
from gantrymq import Message
from gantrymq.sql import Transactions
from gantrymq.testing import LocalCluster

with LocalCluster() as cluster:
    transactions = Transactions("g", lambda: sqlite3.connect(sys.argv[1]), name_servers="127.0.0.1:9876")
    transactions.create_table()
    with transactions, transactions.begin() as tx:
        tx.send(Message("orders", b"1"))
    print([message.body for message in cluster.messages("orders")])
try:
    from gantrymq.sql import send
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_sqlalchemy_is_not_needed(sqlite: Place) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SQLALCHEMY, sqlite.name], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "[b'1']",
        "gantrymq.sql.send needs SQLAlchemy: pip install 'gantrymq[sql]'",
    ], done.stderr
