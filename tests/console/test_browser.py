"""The console in a real browser: what a person sees, clicks and types, and what the browser itself refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.console.chromium import NEEDS_CHROMIUM, Tab, chromium, tab
from tests.console.reverse_proxy import reverse_proxy
from tests.console.scale import in_chromium
from tests.console.scene import scene

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]

CHANGED = "before => document.querySelector('#figures .figures').innerText != before"
LOOKED_AT = (
    "/transactions", "/topics", "/topics/orders-paid", "/consumers", "/consumers/shipping", "/messages",
    "/messages?topic=orders-paid", "/dead-letters", "/dead-letters/newsletter", "/brokers", "/brokers/broker-a",
)  # fmt: skip


def in_browser(root: Path, work: Callable[[Tab], Awaitable[None]], *, busy: bool = False, scripts: bool = True) -> None:
    """Run ``work`` with a browser on a console over a cluster with something on every page."""

    async def bounded() -> None:
        async with (
            asyncio.timeout(240),
            scene(root, open_count=12, busy=busy) as address,
            chromium() as browser,
            tab(browser, address, scripts=scripts) as opened,
        ):
            await work(opened)

    asyncio.run(bounded())


def test_a_person_decides_transactions(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        page = there.page
        await there.log_in("otto")
        await page.click("nav >> text=Transactions")
        boxes = page.locator("input[name=chosen]")
        assert await boxes.count() == 12
        await boxes.nth(0).check()
        await boxes.nth(1).check()
        await page.click("text=Commit…")
        await page.wait_for_selector("text=Commit 2 transactions?")
        await page.fill("[name=why]", "ticket 4711: the orders were paid")
        await page.click("button.primary")
        await page.wait_for_selector("text=Commit: 2 done")
        await page.click("th a.id >> nth=0")
        await page.wait_for_selector(".timeline >> text=ticket 4711")
        assert await page.locator(".state-committed").count() == 1
        await there.go("/transactions?group=refunds")
        assert await boxes.count() == 3
        await page.click("text=choose all 3")
        assert await boxes.nth(2).is_checked()
        await page.click("text=Roll back…")
        await page.wait_for_selector("text=Roll back 3 transactions?")
        await page.click("text=Do nothing")
        lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        assert [line["phase"] for line in lines].count("done") == 2
        assert {line["who"] for line in lines} == {"otto (console)"}
        assert there.complaints == []

    in_browser(tmp_path, work)


def test_the_figures_live_and_the_policy_holds(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        page = there.page
        await there.log_in("vera")
        await there.go("/transactions")
        before = await page.inner_text("#figures .figures")
        await page.wait_for_function(CHANGED, arg=before)
        # The focus stays where it is when the figures are replaced.
        await page.evaluate("document.getElementById('group-refunds').focus()")
        before = await page.inner_text("#figures .figures")
        await page.wait_for_function(CHANGED, arg=before)
        assert await page.evaluate("document.activeElement.id") == "group-refunds"
        await there.go("/messages?topic=orders-paid")
        await page.click("text=Follow")
        before = await page.inner_text("tbody th >> nth=0")
        await page.wait_for_function("before => document.querySelector('tbody th').innerText != before", arg=before)
        await there.go("/")
        await page.wait_for_selector("text=Consumers furthest behind")
        await page.wait_for_selector("#lag >> text=shipping")
        for path in LOOKED_AT:
            await there.go(path)
        assert there.complaints == [], "no script error, and nothing that the content-security policy refuses"
        # An inline script, as an attacker would bring in, does not run.
        await page.evaluate("""() => {
            const script = document.createElement('script'); script.textContent = 'window.broken = 1';
            document.body.append(script);
        }""")
        assert await page.evaluate("() => window.broken") is None
        assert any("Content Security Policy" in said for said in there.complaints)

    in_browser(tmp_path, work, busy=True)


def test_everything_is_reached_by_the_keyboard_and_the_focus_is_seen(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        page = there.page
        await there.log_in("otto")
        await there.go("/transactions")
        reached: list[str] = []
        for _ in range(80):
            await page.keyboard.press("Tab")
            found = await page.evaluate("""() => {
                const at = document.activeElement, style = getComputedStyle(at);
                return [at.tagName + ' ' + (at.name || at.innerText || ''), style.outlineStyle, style.outlineWidth];
            }""")
            assert found[1] != "none" and found[2] != "0px", found
            reached.append(found[0])
            if found[0] == "BUTTON action":
                break
        assert reached[0] == "A Skip to the content"
        words = " | ".join(reached)
        for wanted in ("A Consumers", "INPUT group", "SELECT min_age", "INPUT chosen", "BUTTON action"):
            assert wanted in words, wanted
        await page.focus("input[name=chosen]")
        await page.keyboard.press("Space")
        await page.focus("button[value=commit]")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Commit 1 transaction?")
        assert await page.evaluate("() => document.activeElement.name") == "why"

    in_browser(tmp_path, work)


def test_pages_are_marked_up_for_those_who_cannot_see_them(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        await there.log_in("ada")
        for path in ("/", "/transactions", "/topics", "/consumers/shipping", "/messages?topic=orders-paid",
                     "/dead-letters/newsletter", "/brokers/broker-a"):  # fmt: skip
            await there.go(path)
            found = await there.page.evaluate("""() => ({
                lang: document.documentElement.lang,
                headings: document.querySelectorAll('h1').length,
                main: document.querySelectorAll('main').length,
                nameless: [...document.querySelectorAll('input:not([type=hidden]), select')]
                    .filter(one => !one.labels?.length && !one.ariaLabel).length,
                scopeless: [...document.querySelectorAll('th:not([scope])')].length,
                plots: [...document.querySelectorAll('svg')]
                    .every(one => one.querySelector('title') || one.getAttribute('aria-hidden') === 'true'),
                wide: document.documentElement.scrollWidth > innerWidth,
            })""")
            assert found == {
                "lang": "en", "headings": 1, "main": 1, "nameless": 0, "scopeless": 0, "plots": True, "wide": False,
            }, path  # fmt: skip

    in_browser(tmp_path, work)


def test_decisions_need_no_script(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        page = there.page
        await there.log_in("otto")
        await there.go("/transactions?group=loyalty")
        await page.locator("input[name=chosen]").first.check()
        await page.click("text=Roll back…")
        await page.fill("[name=why]", "ticket 4712")
        await page.click("button.primary")
        await page.wait_for_selector("text=Roll back: 1 done")

    in_browser(tmp_path, work, scripts=False)


def test_very_many_transactions(tmp_path: Path) -> None:
    """``python -m tests.console.scale --browser --open 100000`` is the same with more."""
    asyncio.run(in_chromium(tmp_path, 20_000))


def test_behind_a_proxy_with_a_path_prefix(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            asyncio.timeout(240),
            scene(tmp_path, open_count=4, busy=True, root_path="/gantry") as console,
            reverse_proxy(console, "/gantry", strip=True) as address,
            chromium() as browser,
            tab(browser, f"{address}/gantry") as there,
        ):
            asked: list[str] = []
            there.page.on("request", lambda request: asked.append(request.url))
            await there.log_in("otto")
            before = await there.page.inner_text("#figures .figures")
            await there.page.wait_for_function(CHANGED, arg=before)
            await there.page.wait_for_selector("#lag >> text=shipping")
            await there.page.click("nav >> text=Transactions")
            # Those of wallet are parked after some seconds, because its producer is online.
            await there.page.locator("tr:has-text('refunds') input[name=chosen]").first.check()
            await there.page.click("text=Commit…")
            await there.page.fill("[name=why]", "ticket 4711")
            await there.page.click("button.primary")
            await there.page.wait_for_selector("text=Commit: 1 done")
            await there.page.click("text=Log out")
            await there.page.wait_for_selector("[name=password]")
            assert there.complaints == []
            assert [url for url in asked if not url.startswith(f"{address}/gantry/")] == []

    asyncio.run(work())
