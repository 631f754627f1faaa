"""A broker that goes away, is silent, or has no room: pages keep what was known, and say how old it is."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gantrymq.console.last_pages import KEPT_S, PAGES_MAX, LastPages
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.nameserver import RegisterBroker
from gantrymq.runtime.disk import OsDisk, Usage
from tests.console.site import SETTINGS, Site, on_site, site  # first: it skips where the console's packages are missing
from tests.console.test_resends import SILENT, silent_broker
from tests.support.sim_clock import SimClock

OLD = "when it answered last"


class FullDisk(OsDisk):
    """The real file system, that says that almost nothing of it is free."""

    def usage(self, path: str) -> Usage:
        return Usage(total=1 << 30, used=(1 << 30) - (1 << 20), free=1 << 20)


async def until(there: Site, path: str, word: str, status: int = 200) -> str:
    """The page as soon as it has ``word``."""
    while True:
        answer = await there.browser.http.get(path)
        if word in answer.text and answer.status_code == status:
            return answer.text
        await asyncio.sleep(0.1)


@pytest.mark.slow
def test_what_a_broker_said_last_stays_with_its_time(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("otto")
        await until(there, "/", "Open transactions</dt><dd>1</dd>")
        seen = await there.browser.get("/topics/Orders")
        assert "read and write" in seen and OLD not in seen
        await there.browser.get("/transactions?group=PG")
        await there.running.broker.close()
        page = await until(there, "/", "no answer")
        assert "Open transactions</dt><dd>1</dd>" in page, "not unknown, and no zero"
        assert re.search(r"its part is from \d\d:\d\d:\d\d UTC", page) and 'class="old"' in page and OLD in page
        old = await there.browser.get("/topics/Orders", 502)
        assert "read and write" in old and OLD in old and old.count("<h1") == 1
        old = await there.browser.get("/transactions?group=PG", 502)
        assert "Choose ABC" in old and OLD in old
        vera = there.new_browser()
        await vera.log_in("vera")
        assert "read and write" not in await vera.get("/topics/Orders", 502), "somebody else's page is not shown"
        await there.browser.get("/topics/Orders?x", 502)  # never seen: a page that says why, and no trace of Python

    on_site(work, tmp_path)


@pytest.mark.slow
def test_a_broker_that_is_silent_delays_no_page_for_long(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("vera")
        await there.browser.get("/topics/Orders")
        async with silent_broker(there):
            page = await until(there, "/topics/Orders", "does not answer within 1 s", status=502)
            assert OLD in page and "read and write" in page
            await there.browser.get(f"/brokers/{SILENT}", 502)

    on_site(work, tmp_path, settings=replace(SETTINGS, page_seconds=1))


def test_an_empty_list_of_a_silent_broker_replaces_no_full_one(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("otto")
        assert "Choose ABC" in await there.browser.get("/transactions?group=PG")
        header = RegisterBroker(
            broker_name="broker-b", broker_addr="127.0.0.1:1", cluster_name="DefaultCluster", ha_server_addr="",
            broker_id=0,
        )  # fmt: skip
        answer = await there.running.client.call(
            there.name_servers, RequestCode.REGISTER_BROKER, header, RegisterBrokerBody().encode(), timeout_ms=10_000
        )
        assert answer.code == ResponseCode.SUCCESS
        await there.running.broker.close()  # now the name server knows broker-b alone, and nobody is there
        for _ in range(2):
            old = await there.browser.get("/transactions?group=PG", 502)
            assert "Choose ABC" in old and OLD in old and "broker-b" in old
        assert "cannot be reached" in await there.browser.get("/transactions?group=other"), "it was never seen"

    on_site(work, tmp_path)


def test_refused_writes_are_said_on_every_page(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(60), site(tmp_path, disk=FullDisk(), disk_space_warning_level_ratio=90) as there:
            await there.browser.log_in("vera")
            await until(there, "/topics", "Writes are refused")
            for path in ("/", "/transactions", "/nothing"):
                assert "broker-a takes no messages" in (await there.browser.http.get(path)).text
            stranger = await there.new_browser().get("/login")
            assert "Writes are refused" not in stranger

    asyncio.run(work())


def test_pages_of_before_are_kept_for_their_session_within_bounds() -> None:
    clock = SimClock()
    pages = LastPages(clock)
    pages.note("ann", "/topics?", '<nav></nav><main id="main" tabindex="-1">some</main></html>')
    pages.note("ann", "/parts/x?", "no page")
    found = pages.of("ann", "/topics?")
    assert found is not None and (found.html, found.at_ms) == ("some", clock.wall_ms())
    assert pages.of("bob", "/topics?") is None and pages.of("ann", "/parts/x?") is None
    asyncio.run(clock.advance(KEPT_S + 1))
    assert pages.of("ann", "/topics?") is None
    pages.sweep()
    for number in range(PAGES_MAX + 5):
        pages.note("ann", str(number), '<main id="main" tabindex="-1">page</main>')
    assert pages.of("ann", "4") is None and pages.of("ann", "5") is not None
    pages.forget("ann")
    assert pages.of("ann", "5") is None
