"""In a real browser: messages are sent again after a dry run, and a user of the brokers sees what its rights allow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.access.test_broker import ADMIN
from tests.console.chromium import NEEDS_CHROMIUM, Tab, chromium, tab
from tests.console.scene import ANN, guarded_scene
from tests.console.test_browser import in_browser

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]


def phases(root: Path) -> list[str]:
    file = root / "audit.jsonl"
    return [json.loads(line)["phase"] for line in file.read_text().splitlines()] if file.exists() else []


def as_broker_users(root: Path, work: Callable[[str, Browser], Awaitable[None]]) -> None:
    """Run ``work`` with a browser, and the address of a console where users of the brokers log in."""

    async def bounded() -> None:
        async with asyncio.timeout(240), guarded_scene(root) as address, chromium() as browser:
            await work(address, browser)

    asyncio.run(bounded())


def test_a_copy_of_a_message(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        page = there.page
        await there.log_in("otto")
        await there.go("/messages?topic=orders-paid")
        await page.click("tbody th a.id >> nth=0")
        await page.select_option("[name=group]", "shipping")
        await page.click("text=Send a copy…")
        await page.wait_for_selector("text=Send 1 message again?")
        await page.wait_for_selector("text=%RETRY%shipping on broker-a")
        assert await page.evaluate("() => document.activeElement.name") == "why"
        await page.click("button.danger")
        assert not await page.evaluate("() => document.querySelector('[name=why]').checkValidity()")
        assert "/plan" in page.url and phases(tmp_path) == [], "the browser asks for a reason first"
        await page.fill("[name=why]", "ticket 4713")
        await page.click("button.danger")
        await page.wait_for_selector("text=1 sent again")
        assert phases(tmp_path) == ["intended", "done"] and there.complaints == []

    in_browser(tmp_path, work)


def test_dead_letters(tmp_path: Path) -> None:
    async def work(there: Tab) -> None:
        page = there.page
        await there.log_in("otto")
        await there.go("/dead-letters/newsletter")
        boxes = page.locator("input[name=chosen]")
        assert await boxes.count() == 5
        await boxes.nth(1).check()
        await boxes.nth(3).check()
        await page.click("text=Send the chosen ones again…")
        await page.wait_for_selector("text=Send 2 messages again?")
        await page.click("text=Do nothing")
        await page.wait_for_selector("text=Dead letters of newsletter")
        assert phases(tmp_path) == []
        await page.click("text=Send all again…")
        await page.wait_for_selector("text=Send 5 messages again?")
        assert await page.locator("text=a copy is sent").count() == 5
        await page.fill("[name=why]", "ticket 4714: the mail server is back")
        await page.click("text=Send 5 messages again >> nth=-1")
        await page.wait_for_selector("text=5 sent again")
        assert await page.locator(".state-good").count() == 5 and there.complaints == []
        assert phases(tmp_path) == ["intended", "done"]

    in_browser(tmp_path, work, scripts=False)


def test_what_a_user_of_the_brokers_sees_and_may_not_do(tmp_path: Path) -> None:
    async def work(address: str, browser: Browser) -> None:
        async with tab(browser, address) as there:
            page = there.page
            await there.go("/login")
            await page.wait_for_selector("text=a user of the brokers")
            await page.fill("[name=name]", ANN.access_key)
            await page.fill("[name=password]", "wrong")
            await page.keyboard.press("Enter")
            await page.wait_for_selector("text=Name or password is wrong")
            await there.log_in(ANN.access_key, ANN.secret_key)
            await page.wait_for_selector("text=the rights of this user decide what you see")
            await there.go("/messages?topic=orders-paid")
            await page.wait_for_selector("tbody th a.id >> nth=0")
            for path, missing in (
                ("/topics/refunds-made", "ann needs Get on Topic:refunds-made"),
                ("/consumers/shipping", "ann needs Get on Group:shipping"),
                ("/pipelines", "No right of the brokers covers this"),
            ):
                await there.go(path)
                await page.wait_for_selector("text=Not allowed")
                await page.wait_for_selector(f"text={missing}")
            await there.go("/dead-letters/newsletter")
            await page.locator("input[name=chosen]").first.check()
            await page.click("text=Send the chosen ones again…")
            await page.wait_for_selector("text=Send 1 message again?")
            await page.fill("[name=why]", "ticket 4715")
            await page.click("button.danger")
            await page.wait_for_selector("text=0 sent again, 1 not")
            await page.wait_for_selector("text=ann needs Sub on Group:newsletter")
            assert phases(tmp_path) == ["intended", "refused"]
            await page.click("text=Log out")
            await page.wait_for_url("**/login**")

    as_broker_users(tmp_path, work)


def test_a_user_of_the_brokers_with_all_rights_sends_dead_letters_again(tmp_path: Path) -> None:
    async def work(address: str, browser: Browser) -> None:
        async with tab(browser, address) as there:
            page = there.page
            await there.log_in(ADMIN.access_key, ADMIN.secret_key)
            await there.go("/dead-letters/newsletter")
            await page.locator("input[name=chosen]").first.check()
            await page.click("text=Send the chosen ones again…")
            await page.fill("[name=why]", "ticket 4715")
            await page.click("button.danger")
            await page.wait_for_selector("text=1 sent again")
            assert phases(tmp_path) == ["intended", "done"] and there.complaints == []
            assert ADMIN.secret_key not in await page.content()

    as_broker_users(tmp_path, work)
