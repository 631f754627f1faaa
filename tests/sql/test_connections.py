"""Local transactions on DB-API connections: every driver, in its real database, with a real broker."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gantrymq import Message
from gantrymq.errors import Closed, ConfigError, OutcomeUnknown, RouteNotFound, TransactionClaimed
from gantrymq.sql import ConnectionTransaction, ConnectionTransactions, Transactions
from gantrymq.sql.claim import Failed, Query
from gantrymq.sql.drivers import TransactionBroken
from gantrymq.sql.failures import Failure
from gantrymq.testing import LocalCluster
from tests.sql.cutting_proxy import CuttingProxy, Moment
from tests.sql.databases import Place

NETWORKED = ["postgresql", "mariadb"]


@dataclass
class Shop:
    """A database with a table of orders, and a service that pays them."""

    gantry: LocalCluster
    place: Place
    transactions: ConnectionTransactions
    insert: str

    def paid(self) -> list[Any]:
        return [row[0] for row in self.place.execute("SELECT id FROM orders ORDER BY id")]

    def bodies(self, topic: str = "orders") -> list[bytes]:
        return sorted(message.body for message in self.gantry.messages(topic))

    def outcomes(self) -> list[int]:
        return [row[0] for row in self.place.execute("SELECT outcome FROM gantrymq_outcomes WHERE outcome > 0")]

    def pay(self, tx: ConnectionTransaction, number: int) -> None:
        tx.execute(self.insert, (number,))
        tx.send(Message("orders", b"%d" % number))

    def nothing_happened(self) -> bool:
        return not self.paid() and not self.bodies() and not self.gantry.open_transactions()

    def sibling(self, **options: Any) -> ConnectionTransactions:
        return service(self.place, **options)


def service(place: Place, **options: Any) -> ConnectionTransactions:
    return Transactions("order-service", place.connect, name_servers="127.0.0.1:9876", **options)


@pytest.fixture
def shop(gantry: LocalCluster, database: Place) -> Iterator[Shop]:
    mark = "?" if database.kind == "sqlite" else "%s"
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    for topic in ("orders", "points"):
        gantry.create_topic(topic)
    transactions = service(database)
    transactions.create_table()
    with transactions:
        yield Shop(gantry, database, transactions, f"INSERT INTO orders VALUES ({mark})")


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
    with pytest.raises(Exception, match="forbidden|ended inside the block"), shop.transactions.begin() as tx:
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
def test_ddl_that_commits_is_noticed(shop: Shop) -> None:
    with pytest.raises(TransactionBroken, match="DDL"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        tx.execute("CREATE TABLE more (id INTEGER)")
        tx.execute(shop.insert, (2,))
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


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has the attribute autocommit since Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_new_transaction_control_of_sqlite3(shop: Shop, autocommit: bool) -> None:
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
    shop.transactions._database.connect = connect
    assert (shop.paid(), shop.bodies()) == ([2, 3], [b"2", b"3"])


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
        local = transactions._started()[0]
        assert local.ask(Query.FIND, tx.transaction_id or "")[1][1] == 1  # type: ignore[index]


# A commit that fails.


def through(proxy: CuttingProxy, place: Place) -> ConnectionTransactions:
    return service(replace(place, port=proxy.port))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_connection_lost_at_the_commit_is_settled_by_asking_the_database(shop: Shop, moment: Moment) -> None:
    with CuttingProxy(shop.place.port) as proxy, through(proxy, shop.place) as transactions:
        transactions.start()
        block = transactions.begin()
        if moment == "before":
            with pytest.raises(Exception, match=r"(?i)lost|closed"), block as tx:
                shop.pay(tx, 1)
                proxy.cut(moment)
            assert shop.nothing_happened()
        else:
            with block as tx:
                shop.pay(tx, 1)
                proxy.cut(moment)
            assert (shop.paid(), shop.bodies()) == ([1], [b"1"])
        assert proxy.cuts == 1
        assert shop.outcomes() == [2 if moment == "before" else 1]
        assert not shop.gantry.open_transactions()


@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_commit_that_nobody_can_be_asked_about_is_unknown_and_settled_later(shop: Shop) -> None:
    with CuttingProxy(shop.place.port) as proxy, through(proxy, shop.place) as transactions:
        transactions.start()
        connect = transactions._database.connect
        with pytest.raises(OutcomeUnknown) as caught, transactions.begin() as tx:
            shop.pay(tx, 1)
            proxy.cut("after")
            transactions._database.connect = replace(shop.place, port=1).connect
        assert caught.value.transaction_id == tx.transaction_id
        transactions._database.connect = connect
        shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (shop.paid(), shop.bodies()) == ([1], [b"1"])


@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_connection_that_the_database_ends_inside_the_block(shop: Shop) -> None:
    with pytest.raises(Exception, match=r"(?i)terminat|lost|closed|killed"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        shop.place.kill_connections()
        tx.execute(shop.insert, (2,))
    assert shop.nothing_happened()


@pytest.mark.parametrize("database", NETWORKED, indirect=True)
def test_a_lost_connection_whose_error_was_caught_is_no_commit(shop: Shop) -> None:
    """psycopg's own block leaves without an error then."""
    with pytest.raises(Exception, match=r"(?i)lost|closed|gone|\(0, ''\)"), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
        shop.place.kill_connections()
        with pytest.raises(Exception, match=r"(?i)terminat|lost|killed"):
            tx.execute(shop.insert, (2,))
    assert shop.nothing_happened()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_commit_that_waits_for_a_reader_in_vain_is_rolled_back(shop: Shop) -> None:
    reader = shop.place.connect()
    with pytest.raises(sqlite3.OperationalError, match="locked"), shop.transactions.begin() as tx:
        tx.execute("PRAGMA busy_timeout = 1")
        shop.pay(tx, 1)
        cursor = reader.execute("SELECT * FROM gantrymq_outcomes")
        cursor.fetchone()
    reader.close()
    shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert shop.nothing_happened()


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_ctrl_c_at_the_commit_is_raised_when_the_transaction_is_settled(
    shop: Shop, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shop.transactions.begin() as tx:
        kind = type(tx._driver)
    commit = kind.commit

    def interrupted(self: Any) -> None:
        if when == "after":
            commit(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(kind, "verify" if when == "before" else "commit", interrupted)
    with pytest.raises(KeyboardInterrupt), shop.transactions.begin() as tx:
        shop.pay(tx, 1)
    assert not shop.gantry.open_transactions()
    assert shop.paid() == ([1] if when == "after" else [])
    assert shop.bodies() == ([b"1"] if when == "after" else [])


# Check-backs.


def test_a_check_back_claims_a_transaction_whose_process_is_gone(shop: Shop) -> None:
    with shop.sibling():
        with pytest.raises(TransactionClaimed), shop.transactions.begin() as tx:
            tx.send(Message("orders", b"1"))
            shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 1)
            shop.gantry.kill(shop.transactions._started()[1])
            shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
            tx.execute(shop.insert, (1,))
        assert shop.outcomes() == [2]
    assert shop.nothing_happened()


def test_a_sibling_answers_commit_for_a_process_that_died_behind_its_commit(shop: Shop) -> None:
    with shop.sibling():
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
            tx.send(Message("points", b"10"))
            shop.gantry.wait_until(lambda: len(shop.gantry.open_transactions()) == 2)
            shop.gantry.kill(shop.transactions._started()[1])
        shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (shop.paid(), shop.bodies(), shop.bodies("points")) == ([1], [b"1"], [b"10"])


def test_a_claim_does_not_wait_long_for_a_running_transaction(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.sibling(claim_timeout=0.2) as sibling:
        answers: list[Any] = []

        def commit_late(self: Any) -> None:
            asked = threading.Thread(
                target=lambda: answers.append(sibling._started()[0].ask(Query.CLAIM, tx.transaction_id or ""))
            )
            asked.start()
            asked.join()
            commit(self)

        with shop.transactions.begin() as tx:
            kind = type(tx._driver)
        commit = kind.commit
        monkeypatch.setattr(kind, "commit", commit_late)
        with shop.transactions.begin() as tx:
            shop.pay(tx, 1)
    assert isinstance(answers[0], Failed), answers
    assert answers[0].failure is Failure.LOCKED, answers
    assert shop.bodies() == [b"1"]


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
