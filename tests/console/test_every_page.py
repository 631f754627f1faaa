"""Each page of the console on a phone and on a desk: nothing is wider than the screen, and nothing is hard to find for
those who do not see it. ``python -m tests.console.screenshots DIRECTORY`` makes pictures of the same pages."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.console.chromium import NEEDS_CHROMIUM, chromium, tab
from tests.console.every_page import every_page
from tests.console.scene import scene

pytestmark = [NEEDS_CHROMIUM, pytest.mark.slow]

PHONE, DESK = 420, 1400
LOOK = """() => {
    const root = document.documentElement, shown = one => one.checkVisibility();
    const name = one => (one.innerText || one.ariaLabel || one.title || one.value || '').trim();
    const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
    return {
        wide: root.scrollWidth > root.clientWidth,
        lang: root.lang,
        headings: document.querySelectorAll('h1').length,
        main: document.querySelectorAll('main').length,
        title: document.title.length > 0,
        empty: document.querySelector('main').innerText.trim().length < 20,
        nameless: [...document.querySelectorAll('input:not([type=hidden]), select, textarea')]
            .filter(one => !one.labels?.length && !one.ariaLabel).map(one => one.outerHTML),
        silent: [...document.querySelectorAll('a, button')].filter(one => shown(one) && !name(one))
            .map(one => one.outerHTML),
        scopeless: [...document.querySelectorAll('th:not([scope])')].length,
        plots: [...document.querySelectorAll('svg')]
            .every(one => one.querySelector('title') || one.getAttribute('aria-hidden') === 'true'),
        twice: ids.filter((id, at) => ids.indexOf(id) != at),
        menu: document.querySelector('header').offsetHeight,
    };
}"""
GOOD: dict[str, Any] = {
    "wide": False, "lang": "en", "headings": 1, "main": 1, "title": True, "empty": False, "nameless": [], "silent": [],
    "scopeless": 0, "plots": True, "twice": [],
}  # fmt: skip
MENU_MAX = 64
"""Pixels that the menu may take of a phone."""


def test_every_page_fits_a_phone_and_a_desk(tmp_path: Path) -> None:
    async def work() -> None:
        wrong: dict[str, dict[str, Any]] = {}
        async with (
            asyncio.timeout(240),
            scene(tmp_path, open_count=24, busy=False) as address,
            chromium() as browser,
            tab(browser, address, width=PHONE) as there,
        ):
            await there.log_in("ada")
            async for name in every_page(there):
                for width in (PHONE, DESK):
                    await there.page.set_viewport_size({"width": width, "height": 860})
                    found = await there.page.evaluate(LOOK)
                    menu = found.pop("menu")
                    if width == PHONE and menu > MENU_MAX:
                        found["menu"] = menu
                    if found != GOOD:
                        wrong[f"{name} at {width}"] = {key: found[key] for key in found if found[key] != GOOD.get(key)}
                await there.page.set_viewport_size({"width": PHONE, "height": 860})
            await there.page.click(".menu-button")
            await there.page.click("nav >> text=Topics")
            await there.page.wait_for_selector("h1 >> text=Topics")
            complaints = [said for said in there.complaints if "status of 404" not in said]
        assert not wrong, "\n".join(f"{name}: {faults}" for name, faults in wrong.items())
        assert complaints == []

    asyncio.run(work())
