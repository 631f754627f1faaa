"""The notebook for Databricks, on Apache Spark: all but the compute, which nobody here has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gantrymq.message.queues import MessageQueue
from tests.spark.fakes import FakeBroker
from tests.spark.log_server import LogServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "databricks" / "orders.py"


def test_the_notebook_brings_the_messages_to_its_table(spark: Any, tmp_path: Path) -> None:
    broker = FakeBroker()
    queue = MessageQueue("orders-paid", "broker-a", 0)
    text = NOTEBOOK.read_text()
    with LogServer(broker) as server:
        changed = {"NAME_SERVERS": server.address, "TABLE": "recipe_orders", "CHECKPOINT": str(tmp_path)}
        for name, value in changed.items():
            text, count = re.subn(f'^{name} = ".*"$', f'{name} = "{value}"', text, flags=re.MULTILINE)
            assert count == 1
        try:
            for number in range(2):
                broker.append(queue, b'{"order_id": "o-%d", "user_id": "u", "amount_cents": 5}' % number)
            exec(compile(text, str(NOTEBOOK), "exec"), {"spark": spark})
            rows = spark.table("recipe_orders").orderBy("queue_offset").collect()
        finally:
            spark.sql("DROP TABLE IF EXISTS recipe_orders")
    assert [(row["order_id"], row["amount_cents"], row["queue_offset"]) for row in rows] == [
        ("o-0", 5, 0),
        ("o-1", 5, 1),
    ]
