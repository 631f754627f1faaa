"""Debian's Chromium without a window, driven by Playwright, for tests and screenshots of the console."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

pytest.importorskip("playwright", reason="playwright is not installed; python3 run.py test has it")

from playwright.async_api import Browser, Page, async_playwright

from tests.console.site import PASSWORD

CHROMIUM = shutil.which("chromium") or ""
NEEDS_CHROMIUM = pytest.mark.skipif(not CHROMIUM, reason="Debian's chromium is not installed")
WAIT_MS = 60_000
"""Until something is on a page; generous, because the machine may be busy."""


@dataclass
class Tab:
    """One page, and what its browser complained about."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)

    async def go(self, path: str) -> None:
        await self.page.goto(self.address + path)

    async def log_in(self, name: str, password: str = PASSWORD) -> None:
        await self.go("/login")
        await self.page.fill("[name=name]", name)
        await self.page.fill("[name=password]", password)
        await self.page.keyboard.press("Enter")
        await self.page.wait_for_url(self.address + "/")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser; without a sandbox only for root, for whom Chromium has none."""
    options = ["--no-sandbox"] if os.getuid() == 0 else []
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=options, timeout=WAIT_MS)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def tab(
    browser: Browser, address: str, *, dark: bool = False, height: int = 860, width: int = 1280, scripts: bool = True
) -> AsyncIterator[Tab]:
    """A page in a context of its own: no cookies of others."""
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
    )
    context.set_default_timeout(WAIT_MS)
    opened = Tab(await context.new_page(), address)
    opened.page.on("console", lambda said: opened.complaints.append(said.text) if said.type == "error" else None)
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    try:
        yield opened
    finally:
        await context.close()
