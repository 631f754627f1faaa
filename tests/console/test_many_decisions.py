"""Everything that fits a filter is decided: the list first, then step by step in the background, with progress."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from gantrymq.console.decision_runs import PLANS_MAX
from tests.console.site import Browser, Site, on_site  # first: it skips where packages are missing


async def planned(browser: Browser, action: str = "commit", **fields: str) -> tuple[str, str]:
    """The page of a dry run, and the id of its plan."""
    page = await browser.post("/transactions/plan-all", action=action, **fields)
    found = re.search(r'name="plan" value="(\w+)"', page)
    return page, found[1] if found else ""


async def started(browser: Browser, plan: str, why: str = "ticket 7") -> str:
    """The path of the page of a run."""
    form = {"csrf": browser.csrf, "plan": plan, "why": why}
    answer = await browser.http.post("/transactions/runs", data=form, headers={"Origin": "http://127.0.0.1:8088"})
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def ended(browser: Browser, path: str) -> str:
    """The page of a run that has ended."""
    while True:
        page = await browser.get(path)
        if "/parts/decision-runs/" not in page:
            return page
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_all_of_a_group_are_decided(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for number in range(230):
            await there.half(f"KEY{number:03d}", "PG2" if number % 23 == 0 else "PG1")
        otto = there.browser
        await otto.log_in("otto")
        assert "All open ones of group <b>PG1</b>, on all pages" in await otto.get("/transactions?group=PG1")
        page, plan = await planned(otto, group="PG1")
        assert "Commit 220 transactions?" in page and "KEY001" in page and "KEY229" in page and not there.audit.exists()
        await there.half("LATER", "PG1")
        assert "give a reason" in await otto.post("/transactions/runs", 400, plan=plan, why=" ")
        path = await started(otto, plan)
        assert await started(otto, plan) == path, "a button that is pressed twice"
        page = await ended(otto, path)
        assert "Every one of the list was tried" in page and "<dt>Done</dt><dd>220</dd>" in page
        assert "Decided in steps" in (await otto.get("/transactions"))
        left = await otto.get("/transactions?group=PG1")
        assert "Choose LATER" in left and left.count("Choose ") == 1, "it was in no list"
        lines = [json.loads(line) for line in there.audit.read_text().splitlines()]
        assert [line["phase"] for line in lines] == ["intended", "done"] * 3
        assert {(line["who"], line["why"], line["run"]) for line in lines} == {
            ("otto (console)", "ticket 7", path.rpartition("/")[2])
        }
        page, plan = await planned(otto, "rollback", min_age="3600")
        assert "none fits" in page and plan == ""

    on_site(work, tmp_path)


def test_what_its_producer_decided_after_the_dry_run(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for number in range(3):
            await there.half(f"KEY{number}")
        otto = there.browser
        await otto.log_in("otto")
        _, plan = await planned(otto, "rollback")
        shown = await otto.get("/transactions")
        chosen = re.findall(r'name="chosen" value="([^"]+)"', shown)
        await otto.post("/transactions/carry-out", action="commit", chosen=chosen[1], why="as its producer would")
        page = await ended(otto, await started(otto, plan))
        assert "<dt>Done</dt><dd>2</dd>" in page and "<dt>Decided meanwhile</dt><dd>1</dd>" in page
        assert "it is committed" in page and "KEY1" in page
        # The same for those that were chosen one by one.
        page = await otto.post("/transactions/carry-out", action="rollback", chosen=chosen[1], why="ticket 8")
        assert "decided meanwhile" in page and "is committed" in page and "not possible" not in page

    on_site(work, tmp_path)


@pytest.mark.slow
def test_who_may_plan_start_and_see(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("KEY")
        otto, ada, vera = there.browser, there.new_browser(), there.new_browser()
        for browser, name in ((otto, "otto"), (ada, "ada"), (vera, "vera")):
            await browser.log_in(name)
        assert "plan-all" not in await vera.get("/transactions")
        await vera.post("/transactions/plan-all", 403, action="commit")
        _, plan = await planned(otto)
        assert "not yours" in await ada.post("/transactions/runs", 400, plan=plan, why="ticket 7")
        await vera.post("/transactions/runs", 403, plan=plan, why="ticket 7")
        path = await started(otto, plan)
        assert "Done" in await ended(ada, path), "another operator may look, and stop it"
        await vera.get(path, 403)
        await otto.get("/transactions/runs/0123", 404)
        assert "no action" in await otto.post("/transactions/plan-all", 400, action="delete")
        assert "not a valid age" in await otto.post("/transactions/plan-all", 400, action="commit", min_age="soon")

    on_site(work, tmp_path)


def test_a_run_is_stopped_between_two_steps(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for number in range(310):
            await there.half(f"KEY{number:03d}")
        otto = there.browser
        await otto.log_in("otto")
        _, plan = await planned(otto)
        path = await started(otto, plan)
        await otto.post(f"{path}/stop", 303)
        page = await ended(otto, path)
        assert "It was stopped" in page or "Every one of the list was tried" in page
        done = re.search(r"<dt>Done</dt><dd>(\d+)</dd>", page)
        assert done is not None
        lines = there.audit.read_text().splitlines() if there.audit.exists() else []
        assert len(lines) == 2 * -(-int(done[1]) // 100), "no step without its end"
        for _ in range(PLANS_MAX):
            await planned(otto)
        _, plan = await planned(otto)
        await there.running.broker.close()
        page = await ended(otto, await started(otto, plan))
        assert "It ended early" in page and "cannot" in page

    on_site(work, tmp_path)


def test_parked_ones_have_one_step_for_both(tmp_path: Path) -> None:
    """See ``tests/admin/test_many_decisions.py`` for what it does; here, what the pages offer."""

    async def work(there: Site) -> None:
        await there.half("KEY")
        await there.browser.log_in("otto")
        (one,) = re.findall(r'name="chosen" value="([^"]+)"', await there.browser.get("/transactions"))
        page = await there.browser.post("/transactions/plan", action="resume and commit", chosen=one)
        assert "Resume and commit 0 transactions?" in page and "needs one that is parked" in page
        assert "none fits" in (await planned(there.browser, "resume and roll back"))[0]

    on_site(work, tmp_path)
