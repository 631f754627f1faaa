"""Every page of a cluster that is down says that it could not ask, and nothing that looks like a healthy zero."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path

import pytest

from gantrymq.console.app import PAGES
from tests.console.site import SETTINGS, browsers  # first: it skips where the console's packages are missing
from tests.support.down import BROKER, GROUP, TOPIC, WAYS, down, wrong

QUERIES = {
    "/transactions/{id:path}": ("/transactions/7F0000014B2D18B4AAC2000000000001",),
    "/transactions": ("/transactions", "/transactions?state=parked"),
    "/topics/{topic}": (f"/topics/{TOPIC}",),
    "/topics": ("/topics", "/topics?all=1"),
    "/consumers/{group}": (f"/consumers/{GROUP}",),
    "/dead-letters/{group}": (f"/dead-letters/{GROUP}",),
    "/brokers/{name}": (f"/brokers/{BROKER}",),
    "/messages": (f"/messages?topic={TOPIC}", f"/messages?topic={TOPIC}&key=k", f"/messages?topic={TOPIC}&id=abc",
                  "/messages?id=7F00000100002A9F0000000000000000"),
    "/parts/messages": (f"/parts/messages?topic={TOPIC}",),
    "/messages/at": (f"/messages/at?topic={TOPIC}&broker={BROKER}&queue=0&offset=0",),
    "/traces": ("/traces", "/traces?word=k7"),
}  # fmt: skip
"""What is asked for of a page, when that is not its bare path."""
ELSEWHERE = {
    "/live/{name}": "its parts are the figures of the overview and of the transactions",
    "/audit": "it reads a file of its machine and asks no cluster",
    "/pipelines": "it reads files of its machine and asks no cluster",
    "/login": "it asks no cluster",
    "/transactions/runs/{run}": "a run is in the memory of the console",
    "/parts/decision-runs/{run}": "the same",
}
PATHS = [
    path
    for method, page, _, _ in PAGES
    if method == "GET" and page not in ELSEWHERE
    for path in QUERIES.get(page, (page,))
]


def text_of(page: str) -> str:
    """What a person reads in the main part of a page."""
    main = re.search(r"<main.*</main>", page, re.DOTALL)
    without = re.sub(r"<(style|script|svg|title).*?</\1>", " ", main[0] if main else page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", without)))


@pytest.mark.parametrize("way", WAYS)
def test_no_page_shows_a_zero_that_nobody_counted(tmp_path: Path, way: str) -> None:
    async def bounded() -> dict[str, str]:
        found = {}
        async with (
            asyncio.timeout(60), down(way) as name_servers,
            browsers(name_servers, tmp_path / "audit.jsonl", SETTINGS) as new_browser,
        ):  # fmt: skip
            browser = new_browser()
            await browser.post("/login", 303, name="ada", password="correct horse")
            # Together: a client pauses between its attempts to connect, and many pages share one attempt.
            answers = await asyncio.gather(*(browser.http.get(path) for path in PATHS))
            for path, answer in zip(PATHS, answers, strict=True):
                text = text_of(answer.text)
                if problem := wrong(text):
                    found[path] = f"{problem}: {answer.status_code} {text[:400]}"
        return found

    found = asyncio.run(bounded())
    assert not found, "\n".join(f"{path}: {problem}" for path, problem in found.items())
