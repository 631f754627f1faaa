"""Makes the pictures of docs/console.md, and smaller where pngquant is: python -m tests.console.screenshots docs"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.console.chromium import chromium, tab
from tests.console.scene import ANN, guarded_scene, scene

WIDTH, HEIGHT = 1280, 860
SETTLED_S = 25
"""Until the plots show something."""
PICTURES = {
    "console-transactions.png": ("/transactions", False),
    "console-overview.png": ("/", True),
    "console-traces.png": ("/traces", False),
}


async def make(folder: Path) -> None:
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
    if smaller := shutil.which("pngquant"):
        for path in sorted(folder.glob("console-*.png")):
            subprocess.run([smaller, "--force", "--output", path, "64", path], check=True)


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
