"""The code of docs/inbox.md runs as it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

from gantrymq.client.results import ConsumeStatus
from gantrymq.sql import Transactions
from gantrymq.testing import LocalCluster
from tests.sql.databases import Place
from tests.sql.message_views import view

SUCCESS = ConsumeStatus.CONSUME_SUCCESS


def test_the_examples_of_the_page_run(sqlite: Place, gantry: LocalCluster) -> None:
    page = Path(__file__).parents[3] / "docs" / "inbox.md"
    first, chain, key = re.findall(r"(?m)^```python\n(.*?)^```", page.read_text(), re.DOTALL)
    sqlite.execute("CREATE TABLE parcels (id VARCHAR(32))")
    engine = create_engine(sqlite.url())
    Transactions("setup", engine, name_servers=gantry.name_servers).create_table()
    engine.dispose()
    for topic in ("orders", "shipped"):
        gantry.create_topic(topic)
    names: dict[str, Any] = {}
    exec(compile(first.replace("postgresql+psycopg://localhost/shop", sqlite.url()), page, "exec"), names)
    message = view("A", KEYS="7")
    assert [names["ship"]([message]), names["ship"]([message])] == [SUCCESS, SUCCESS]
    exec(compile(chain, page, "exec"), names)
    assert names["ship"]([message, view("B", KEYS="8")]) == SUCCESS
    exec(compile(key, page, "exec"), names)
    with names["inbox"].once(message) as tx:
        assert not tx.duplicate, "its row has another key"
    names["transactions"].close()
    names["engine"].dispose()
    assert sqlite.execute("SELECT id FROM parcels") == [("7",), ("8",)]
    assert [found.keys for found in gantry.messages("shipped")] == [["8"]]
