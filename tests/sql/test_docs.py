"""The code of docs/sql.md runs as it is written."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from gantrymq.sql import Transactions
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place
from tests.sql.outbox.rows_shop import until

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_examples_of_the_page_run_one_after_the_other(
    gantry: LocalCluster, postgresql: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gantry.create_topic("orders-paid")
    gantry.create_topic("orders-changed")
    postgresql.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, status TEXT)")
    Transactions("create", postgresql.connect, name_servers=gantry.name_servers).create_table()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 11
    names: dict[str, Any] = {}
    *run, topics, order, migration = blocks
    for block in run:
        # The object of the first block is attached later on: the page shows parts of one program.
        exec(compile(block.replace("with transactions:  ", "if transactions.start() is None:  "), PAGE, "exec"), names)
        if "main" in names:
            asyncio.run(names.pop("main")())
        if "pay_on_a_loop" in names:
            asyncio.run(names.pop("pay_on_a_loop")(postgresql.dsn))
        names.setdefault("closed", []).append(names["transactions"])
    for transactions in names["closed"]:
        transactions.close()
    bodies = {message.body for message in gantry.messages("orders-paid")}
    assert bodies == {b"o-%d" % number for number in range(1, 11)}
    with Transactions("order-service", names["engine"], name_servers=gantry.name_servers) as transactions:
        exec(compile(order, PAGE, "exec"), names | {"transactions": transactions})
    until(lambda: len(gantry.messages("orders-changed")) == 1, "the message with a key is sent")
    compile(topics, PAGE, "exec")
    compile(migration, PAGE, "exec")  # test_alembic runs the same
