"""Every page of the console with something on it, in the order in which a person would come by: for the test that looks
at each of them, and for the command that makes their screenshots.

A page without parameters is found by itself. One with parameters, or behind a form, needs a stop here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gantrymq.console.app import PAGES
from tests.console.chromium import Tab
from tests.console.walk import page_of

PARTS: Final = ("/live/", "/parts/")
"""Parts of pages; the pages around them are looked at."""
ELSEWHERE: Final = frozenset({"/users/{user}"})
"""The brokers of the scene have no users: tests/console/test_users.py looks at this page."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One page."""

    name: str
    path: str = ""
    """Where it is; empty: where the tab is already."""
    then: Callable[[Tab], Awaitable[object]] | None = None
    """What is done there."""


async def _choose_two(there: Tab) -> None:
    await there.page.locator("input[name=chosen]").nth(0).check()
    await there.page.locator("input[name=chosen]").nth(1).check()
    await there.page.click("button[value=commit] >> nth=0")


async def _reset(there: Tab) -> None:
    await there.page.select_option("[name=to]", "earliest")
    await there.page.click("text=Plan…")


async def _fewer_queues(there: Tab) -> None:
    await there.page.click("text=Change the settings")
    await there.page.fill("[name=read_queues]", "1")
    await there.page.click("text=Plan…")


async def _deletion(there: Tab) -> None:
    await there.page.click("text=Delete the topic")
    await there.page.click("text=Delete…")


STOPS: Final = (
    Stop("overview", "/"),
    Stop("transactions", "/transactions"),
    Stop("transactions-parked", "/transactions?state=parked"),
    Stop("transaction", "/transactions", lambda there: there.page.click("tbody th a.id >> nth=0")),
    Stop("transaction-unknown", "/transactions/nothing"),
    Stop("decision", "/transactions", _choose_two),
    Stop("decision-of-all", "/transactions?group=loyalty", lambda there: there.page.click(".all button >> nth=1")),
    Stop("topic", "/topics/orders-paid?senders=1"),
    Stop("topic-change", "/topics/orders-paid", _fewer_queues),
    Stop("topic-deletion", "/topics/orders-paid", _deletion),
    Stop("consumer", "/consumers/shipping"),
    Stop("consumer-reset", "", _reset),
    Stop("messages-found", "/messages?topic=orders-paid"),
    Stop("messages-by-body", "/messages?topic=orders-paid&body=c-7"),
    Stop("message", "", lambda there: there.page.click("tbody th a.id >> nth=0")),
    Stop("message-resend", "", lambda there: there.page.click("text=Send a copy…")),
    Stop("dead-letter-group", "/dead-letters/newsletter"),
    Stop("dead-letter-resend", "", lambda there: there.page.click("text=Send all again…")),
    Stop("broker", "/brokers/broker-a?setting=fileReservedTime"),
    Stop("broker-setting", "", lambda there: there.page.click("text=Plan…")),
    Stop("not-found", "/nothing"),
)
"""Nothing is changed on the way: dry runs end it."""


async def every_page(there: Tab) -> AsyncIterator[str]:
    """Go from page to page; gives the name of each when it is there."""
    visited: set[str] = set()
    bare = [
        Stop(path.strip("/").replace("/", "-") or "overview", path)
        for method, path, _, _ in PAGES
        if method == "GET" and "{" not in path and not path.startswith(PARTS)
    ]
    for stop in (*STOPS, *bare):
        if stop in bare and stop.path in visited:
            continue
        if stop.path:
            await there.go(stop.path)
        if stop.then is not None:
            async with there.page.expect_navigation():
                await stop.then(there)
        visited.add(page_of("GET", urlsplit(there.page.url).path))
        yield stop.name
    async for name in _a_run(there):
        visited.add(page_of("GET", urlsplit(there.page.url).path))
        yield name
    missing = {
        path
        for method, path, _, _ in PAGES
        if method == "GET" and not path.startswith(PARTS) and path not in visited | ELSEWHERE
    }
    assert not missing, f"no stop of {__name__} leads to {sorted(missing)}"


async def _a_run(there: Tab) -> AsyncIterator[str]:
    """The only one that changes something, so it comes last."""
    await there.go("/transactions?group=loyalty")
    async with there.page.expect_navigation():
        await there.page.click(".all button >> nth=1")
    await there.page.fill("[name=why]", "ticket 4715: loyalty points were never booked")
    async with there.page.expect_navigation():
        await there.page.click("button.primary")
    await there.page.wait_for_selector("text=Every one of the list was tried")
    yield "decision-run"
