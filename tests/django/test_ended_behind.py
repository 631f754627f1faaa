"""The transaction of a project is ended, moved or undone by the database or by the block's own code: row and message
agree, or an error says so."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError, OperationalError

from gantrymq import Message
from gantrymq.django import TransactionBroken, run, send
from tests.django.conftest import Project
from tests.django.orders.models import Order
from tests.sql.databases import Place

mariadb = pytest.mark.parametrize("database", ["mariadb"], indirect=True)
postgresql = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def order(name: str) -> None:
    Order.objects.create(name=name, status="paid")
    send(Message("orders", name))


def names() -> list[str]:
    return sorted(Order.objects.values_list("name", flat=True))


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def check(shop: Project, *expected: str) -> None:
    shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (names(), sorted(shop.bodies())) == (list(expected), list(expected))


@postgresql
def test_in_another_schema_row_and_message_agree(shop: Project, database: Place) -> None:
    database.execute(
        "CREATE SCHEMA tenant1",
        "CREATE TABLE tenant1.gantrymq_outcomes (LIKE public.gantrymq_outcomes INCLUDING ALL)",
        "INSERT INTO tenant1.gantrymq_outcomes VALUES ('#database', 0, 'another'), ('#cleaned', 0, '')",
    )
    with transaction.atomic():
        order("o-1")
        execute("SET LOCAL search_path TO tenant1")
    check(shop, "o-1")
    assert database.execute("SELECT outcome FROM tenant1.gantrymq_outcomes WHERE outcome > 0") == []
    assert database.execute("SELECT outcome FROM public.gantrymq_outcomes WHERE outcome > 0") == [(1,)]


def deadlock(database: Place) -> None:
    """MariaDB rolls back the transaction of the project, which has done less than the other one."""
    with database.connect() as other:
        cursor = other.cursor()
        cursor.execute("INSERT INTO stock VALUES (10), (11), (12), (13), (14)")
        cursor.execute("UPDATE stock SET id = 21 WHERE id = 1")
        execute("UPDATE stock SET id = 22 WHERE id = 2")
        waiting = threading.Thread(target=cursor.execute, args=("UPDATE stock SET id = 32 WHERE id = 2",))
        waiting.start()
        database.await_lock(lambda: not waiting.is_alive())
        try:
            execute("UPDATE stock SET id = 31 WHERE id = 1")
        finally:
            waiting.join()
            other.rollback()


@pytest.fixture
def stock(database: Place, shop: Project) -> None:
    database.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY)", "INSERT INTO stock VALUES (1), (2)")


@mariadb
@pytest.mark.usefixtures("stock")
@pytest.mark.parametrize("then", ["nothing", "send", "insert"])
def test_a_deadlock_that_is_swallowed_commits_nothing(shop: Project, database: Place, then: str) -> None:
    with pytest.raises(TransactionBroken, match="rolled back this transaction"), transaction.atomic():
        order("o-1")
        with pytest.raises(OperationalError, match="1213"):
            deadlock(database)
        if then == "insert":
            execute("INSERT INTO stock VALUES (3)")
        if then == "send":
            send(Message("orders", "o-2"))
    check(shop)


@mariadb
@pytest.mark.usefixtures("stock")
def test_a_deadlock_that_leaves_the_block_is_run_again(shop: Project, database: Place) -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        order("o-1")
        if len(tries) == 1:
            deadlock(database)

    run(work)
    assert len(tries) == 2
    check(shop, "o-1")


@sqlite
def test_a_conflict_that_rolls_back_sqlite_commits_nothing(shop: Project) -> None:
    with pytest.raises(TransactionBroken, match="rolled back this transaction"), transaction.atomic():
        order("o-1")
        with pytest.raises(IntegrityError):
            execute("INSERT OR ROLLBACK INTO gantrymq_outcomes VALUES ('#database', 0, '')")
    check(shop)


def or_rollback() -> None:
    with pytest.raises(IntegrityError):
        execute("INSERT OR ROLLBACK INTO gantrymq_outcomes VALUES ('#database', 0, '')")


@sqlite
@pytest.mark.parametrize("refused", ["commit", "rollback", "set_autocommit"])
def test_an_end_that_django_refuses_hides_no_rollback(shop: Project, refused: str) -> None:
    with pytest.raises(TransactionBroken, match="rolled back this transaction"), transaction.atomic():
        order("o-1")
        or_rollback()
        with pytest.raises(transaction.TransactionManagementError):
            getattr(connection, refused)(*([True] if refused == "set_autocommit" else []))
    check(shop)


@sqlite
def test_autocommit_that_is_off_already_hides_no_rollback(shop: Project) -> None:
    transaction.set_autocommit(False)
    try:
        order("o-1")
        or_rollback()
        transaction.set_autocommit(False)
        with pytest.raises(TransactionBroken, match="rolled back this transaction"):
            transaction.commit()
    finally:
        transaction.set_autocommit(True)
    check(shop)


@pytest.mark.parametrize("how", ["ROLLBACK", "driver rollback"])
def test_an_end_by_the_block_itself_delivers_nothing(shop: Project, how: str) -> None:
    with pytest.raises(TransactionBroken, match="ended inside the block"), transaction.atomic():
        order("o-1")
        if how == "ROLLBACK":
            execute(how)
        else:
            connection.connection.rollback()
        Order.objects.create(name="o-2", status="paid")
    shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert shop.bodies() == []


@mariadb
def test_a_statement_that_commits_and_then_an_error_is_told(shop: Project) -> None:
    with pytest.raises(TransactionBroken, match="committed inside the block") as raised, transaction.atomic():
        order("o-1")
        execute("CREATE TABLE more (id INTEGER)")
        raise ValueError("mine")
    assert isinstance(raised.value.__context__, ValueError)
    shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (names(), shop.bodies()) == (["o-1"], [])
    with transaction.atomic():
        order("o-2")
    assert shop.bodies() == ["o-2"]


@mariadb
def test_a_statement_that_commits_before_the_first_message_is_noticed(shop: Project) -> None:
    with pytest.raises(TransactionBroken, match="ended inside the block"), transaction.atomic():
        Order.objects.create(name="o-1", status="paid")
        execute("CREATE TABLE more (id INTEGER)")
        order("o-2")
    shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (names(), shop.bodies()) == (["o-1"], [])


def test_savepoints_by_statements_drop_their_messages(shop: Project) -> None:
    with transaction.atomic():
        order("o-1")
        execute("SAVEPOINT mine")
        order("o-2")
        execute("ROLLBACK TO SAVEPOINT mine")
        order("o-3")
        execute("RELEASE SAVEPOINT mine")
    check(shop, "o-1", "o-3")


@sqlite
def test_what_went_on_behind_a_rollback_is_told_by_send(shop: Project) -> None:
    with pytest.raises(TransactionBroken, match="may be committed"), transaction.atomic():
        or_rollback()
        Order.objects.create(name="o-1", status="paid")  # by itself: no transaction runs any more
        send(Message("orders", "o-1"))
    assert (names(), shop.bodies()) == (["o-1"], [])


def test_run_is_refused_where_it_would_begin_no_transaction(shop: Project) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(transaction.TransactionManagementError, match="autocommit is off"):
            run(lambda: order("o-1"))
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    check(shop)


@mariadb
@pytest.mark.parametrize("ends", ["normally", "by an error"])
@pytest.mark.parametrize("how", ["atomic", "by hand"])
def test_no_lock_of_a_table_stays_behind_the_block(shop: Project, database: Place, ends: str, how: str) -> None:
    """LOCK TABLES has ended the transaction, and its locks were kept by the connection of the thread."""
    database.execute("CREATE TABLE more (id INTEGER)")

    def work() -> None:
        order("o-1")
        execute("LOCK TABLES more WRITE")
        if ends == "by an error":
            raise ValueError

    with pytest.raises(TransactionBroken, match="in the database"):
        if how == "atomic":
            with transaction.atomic():
                work()
        else:
            transaction.set_autocommit(False)
            try:
                work()
                transaction.commit()
            except ValueError:
                transaction.rollback()
    if how == "by hand":
        transaction.set_autocommit(True)
    database.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO more VALUES (1)")
    with transaction.atomic():
        order("o-2")
    shop.gantry.wait_until(lambda: not shop.gantry.open_transactions(), 60)
    assert (names(), shop.bodies()) == (["o-1", "o-2"], ["o-2"])


@postgresql
def test_a_savepoint_that_is_lost_with_its_connection_is_told(shop: Project, database: Place) -> None:
    """Django rolls everything back then, and the block ended normally: neither row nor message, without a word."""
    with pytest.raises(TransactionBroken, match="could not be rolled back"), transaction.atomic():
        order("o-1")
        with pytest.raises(ValueError, match="mine"), transaction.atomic():
            database.kill_connections()
            raise ValueError("mine")
    check(shop)
