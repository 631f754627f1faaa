"""The transactions in the console, over a real broker: lists, one as a time line, decisions with dry run and audit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.nameserver import RegisterBroker
from tests.console.site import Site, on_site


def chosen(page: str) -> list[str]:
    return re.findall(r'name="chosen" value="([^"]+)"', page)


def audit(there: Site) -> list[dict[str, Any]]:
    return [json.loads(line) for line in there.audit.read_text().splitlines()]


def test_the_list_has_pages_and_filters(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for number in range(7):
            await there.half(f"KEY{number}", "PG1" if number % 2 else "PG2")
        await there.browser.log_in("otto")
        first = await there.browser.get("/transactions?rows=3")
        assert [key for key in (f"KEY{n}" for n in range(7)) if f"Choose {key}" in first] == ["KEY0", "KEY1", "KEY2"]
        assert "may still be running" in first and "PG1" in first
        found = re.search(r'rel="next" href="([^"#]+)', first)
        assert found is not None
        second = await there.browser.get(found[1].replace("&amp;", "&"))
        assert "Choose KEY3" in second and "Choose KEY0" not in second and "First page" in second
        of_group = await there.browser.get("/transactions?group=PG1")
        assert of_group.count("Choose KEY") == 3
        assert "No open transactions here" in await there.browser.get("/transactions?min_age=3600")
        assert "No parked transactions" in await there.browser.get("/transactions?state=parked")
        assert "no place in the list" in await there.browser.get("/transactions?after=nonsense", 400)
        assert "open and parked" in await there.browser.get("/transactions?state=done", 400)

    on_site(work, tmp_path)


def test_one_transaction_is_a_time_line(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("otto")
        page = await there.browser.get("/transactions/ABC")
        assert "event-stored" in page and 'class="state state-open"' in page and "kABC" in page
        assert "No broker has a transaction" in await there.browser.get("/transactions/DEF", 404)
        assert "No broker has a transaction" in await there.browser.get("/transactions?id=%3Cscript%3E", 404)
        assert "<script>" not in await there.browser.get("/transactions/%3Cscript%3E", 404)

    on_site(work, tmp_path)


def test_ids_with_signs_that_mean_something_in_addresses(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        odd = "a/b?c#d%2F&e <i>"
        await there.half(odd)
        await there.browser.log_in("otto")
        found = re.search(r'class="id" href="(/transactions/[^"]+)"', await there.browser.get("/transactions"))
        assert found is not None
        page = await there.browser.get(found[1].replace("&amp;", "&"))
        assert "event-stored" in page and "&lt;i&gt;" in page and "<i>" not in page

    on_site(work, tmp_path)


def test_decisions_have_a_dry_run_a_reason_and_a_record(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for number in range(4):
            await there.half(f"KEY{number}")
        await there.browser.log_in("otto")
        ids = chosen(await there.browser.get("/transactions"))
        planned = await there.browser.post("/transactions/plan", action="commit", chosen=ids[:2])
        assert "Commit 2 transactions?" in planned and "Nothing has been done yet" in planned
        assert len(chosen(await there.browser.get("/transactions"))) == 4
        assert [line["phase"] for line in audit(there)] == ["dry run", "dry run"]
        without = await there.browser.post("/transactions/carry-out", 400, action="commit", chosen=ids[:2], why=" ")
        assert "give a reason" in without
        done = await there.browser.post("/transactions/carry-out", action="commit", chosen=ids[:2], why="ticket 7")
        assert "Commit: 2 done" in done
        assert chosen(await there.browser.get("/transactions")) == ids[2:]
        last = audit(there)[-1]
        assert (last["phase"], last["who"], last["why"]) == ("done", "otto (console)", "ticket 7")
        again = await there.browser.post("/transactions/carry-out", action="rollback", chosen=ids[1:3], why="ticket 8")
        assert "Roll back: 1 done, 1 not" in again and "is committed" in again
        page = await there.browser.get("/transactions/KEY0")
        assert "otto (console): ticket 7" in page and "state-committed" in page
        assert "rolled back" in await there.browser.get("/transactions/KEY2")
        messages = await there.running.pull("Orders", 0)
        assert messages.body, "consumers get what was committed"

    on_site(work, tmp_path)


def test_what_a_decision_refuses(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("otto")
        (one,) = chosen(await there.browser.get("/transactions"))
        assert "choose at least one" in await there.browser.post("/transactions/plan", 400, action="commit")
        assert "no action" in await there.browser.post("/transactions/plan", 400, action="delete", chosen=one)
        too_many = [f"broker-a/{number}" for number in range(201)]
        assert "at most 200" in await there.browser.post("/transactions/plan", 400, action="commit", chosen=too_many)
        page = await there.browser.post("/transactions/plan", action="resume", chosen=[one, "broker-a/0000", "x/y"])
        assert "needs one that is parked" in page and "no longer there" in page and "no broker" in page

    on_site(work, tmp_path)


def test_the_record_that_cannot_be_written_stops_the_decision(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        there.audit.mkdir()
        await there.browser.log_in("otto")
        (one,) = chosen(await there.browser.get("/transactions"))
        page = await there.browser.post("/transactions/carry-out", action="commit", chosen=one, why="ticket")
        assert "0 done, 1 not" in page and "cannot be written" in page
        assert chosen(await there.browser.get("/transactions")) == [one]

    on_site(work, tmp_path)


def test_the_figures_refresh_themselves(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        await there.browser.log_in("vera")
        page = await there.browser.get("/transactions")
        assert 'sse-connect="/live/transactions"' in page and "nobody is online" in page
        assert "nothing at" in await there.browser.get("/live/other", 404)

    on_site(work, tmp_path)


def test_a_broker_that_is_gone_does_not_hide_the_others(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.half("ABC")
        header = RegisterBroker(
            broker_name="broker-b", broker_addr="127.0.0.1:1", cluster_name="DefaultCluster", ha_server_addr="",
            broker_id=0,
        )  # fmt: skip
        body = RegisterBrokerBody().encode()
        code = RequestCode.REGISTER_BROKER
        answer = await there.running.client.call(there.name_servers, code, header, body, timeout_ms=10_000)
        assert answer.code == ResponseCode.SUCCESS
        await there.browser.log_in("otto")
        page = await there.browser.get("/transactions")
        assert "Choose ABC" in page and "broker-b does not answer" in page and "Next page" not in page
        assert "broker-b" in await there.browser.get("/")
        assert "no answer" in await there.browser.get("/brokers")

    on_site(work, tmp_path)
