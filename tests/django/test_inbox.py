"""The effect of a message happens once in the project's database."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction

from gantrymq import ConsumeStatus, Message, PushConsumer
from gantrymq.client.results import ReconsumeLater
from gantrymq.django import Inbox, send, start
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from tests.django.conftest import Project
from tests.django.orders.models import Order
from tests.sql.databases import Place


def message(shop: Project, body: str = "o-1") -> MessageView:
    shop.gantry.send(Message("orders", body))
    return shop.gantry.messages("orders")[-1]


def names() -> list[str]:
    return sorted(Order.objects.values_list("name", flat=True))


def test_a_function_runs_once_for_a_message(shop: Project) -> None:
    inbox = Inbox("shipping")
    given = message(shop)
    calls: list[str] = []

    @inbox.once
    def ship(message: MessageView) -> None:
        calls.append(message.body.decode())
        Order.objects.create(name=message.body.decode(), status="shipped")

    assert ship.__name__ == "ship"
    assert ship(given) is ship(given) is ConsumeStatus.CONSUME_SUCCESS
    ship([given, message(shop, "o-2")])
    assert calls == names() == ["o-1", "o-2"]
    other = Inbox("billing").once(calls.append)
    other(given)
    assert len(calls) == 3


def test_a_whole_batch_is_one_transaction(shop: Project) -> None:
    batches: list[list[str]] = []
    first, second, third = (message(shop, f"o-{number}") for number in range(3))

    @Inbox("shipping").once(whole_batch=True)
    def ship(messages: list[MessageView]) -> None:
        batches.append([message.body.decode() for message in messages])
        Order.objects.bulk_create(Order(name=name, status="shipped") for name in batches[-1])
        if len(batches) == 1:
            raise ValueError("the carrier does not answer")

    with pytest.raises(ValueError, match="carrier"):
        ship([first, second])
    assert names() == []
    ship([second, first, second])
    ship([first, second, third])
    ship([first, second, third])
    assert batches == [["o-0", "o-1"], ["o-1", "o-0"], ["o-2"]] and names() == ["o-0", "o-1", "o-2"]


def test_old_rows_are_cleaned(shop: Project) -> None:
    start()
    for age, number in ((10, "1"), (1, "2")):
        ms = round((time.time() - age * 86_400) * 1000)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO gantrymq_inbox VALUES ('shipping', %s, %s)", (number, ms))
            cursor.execute("INSERT INTO gantrymq_outcomes VALUES (%s, 1, 'shop')", (f"{ms:012x}{number * 20}",))
    call_command("gantrymq_clean", verbosity=0, stdout=io.StringIO())
    with connection.cursor() as cursor:
        cursor.execute("SELECT message_id FROM gantrymq_inbox")
        assert [row[0] for row in cursor.fetchall()] == ["2"]
        cursor.execute("SELECT id FROM gantrymq_outcomes WHERE id NOT LIKE '#%'")
        assert [row[0][-1] for row in cursor.fetchall()] == ["2"]
    Inbox("shipping").clean()
    with pytest.raises(ConfigError, match="rows are kept for"):
        Inbox("shipping").clean(older_than=60)
    with pytest.raises(CommandError, match="rows are kept for"):
        call_command("gantrymq_clean", days=1)


def test_an_error_takes_the_row_back(shop: Project) -> None:
    inbox, given, turns = Inbox("shipping"), message(shop), iter(range(3))

    @inbox.once
    def ship(message: MessageView) -> Any:
        Order.objects.create(name=message.body.decode(), status="shipped")
        turn = next(turns)
        if turn == 0:
            raise ValueError("the carrier does not answer")
        return ConsumeStatus.RECONSUME_LATER if turn == 1 else None

    with pytest.raises(ValueError, match="carrier"):
        ship(given)
    assert names() == []
    assert isinstance(ship([given]), ReconsumeLater)
    assert names() == []
    ship(given)
    ship(given)
    assert names() == ["o-1"]


def test_a_block_learns_whether_it_is_the_first(shop: Project) -> None:
    inbox, given = Inbox("shipping", key=lambda message: message.body.decode()), message(shop)
    seen = []
    for one in (given, given, message(shop)):
        with inbox.once(one) as first:
            seen.append(first)
            if first:
                Order.objects.create(name="o-1", status="shipped")
    assert seen == [True, False, False] and names() == ["o-1"]
    with transaction.atomic(), inbox.once(message(shop, "o-2")) as first:
        assert first


def test_an_effect_can_send_messages(shop: Project) -> None:
    @Inbox("shipping").once
    def ship(message: MessageView) -> None:
        send(Message("shipped", message.body))

    given = message(shop)
    ship(given)
    ship(given)
    assert shop.bodies("shipped") == ["o-1"]


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_the_same_message_in_two_threads(shop: Project) -> None:
    inbox, given, calls = Inbox("shipping"), message(shop), []
    both = threading.Barrier(2)

    @inbox.once
    def ship(message: MessageView) -> None:
        calls.append(message.body)
        Order.objects.create(name="o-1", status="shipped")

    def deliver() -> None:
        both.wait()
        ship(given)
        connections.close_all()

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names() == ["o-1"] and calls == [b"o-1"]


class Shipping:
    """A listener that is a method."""

    inbox = Inbox("shipping")

    @inbox.once
    def ship(self, message: MessageView) -> None:
        Order.objects.create(name=message.body.decode(), status="shipped")


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_consumer_takes_it_as_its_listener(shop: Project, database: Place) -> None:
    shop.gantry.create_topic("orders")
    listener = Shipping().ship
    with PushConsumer("shipping", name_servers="127.0.0.1:9876", listener=listener).subscribe("orders"):
        for number in range(4):
            if number == 2:
                database.kill_connections()  # the listener's thread has a connection that died
                connection.close()
            shop.gantry.send(Message("orders", f"o-{number}"))
            shop.gantry.wait_until(lambda number=number: len(names()) == number + 1, seconds=60)
    assert names() == ["o-0", "o-1", "o-2", "o-3"]


def test_what_cannot_be_decorated(on_sqlite: Project) -> None:
    async def ship(message: MessageView) -> None:
        raise AssertionError

    with pytest.raises(ConfigError, match="async def"):
        Inbox("shipping").once(ship)
    for key in ("", None):
        broken = Inbox("shipping", key=lambda message, key=key: key)  # type: ignore[misc]
        with pytest.raises(ConfigError, match="the key of"):
            broken.once(print)(message(on_sqlite))
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE gantrymq_inbox")
    with pytest.raises(ConfigError, match=r"run `manage\.py migrate gantrymq"):
        Inbox("shipping").once(print)(message(on_sqlite))
