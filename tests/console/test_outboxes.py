"""The outboxes of services on the page of transactions, also of a database that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gantrymq.console import outboxes
from gantrymq.console.outboxes import Outboxes
from gantrymq.console.settings import ConsoleSettings
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.sql import Transactions
from gantrymq.sql.rows.outbox_table import row_id
from gantrymq.sql.rows.transaction_id import make
from tests.console.site import SETTINGS, Site, on_site
from tests.sql.databases import Place, sqlite

__all__ = ["sqlite"]


def insert(place: Place, count: int) -> None:
    then = SystemClock().wall_ms() - 3_600_000
    for number in range(count):
        row = row_id(make(then, 0), number)
        columns = "(id, producer_group, topic, message, taken_by, taken_until)"
        place.execute(f"INSERT INTO gantrymq_outbox {columns} VALUES ('{row}', 'shop', 't', '', '', 0)")


def test_the_page_shows_what_waits(tmp_path: Path, sqlite: Place) -> None:
    Transactions("shop", sqlite.connect, name_servers="127.0.0.1:1").create_table()
    urls = (sqlite.url(), "postgresql+psycopg://reader:secret@127.0.0.1:1/shop?connect_timeout=1")

    async def work(there: Site) -> None:
        await there.browser.log_in("otto")
        page = await there.browser.get("/transactions")
        assert "Outboxes" in page and "No message waits." in page
        assert "secret" not in page and "reader:***@127.0.0.1" in page, "and what became of the other one"

    on_site(work, tmp_path, settings=ConsoleSettings(users=SETTINGS.users, outboxes=urls))


def test_without_the_setting_there_is_no_section(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.browser.log_in("otto")
        assert "Outboxes" not in await there.browser.get("/transactions")

    on_site(work, tmp_path)


def test_a_database_that_hangs_is_asked_once_and_what_it_said_is_shown(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    Transactions("shop", sqlite.connect, name_servers="127.0.0.1:1").create_table()
    insert(sqlite, 3)
    go_on, asked = threading.Event(), []

    async def run() -> None:
        boxes = Outboxes([sqlite.url()], SystemClock())
        (one,) = await boxes.shown()
        assert [(group.group, group.rows) for group in one.groups] == [("shop", 3)] and not one.problem
        right = one.database.alone

        def hangs(statements: Sequence[Any]) -> Any:
            asked.append(statements)
            go_on.wait(60)
            return right(statements)

        one.database.alone = hangs
        monkeypatch.setattr(outboxes, "PATIENCE_S", 0.05)
        monkeypatch.setattr(outboxes, "FRESH_S", 0.0)
        for _ in range(3):
            (one,) = await boxes.shown()
            assert "has not answered" in one.problem and one.groups[0].rows == 3
        assert len(asked) == 1
        go_on.set()
        assert one.asking is not None
        await one.asking
        assert not one.problem

    asyncio.run(run())


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a usable address"):
        Outboxes(["not an address"], SystemClock())
