"""The console on Apache's servers and on ours: every page answers, decisions work, and it says what it cannot see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cli.tool import Tool, eventually, leave_open, undecided_producer
from tests.console.site import SETTINGS, Browser, browsers
from tests.console.test_transactions import chosen
from tests.interop.apache import ApacheCluster
from tests.interop.ours import GantryCluster

GROUP, TOPIC = "PG_console", "ConsoleTopic"
UNSEEN = "Not visible here"


@pytest.fixture(scope="module", params=["gantry", "apache_4", "apache_5"])
def server(request: pytest.FixtureRequest) -> ApacheCluster | GantryCluster:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, ApacheCluster | GantryCluster)
    return found


def in_console(name_servers: str, audit: Path, work: Callable[[Browser], Awaitable[None]]) -> None:
    async def run() -> None:
        async with browsers(name_servers, audit, SETTINGS) as new_browser:
            browser = new_browser()
            await browser.log_in("otto")
            await work(browser)

    asyncio.run(run())


def test_every_page_on_every_server(server: ApacheCluster | GantryCluster, tmp_path: Path) -> None:
    tool, audit = Tool(server.name_servers, tmp_path / "tool.jsonl"), tmp_path / "audit.jsonl"
    tool.json("topic", "create", TOPIC, "--queues", "2")
    tool.json("message", "send", TOPIC, '{"n": 1}', "--keys", "k1")
    with undecided_producer(server.name_servers, GROUP, TOPIC) as producer:
        ids = leave_open(producer, TOPIC, 2)
        eventually(lambda: len(tool.json("transactions", "list", "--group", GROUP)) == 2)

    async def work(browser: Browser) -> None:
        page = await browser.get(f"/transactions?group={GROUP}")
        assert all(one in page for one in ids) and len(chosen(page)) == 2
        assert (UNSEEN in page) == isinstance(server, ApacheCluster)
        assert (UNSEEN in await browser.get("/")) == isinstance(server, ApacheCluster)
        one = await browser.get(f"/transactions/{ids[0]}")
        assert "event-stored" in one
        done = await browser.post("/transactions/carry-out", action="commit", chosen=chosen(page)[:1], why="ticket 1")
        assert "Commit: 1 done" in done
        assert len(chosen(await browser.get(f"/transactions?group={GROUP}"))) == 1
        for path in ("/topics", f"/topics/{TOPIC}", "/consumers", "/dead-letters", "/brokers", "/brokers/broker-a"):
            await browser.get(path)
        assert "k1" in await browser.get(f"/messages?topic={TOPIC}")
        assert "k1" in await browser.get(f"/messages?topic={TOPIC}&time=2020-01-01")

    in_console(server.name_servers, audit, work)
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["phase"], line["who"]) for line in lines] == [
        ("intended", "otto (console)"), ("done", "otto (console)"),
    ]  # fmt: skip
