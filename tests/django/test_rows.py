"""Messages by row in transactions of Django."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import override_settings

from gantrymq import Message
from gantrymq.django import close, send, start
from gantrymq.errors import ConfigError
from tests.django.conftest import GANTRYMQ, Project
from tests.django.orders.models import Order
from tests.sql.databases import Place
from tests.sql.outbox.rows_shop import until


def sell(name: str) -> None:
    with transaction.atomic():
        Order.objects.create(name=name, status="paid")
        send(Message("orders", name))


def rows() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM gantrymq_outbox")
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("away", ["row", "always"])
def test_orders_are_sold_while_the_broker_is_away(shop: Project, away: str) -> None:
    settings = {**GANTRYMQ, "WHEN_BROKER_IS_AWAY": away, "ROW_AFTER_MS": 100}
    with override_settings(GANTRYMQ=settings):
        close()
        sell("o-1")
        shop.gantry.stop_broker()
        sell("o-2")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            sell("o-3")
            print(1 // 0)
        sell("o-4")
        shop.gantry.start_broker()
        until(lambda: sorted(shop.bodies()) == ["o-1", "o-2", "o-4"], "all messages arrive")
        until(lambda: rows() == 0 and not shop.gantry.open_transactions(), "nothing is left")
        assert sorted(shop.bodies()) == ["o-1", "o-2", "o-4"]
        close()


def test_messages_of_a_key_leave_in_the_order_of_the_commits(shop: Project) -> None:
    """With the setting of old, while the broker is away and when it is back."""

    def change(number: int) -> None:
        with transaction.atomic():
            Order.objects.create(name=f"o-{number}", status="paid")
            send(Message("orders", b"%d" % number), order_key="customer")

    for number in range(1, 4):
        change(number)
    shop.gantry.stop_broker()
    for number in range(4, 9):
        change(number)
    shop.gantry.start_broker()
    until(lambda: rows() == 0, "all rows are sent")
    assert [int(body) for body in shop.bodies()] == [1, 2, 3, 4, 5, 6, 7, 8]
    close()


def test_an_outbox_from_before_says_which_migration_is_missing(project: Project, sqlite: Place) -> None:
    project.use(sqlite)
    call_command("migrate", "gantrymq", "0002", verbosity=0)
    with pytest.raises(ConfigError, match=r"manage\.py migrate gantrymq"), transaction.atomic():
        send(Message("orders", b"1"), order_key="customer")
    close()
    call_command("migrate", "gantrymq", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT order_key, seq, half FROM gantrymq_outbox")
    call_command("migrate", "gantrymq", "0002", verbosity=0)


def test_the_migration_of_the_outbox_goes_back_and_forth(project: Project, sqlite: Place) -> None:
    project.use(sqlite)
    call_command("migrate", "gantrymq", "0001", verbosity=0)
    with override_settings(GANTRYMQ={**GANTRYMQ, "WHEN_BROKER_IS_AWAY": "row"}):
        with pytest.raises(ConfigError, match=r"no table gantrymq_outbox.*gantry sql ddl"):
            start()
        call_command("migrate", "gantrymq", verbosity=0)
        start()
        close()
