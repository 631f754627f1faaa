"""Messages in transactions of Django, on real databases, with a real broker in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import close_old_connections, connection, connections, transaction
from django.db.utils import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.test import Client, override_settings

from gantrymq import Message, Producer
from gantrymq.django import OutcomeUnknown, TransactionClaimed, close, run, running, send, start
from gantrymq.django.connection_hooks import ATTRIBUTE, HOOKED
from gantrymq.django.watching import ENDS
from gantrymq.errors import ConfigError, GantryError, MessageIllegal
from gantrymq.sql.rules.claim import Query
from tests.django.conftest import GANTRYMQ, Project
from tests.django.orders.models import Order
from tests.sql.databases import Place


def order(name: str) -> None:
    Order.objects.create(name=name, status="paid")
    send(Message("orders", name))


def names() -> list[str]:
    return sorted(Order.objects.values_list("name", flat=True))


def outcomes() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT outcome FROM gantrymq_outcomes WHERE id NOT LIKE '#%'")
        return [row[0] for row in cursor.fetchall()]


def no_hooks() -> bool:
    return not ({*HOOKED, ATTRIBUTE} - {*ENDS}) & {*vars(connections["default"])}  # those of ``watching`` stay


class Refusal(Exception):
    """An error of the user's own code."""


def test_a_row_and_its_messages_commit_together(shop: Project) -> None:
    with transaction.atomic():
        Order.objects.create(name="o-1", status="paid")
        send(Message("orders", "o-1"), Message("points", "o-1"))
        assert shop.bodies() == []
    assert names() == ["o-1"] and outcomes() == [1]
    assert shop.bodies("orders") == shop.bodies("points") == ["o-1"]
    assert shop.gantry.open_transactions() == []
    assert no_hooks()


def test_nothing_leaves_a_block_that_raises(shop: Project) -> None:
    with pytest.raises(Refusal), transaction.atomic():
        order("o-1")
        raise Refusal
    with transaction.atomic():
        order("o-2")
        transaction.set_rollback(True)
    assert names() == outcomes() == []
    assert shop.bodies() == [] and shop.gantry.open_transactions() == []
    assert no_hooks()


def test_what_a_savepoint_rolled_back_is_dropped(shop: Project) -> None:
    with transaction.atomic():
        with pytest.raises(Refusal), transaction.atomic():
            order("dropped: the savepoint is older")
            raise Refusal
        order("kept 1")
        with pytest.raises(Refusal), transaction.atomic():
            with transaction.atomic():
                order("dropped: in a released savepoint")
            raise Refusal
        with transaction.atomic():
            order("kept 2")
        with transaction.atomic(savepoint=False):
            order("kept 3")
    assert names() == ["kept 1", "kept 2", "kept 3"]
    assert sorted(shop.bodies()) == ["kept 1", "kept 2", "kept 3"]
    assert shop.gantry.open_transactions() == [] and outcomes() == [1]


def test_savepoints_made_by_hand(shop: Project) -> None:
    with transaction.atomic():
        first = transaction.savepoint()
        order("o-1")
        second = transaction.savepoint()
        order("o-2")
        transaction.savepoint_rollback(second)
        order("o-3")
        third = transaction.savepoint()
        order("o-4")
        transaction.savepoint_commit(third)
        assert first is not None
    assert names() == sorted(shop.bodies()) == ["o-1", "o-3", "o-4"]
    with transaction.atomic():
        first = transaction.savepoint()
        order("o-5")
        transaction.savepoint_rollback(first)
    assert len(names()) == 3 and len(shop.bodies()) == 3 and len(outcomes()) == 1


def test_a_failed_inner_block_without_savepoint_rolls_back_everything(on_sqlite: Project) -> None:
    with transaction.atomic():
        order("o-1")
        with pytest.raises(Refusal), transaction.atomic(savepoint=False):
            raise Refusal
        with pytest.raises(transaction.TransactionManagementError):
            send(Message("orders", "not in a broken transaction"))
    assert names() == on_sqlite.bodies() == [] and no_hooks()


def test_outside_of_a_transaction_it_says_what_to_write(on_sqlite: Project) -> None:
    with pytest.raises(transaction.TransactionManagementError, match=r"`with transaction\.atomic\(\):`"):
        send(Message("orders", "o-1"))
    called: list[Exception] = []

    def callback() -> None:
        try:
            send(Message("orders", "o-2"))
        except transaction.TransactionManagementError as error:
            called.append(error)

    with transaction.atomic():
        order("o-1")
        transaction.on_commit(callback)
    assert len(called) == 1 and on_sqlite.bodies() == ["o-1"]


def test_messages_are_committed_before_the_callbacks_of_on_commit_run(shop: Project) -> None:
    seen: list[list[str]] = []
    with transaction.atomic():
        transaction.on_commit(lambda: seen.append(shop.bodies()))
        order("o-1")
    assert seen == [["o-1"]]


def test_durable_blocks_and_manual_transactions(shop: Project) -> None:
    with transaction.atomic(durable=True):
        order("o-1")
    transaction.set_autocommit(False)
    try:
        order("o-2")
        with pytest.raises(transaction.TransactionManagementError, match="before you turn autocommit on"):
            transaction.set_autocommit(True)
        transaction.commit()
        order("o-3")
        transaction.rollback()
        with transaction.atomic():
            order("o-4")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert names() == shop.bodies() == ["o-1", "o-2", "o-4"] and no_hooks()


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_close_in_the_middle_rolls_back(shop: Project) -> None:
    with transaction.atomic():
        order("o-1")
        connection.close()
    assert names() == shop.bodies() == [] and shop.gantry.open_transactions() == []
    with transaction.atomic():
        order("o-2")
    assert shop.bodies() == ["o-2"]


def test_an_unusable_message_is_refused_at_once(on_sqlite: Project) -> None:
    with transaction.atomic():
        Order.objects.create(name="o-1", status="paid")
        for wrong in (Message("orders", ""), Message("orders", "later", delay_level=3)):
            with pytest.raises(MessageIllegal):
                send(wrong)
    assert names() == ["o-1"] and no_hooks()


def test_a_half_that_cannot_be_sent_rolls_back_the_row(shop: Project) -> None:
    start()
    with override_settings(GANTRYMQ={**GANTRYMQ, "PRODUCER": {"send_timeout_ms": 300, "retries": 0}}):
        start()
        running.running("default").producer._client._endpoint.routes  # noqa: B018 - it is connected
        shop.gantry.kill(running.running("default").producer)
        with pytest.raises(GantryError), transaction.atomic():
            order("o-1")
        assert names() == outcomes() == [] and no_hooks()
        close()
    with transaction.atomic():
        order("o-2")
    assert names() == shop.bodies() == ["o-2"]


def test_a_claimed_transaction_cannot_commit(shop: Project) -> None:
    claimed = pytest.raises(TransactionClaimed)
    with claimed, transaction.atomic():
        order("o-1")
        hooks = vars(connections["default"])[ATTRIBUTE]
        number = hooks._enlisted.transaction_id
        if connection.vendor == "sqlite":  # one writer at a time: the claim must come before our first write
            transaction.set_rollback(True)
            raise TransactionClaimed(number)
        running.running("default").local.ask(Query.CLAIM, number)
    assert names() == shop.bodies() == [] and shop.gantry.open_transactions() == []
    assert no_hooks()


def test_a_transaction_is_run_again_after_a_claim(shop: Project) -> None:
    tries: list[str] = []

    def work() -> str:
        send(Message("orders", f"try {len(tries)}"))
        number = vars(connections["default"])[ATTRIBUTE]._enlisted.transaction_id
        tries.append(number)
        if len(tries) == 1:
            running.running("default").local.ask(Query.CLAIM, number)
        return number

    assert run(work) == tries[1]
    assert shop.bodies() == ["try 1"] and sorted(outcomes()) == [1, 2]
    with transaction.atomic(), pytest.raises(RuntimeError):
        run(work)


# ---- a commit that fails


def failing_commit(monkeypatch: pytest.MonkeyPatch, before: Callable[[], Any], after: Callable[[], Any]) -> None:
    """The next commit of the driver runs ``before`` it and ``after`` it."""
    original = type(connections["default"])._commit

    def commit(self: Any) -> None:
        monkeypatch.undo()
        before()
        original(self)
        after()

    monkeypatch.setattr(type(connections["default"]), "_commit", commit)


def lost() -> None:
    raise OperationalError("the connection was lost")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError, KeyboardInterrupt])
def test_a_commit_that_fails_before_it_is_done(
    shop: Project, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Atomic itself rolls back behind a DatabaseError only, which an InterfaceError is not."""

    def fail() -> None:
        raise error

    with pytest.raises(error), transaction.atomic():
        order("o-1")
        failing_commit(monkeypatch, fail, lambda: None)
    assert names() == shop.bodies() == [] and outcomes() == [2], "the claim has settled it"
    assert shop.gantry.open_transactions() == [] and no_hooks()
    with transaction.atomic():
        order("o-2")
    assert names() == shop.bodies() == ["o-2"]


@pytest.mark.parametrize("dead", [False, True])
def test_a_commit_whose_answer_was_lost_is_a_commit(shop: Project, monkeypatch: pytest.MonkeyPatch, dead: bool) -> None:
    called: list[int] = []

    def answer_lost() -> None:
        if dead:
            connection._close()  # the rollback that follows fails, too
        lost()

    with transaction.atomic():
        order("o-1")
        transaction.on_commit(lambda: called.append(Order.objects.count()))
        failing_commit(monkeypatch, lambda: None, answer_lost)
    assert names() == shop.bodies() == ["o-1"] and called == [1]
    assert shop.gantry.open_transactions() == [] and no_hooks()
    with transaction.atomic():
        order("o-2")
    assert names() == ["o-1", "o-2"]


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_that_dies_in_the_transaction(shop: Project, database: Place) -> None:
    for body in (lambda: None, lambda: Order.objects.count()):
        with pytest.raises(DatabaseError), transaction.atomic():
            order("o-1")
            database.kill_connections()
            body()  # type: ignore[no-untyped-call]
        assert no_hooks()
        connections.close_all()
    with transaction.atomic():
        order("o-2")
    assert names() == shop.bodies() == ["o-2"] and shop.gantry.open_transactions() == []


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_an_unknown_outcome_says_so(shop: Project, database: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is done, its answer is lost, and no new connection can be made."""
    created = connections.create_connection

    def refuse(alias: str) -> Any:
        made = created(alias)
        monkeypatch.setattr(made, "get_new_connection", lambda params: lost())
        return made

    with pytest.raises(OutcomeUnknown), transaction.atomic():
        order("o-1")
        running.running("default").database.close()

        def after() -> None:
            monkeypatch.setattr(connections, "create_connection", refuse)
            connection._close()
            lost()

        failing_commit(monkeypatch, lambda: None, after)
    monkeypatch.undo()
    assert no_hooks() and len(shop.gantry.open_transactions()) == 1 and shop.bodies() == []
    assert names() == ["o-1"]
    close()  # the broker asks the next one
    start()
    shop.gantry.wait_until(lambda: shop.bodies() == ["o-1"], seconds=90)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_deferred_constraint_fails_in_the_commit(shop: Project) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE orders_order ADD CONSTRAINT one UNIQUE (status) DEFERRABLE INITIALLY DEFERRED")
    with pytest.raises(IntegrityError), transaction.atomic():
        order("o-1")
        order("o-2")
    assert names() == shop.bodies() == [] and shop.gantry.open_transactions() == [] and no_hooks()


# ---- several databases, threads, requests


def test_each_database_has_a_group_of_its_own(project: Project, postgresql: Place, sqlite: Place) -> None:
    project.use(postgresql)
    project.use(sqlite, "second")
    with override_settings(GANTRYMQ={**GANTRYMQ, "DATABASES": ["default", "second"]}):
        start()
        assert running.running("second").producer.group == "shop-second"
        with pytest.raises(Refusal), transaction.atomic(using="second"):
            with transaction.atomic():
                order("o-1")
            Order.objects.using("second").create(name="o-2", status="paid")
            send(Message("orders", "o-2"), using="second")
            raise Refusal
        with transaction.atomic(using="second"):
            send(Message("orders", "o-3"), using="second")
            with pytest.raises(transaction.TransactionManagementError):
                send(Message("orders", "the other database has no transaction"))
        assert project.bodies() == ["o-1", "o-3"]
        close()
    with transaction.atomic(using="second"), pytest.raises(ConfigError, match=r'add it to GANTRYMQ\["DATABASES"\]'):
        send(Message("orders", "o-4"), using="second")


def test_a_missing_table_says_what_to_run(project: Project, sqlite: Place) -> None:
    project.use(sqlite, migrate=False)
    with pytest.raises(ConfigError, match=r"manage\.py migrate gantrymq --database default"):
        start()
    with pytest.raises(ConfigError, match=r"manage\.py migrate"), transaction.atomic():
        send(Message("orders", "o-1"))


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_threads_have_transactions_of_their_own(shop: Project) -> None:
    def work(number: int) -> None:
        try:
            for turn in range(5):
                with pytest.raises(Refusal) if turn % 2 else transaction.atomic(), transaction.atomic():
                    order(f"{number}-{turn}")
                    if turn % 2:
                        raise Refusal
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names() == sorted(shop.bodies()) and len(names()) == 12
    assert shop.gantry.open_transactions() == []


def test_async_code_puts_the_transaction_into_a_function(shop: Project) -> None:
    @transaction.atomic
    def pay() -> None:
        order("o-1")

    def forget_connection() -> None:
        connections["default"].close()
        del connections["default"]  # asgiref keeps its thread for the next test

    async def view() -> None:
        with pytest.raises(SynchronousOnlyOperation, match="sync_to_async"):
            send(Message("orders", "not here"))
        await sync_to_async(pay)()
        await sync_to_async(forget_connection)()

    asyncio.run(view())
    assert names() == shop.bodies() == ["o-1"]


def test_every_request_can_be_a_transaction(project: Project, database: Place) -> None:
    project.use(database, ATOMIC_REQUESTS=True)
    client = Client(raise_request_exception=False)
    assert client.get("/pay/o-1").content == b"paid"
    assert client.get("/pay/o-2?fail=yes").status_code == 500
    assert names() == project.bodies() == ["o-1"]


def test_a_request_without_transaction_is_an_error(on_sqlite: Project) -> None:
    with pytest.raises(transaction.TransactionManagementError, match="ATOMIC_REQUESTS"):
        Client().get("/pay/o-1")


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_connections_that_are_kept_and_died(project: Project, database: Place) -> None:
    """CONN_MAX_AGE, and the idle connections of claims."""
    project.use(database, CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True, ATOMIC_REQUESTS=True)
    client = Client()
    for turn in range(3):
        assert client.get(f"/pay/{turn}").status_code == 200
        database.kill_connections()
        close_old_connections()  # as between two requests
    assert names() == project.bodies() == ["0", "1", "2"]
    alone = running.running("default").local.ask(Query.FIND, "0" * 32)
    assert type(alone).__name__ == "Failed" and alone.failure.name == "DISCONNECTED"  # type: ignore[union-attr]
    assert isinstance(running.running("default").local.ask(Query.FIND, "0" * 32), list)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("level", ["READ COMMITTED", "SERIALIZABLE"])
def test_isolation_levels(project: Project, database: Place, level: str) -> None:
    from psycopg import IsolationLevel

    project.use(database, OPTIONS={"isolation_level": IsolationLevel[level.replace(" ", "_")]})
    with transaction.atomic():
        order("o-1")
    assert names() == project.bodies() == ["o-1"]


def test_plain_producers_go_on_beside_it(on_sqlite: Project) -> None:
    with transaction.atomic(), Producer("audit", name_servers="127.0.0.1:9876") as producer:
        order("o-1")
        producer.send(Message("audit", "somebody pays"))
    assert on_sqlite.bodies("audit") == ["somebody pays"] and on_sqlite.bodies() == ["o-1"]
