"""Screenshots of every page of the console: python -m tests.console.screenshots DIRECTORY

A picture of each page of ``tests/console/every_page.py``, at 1400 px and at 420 px, light and dark.
With ``--docs`` it makes the pictures of docs/console.md instead, and smaller where pngquant is:

python -m tests.console.screenshots --docs docs
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.console.chromium import chromium, tab
from tests.console.every_page import every_page
from tests.console.scene import ANN, guarded_scene, scene

WIDTH, HEIGHT = 1280, 860
SETTLED_S = 25
"""Until the plots show something."""
PICTURES = {
    "console-transactions.png": ("/transactions", False),
    "console-overview.png": ("/", True),
    "console-traces.png": ("/traces", False),
}


SIZES = (1400, 420)
SETTLED = "() => !document.querySelector('#needs') || !document.querySelector('#needs').innerText.includes('Looking')"


async def make_all(folder: Path) -> None:
    """Every page."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as root:
        for width in SIZES:
            for dark in (False, True):
                # A cluster for each round, because the last stop of it decides transactions.
                place = Path(root) / f"{width}-{dark}"
                async with scene(place, open_count=60) as address, chromium() as browser:
                    await asyncio.sleep(SETTLED_S)
                    async with tab(browser, address, dark=dark, width=width) as there:
                        await there.log_in("ada")
                        async for name in every_page(there):
                            await there.page.wait_for_function(SETTLED)
                            colours = "dark" if dark else "light"
                            await there.page.evaluate("() => scrollTo(0, 0)")
                            path = folder / f"{name}-{width}-{colours}.png"
                            await there.page.screenshot(path=path, full_page=True)
    smaller(folder, "*.png")


async def make(folder: Path) -> None:
    """Those of the page about the console."""
    with tempfile.TemporaryDirectory() as root:
        async with scene(Path(root), open_count=60) as address, chromium() as browser:
            await asyncio.sleep(SETTLED_S)
            for name, (path, dark) in PICTURES.items():
                async with tab(browser, address, dark=dark, width=WIDTH, height=HEIGHT) as opened:
                    await opened.log_in("otto")
                    await opened.go(path)
                    await asyncio.sleep(2)
                    await opened.page.screenshot(path=folder / name)
            async with tab(browser, address, width=WIDTH, height=HEIGHT) as opened:
                await opened.log_in("otto")
                await opened.go("/transactions?state=parked")
                await opened.page.click("tbody th a.id >> nth=0")
                await opened.page.wait_for_selector(".timeline")
                await opened.page.screenshot(path=folder / "console-transaction.png")
                await opened.go("/dead-letters/newsletter")
                await opened.page.click("text=Send all again…")
                await opened.page.fill("[name=why]", "ticket 4714: the mail server is back")
                await opened.page.screenshot(path=folder / "console-resend.png")
        async with (
            guarded_scene(Path(root) / "guarded") as address,
            chromium() as browser,
            tab(browser, address, width=WIDTH, height=HEIGHT) as opened,
        ):
            await opened.go("/login")
            await opened.page.fill("[name=name]", ANN.access_key)
            await opened.page.screenshot(path=folder / "console-login.png")
    smaller(folder, "console-*.png")


def smaller(folder: Path, names: str) -> None:
    """With fewer colours, where pngquant is."""
    if program := shutil.which("pngquant"):
        for path in sorted(folder.glob(names)):
            subprocess.run([program, "--force", "--output", path, "64", path], check=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    asyncio.run(make(Path(words[1])) if words[0] == "--docs" else make_all(Path(words[0])))
