"""The program of docs/recipes.md for Django, as it is written: a task starts if, and only if, the row committed."""

from __future__ import annotations

import pytest

from gantrymq import PushConsumer
from tests.django.conftest import Project
from tests.docs.blocks import block_with
from tests.docs.programs import bodies, run

from .orders.models import Order


def test_a_task_starts_if_and_only_if_the_row_committed(on_sqlite: Project, capsys: pytest.CaptureFixture[str]) -> None:
    gantry = on_sqlite.gantry
    gantry.create_topic("orders-paid")
    program = run(block_with("docs/recipes.md", "from gantrymq.django import Inbox"))
    Order.objects.bulk_create(Order(name=name, status="new") for name in ("o-1", "o-2"))

    def declined(order: Order) -> None:
        raise RuntimeError("the card was declined")

    program["pay"](Order.objects.get(name="o-1"))
    second = Order.objects.get(name="o-2")
    second.save = lambda: declined(second)
    with pytest.raises(RuntimeError, match="declined"):
        program["pay"](second)
    assert dict(Order.objects.values_list("name", "status")) == {"o-1": "paid", "o-2": "new"}
    assert bodies(gantry, "orders-paid") == ["o-1"]
    said = ""

    def shipped() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return "ship the order o-1\n" in said

    with PushConsumer("shipping", name_servers=gantry.name_servers, listener=program["ship"]).subscribe("orders-paid"):
        gantry.wait_until(shipped, seconds=60)
    program["ship"](gantry.messages("orders-paid"))  # the message comes again
    said += capsys.readouterr().out
    assert said.splitlines() == ["ship the order o-1"]
