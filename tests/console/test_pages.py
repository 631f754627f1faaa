"""Topics, consumers, messages, dead letters and brokers in the console, over a real broker."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

from gantrymq.admin import Admin
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.consumer import UpdateConsumerOffset
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.monitoring.status import QueryStatus, StatusFiles
from tests.console.scene import send_back
from tests.console.site import SETTINGS, Site, on_site

TOPIC = "orders"


async def prepared(there: Site) -> None:
    """Ten messages in two queues; a group that has done three of each; one dead letter."""
    async with Admin(there.name_servers) as admin:
        await admin.create_topic(TOPIC, 2)
        for group in ("shipping", "newsletter"):
            await admin.groups.put(group, lambda known: known)
        for number in range(10):
            properties = f"KEYS\x01k{number}\x02TAGS\x01paid\x02colour\x01red\x02"
            sent = await there.running.sent(TOPIC, b'{"n":%d}' % number, properties=properties, queue_id=number % 2)
        await send_back(admin, there.running, sent.msg_id)
    for queue in range(2):
        header = UpdateConsumerOffset(consumer_group="shipping", topic=TOPIC, queue_id=queue, commit_offset=3)
        await there.running.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    await there.browser.log_in("otto")


def audit(there: Site) -> list[tuple[str, str, str]]:
    lines = [json.loads(line) for line in there.audit.read_text().splitlines()]
    return [(line["phase"], line["action"], line["who"]) for line in lines]


def test_topics(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        listed = await there.browser.get("/topics")
        assert 'href="/topics/orders"' in listed and "DLQ" not in listed
        assert "%25DLQ%25newsletter" in await there.browser.get("/topics?all=1")
        assert "No topic fits" in await there.browser.get("/topics?q=nothing")
        assert 'href="/topics/orders"' in await there.browser.get("/topics?q=ORD&page=99")
        one = await there.browser.get("/topics/orders")
        assert 'href="/consumers/shipping"' in one and "read and write" in one
        assert "offset=0" in one
        await there.browser.get("/topics/nothing", 404)

    on_site(work, tmp_path)


def test_consumers_and_resets(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        listed = await there.browser.get("/consumers")
        assert 'href="/consumers/shipping"' in listed and "CID_RMQ" not in listed
        assert "shipping" in await there.browser.get("/parts/consumers-behind")
        shown = await there.browser.get("/consumers/shipping")
        assert "Messages behind</dt><dd>4</dd>" in shown and "Nobody is online" in shown
        plan = await there.browser.post("/consumers/shipping/plan", topic=TOPIC, to="earliest")
        assert "3 again" in plan and not there.audit.exists()
        assert "no time" in await there.browser.post("/consumers/shipping/plan", 400, topic=TOPIC, to="time", time="x")
        assert "choose where" in await there.browser.post("/consumers/shipping/plan", 400, topic=TOPIC, to="x")
        without = await there.browser.post("/consumers/shipping/reset", 400, topic=TOPIC, to="latest")
        assert "give a reason" in without
        done = await there.browser.post("/consumers/shipping/reset", topic=TOPIC, to="latest", why="ticket 9")
        assert "was moved" in done and "2 skipped" in done
        assert "Messages behind</dt><dd>0</dd>" in await there.browser.get("/consumers/shipping")
        assert audit(there) == [("intended", "reset", "otto (console)"), ("done", "reset", "otto (console)")]

    on_site(work, tmp_path)


def test_messages_are_found_shown_and_sent_again(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        get = there.browser.get
        assert "Give a topic" in await get("/messages")
        newest = await get("/messages?topic=orders&rows=4")
        assert newest.count("broker-a:") == 4 and "k9" in newest and "k1<" not in newest
        assert "k7" in await get("/messages?topic=orders&key=k7") and "k7" not in await get(
            "/messages?topic=orders&key=k8"
        )
        since = await get("/messages?topic=orders&time=2020-01-01+00:00&rows=3")
        assert "k0" in since and 'rel="next"' in since
        assert "No message was found" in await get("/messages?topic=orders&time=2100-01-01")
        queue = await get("/messages?topic=orders&broker=broker-a&queue=1&offset=2&rows=2")
        assert "k5" in queue and "k7" in queue and "k9" not in queue and "offset=4" in queue
        assert "is no time" in await get("/messages?topic=orders&time=later")
        assert "its broker" in await get("/messages?topic=orders&queue=1")
        found = re.search(r'href="(/messages/at\?[^"]+)"', await get("/messages?topic=orders&key=k7"))
        assert found is not None
        place = found[1].replace("&amp;", "&")
        one = await get(place)
        assert "&#34;n&#34;: 7" in one and "shipping" in one and "colour" in one
        assert "properties={&#39;colour&#39;: &#39;red&#39;}" in one, "as code"
        assert "7b 22 6e 22" in await get(place + "&as=hex")
        assert "{&#34;n&#34;:7}" in await get(place + "&as=text")
        identifier = re.search(r'<h1 class="id">(\w+)', one)
        assert identifier is not None
        for query in (f"id={identifier[1]}&topic=orders", f"topic=orders&id={identifier[1].lower()}x"):
            assert (identifier[1] in await get(f"/messages?{query}")) == (not query.endswith("x"))
        await get("/messages/at?topic=orders&broker=broker-a&queue=1&offset=77", 400)
        fields = {"topic": "orders", "broker": "broker-a", "queue": "1", "offset": "3"}
        planned = await there.browser.post("/messages/resend/plan", **fields)
        assert "Send 1 message again?" in planned and "a copy is sent" in planned and "orders on broker-a" in planned
        assert not there.audit.exists() and (await get("/messages?topic=orders&key=k7")).count(">k7<") == 1
        assert "give a reason" in await there.browser.post("/messages/resend", 400, **fields)
        sent = await there.browser.post("/messages/resend", **fields, why="ticket 10")
        assert "1 sent again" in sent
        assert (await get("/messages?topic=orders&key=k7")).count(">k7<") == 2
        assert audit(there)[-1] == ("done", "resend", "otto (console)")

    on_site(work, tmp_path)


def test_dead_letters_go_to_their_group_again(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        assert 'href="/dead-letters/newsletter"' in await there.browser.get("/dead-letters")
        shown = await there.browser.get("/dead-letters/newsletter")
        found = re.search(r'name="chosen" value="([^"]+)"', shown)
        assert found is not None and "k9" in shown
        resend = "/dead-letters/newsletter/resend"
        assert "choose at least one" in await there.browser.post(resend, 400, which="chosen", why="x")
        assert "no place" in await there.browser.post(resend, 400, which="chosen", why="x", chosen="a/b")
        plan = await there.browser.post("/dead-letters/newsletter/plan", which="all")
        assert "Send 1 message again?" in plan and f'value="{found[1]}"' in plan and "%RETRY%newsletter" in plan
        assert not there.audit.exists()
        gone = await there.browser.post(resend, chosen=[found[1], "broker-a/0/99"], why="ticket 10")
        assert "1 sent again, 1 not" in gone and "it is no longer there" in gone
        assert '"outcome": "1 of 2 sent"' in there.audit.read_text()
        assert "1 sent again" in await there.browser.post(resend, which="chosen", chosen=found[1], why="ticket 11")
        async with Admin(there.name_servers) as admin:
            copies = await admin.browsing.newest("%RETRY%newsletter", 10)
        assert [copy.body for copy in copies] == [b'{"n":9}'] * 2
        assert {copy.properties["RETRY_TOPIC"] for copy in copies} == {TOPIC}
        assert (await there.browser.get("/messages?topic=orders&key=k9")).count(">k9<") == 1, "no other group gets it"

    on_site(work, tmp_path)


def test_brokers_and_their_settings(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        ada = there.new_browser()
        await ada.log_in("ada")
        assert 'href="/brokers/broker-a"' in await ada.get("/brokers")
        shown = await ada.get("/brokers/broker-a")
        assert "transactionCheckMax" in shown and "brokerVersionDesc" in shown
        change = {"key": "transactionCheckMax", "value": "7"}
        assert "Change transactionCheckMax" in await ada.post("/brokers/broker-a/plan", **change)
        assert "give a reason" in await ada.post("/brokers/broker-a/change", 400, **change)
        assert "was changed" in await ada.post("/brokers/broker-a/change", **change, why="ticket 13")
        assert re.search(r"transactionCheckMax</th><td>7 <span", await ada.get("/brokers/broker-a"))
        assert "no setting" in await ada.post("/brokers/broker-a/plan", 400, key="nothing", value="1")
        await ada.get("/brokers/nothing", 400)
        for key, value, words in (
            ("brokerName", "other", "cannot be changed while the broker runs"), ("fileReservedTime", "soon", "whole"),
            ("fileReservedTime", "1" * 30, "whole number"), ("autoCreateTopicEnable", "maybe", "true or false"),
            ("deleteWhen", "1" * 5_000, "too long"), ("deleteWhen", "04\nbrokerName=x", "one line"),
        ):  # fmt: skip
            assert words in await ada.post("/brokers/broker-a/change", 400, key=key, value=value, why="ticket 14"), key
        refused = {"key": "fileReservedTime", "value": "0", "why": "ticket 14"}
        assert "did not do it" in await ada.post("/brokers/broker-a/change", 502, **refused)
        assert audit(there)[-1] == ("refused", "setting", "ada (console)")
        chosen = await ada.get("/brokers/broker-a?setting=fileReservedTime")
        assert 'inputmode="numeric"' in chosen and "Hours that messages are kept" in chosen
        assert '<select name="value">' in await ada.get("/brokers/broker-a?setting=autoCreateTopicEnable")
        changed = await ada.get("/brokers/broker-a?changed=1")
        assert "transactionCheckMax</th>" in changed and "fileReservedTime</th>" not in changed
        shown = await ada.get("/brokers/broker-a?q=hours")
        assert "fileReservedTime</th>" in shown and "transactionCheckMax</th>" not in shown
        assert "messages are refused" in shown and "Messages are kept for" in shown, "the disk, and its limits"
        assert re.search(r'bootTimestamp</th><td><time datetime="20', shown), "a date, not a number"

    on_site(work, tmp_path)


def test_overview_and_what_is_nowhere(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        page = await there.browser.get("/")
        assert 'href="/brokers/broker-a"' in page and "<svg" in page
        assert "nothing at" in await there.browser.get("/nothing", 404)
        hostile = '"><script>alert(1)</script>'
        for path in ("/topics?q=", "/consumers?q=", "/messages?topic=", "/transactions?group=", "/dead-letters?q="):
            answer = await there.browser.http.get(path + hostile)
            assert "<script>alert" not in answer.text, path

    on_site(work, tmp_path)


def test_pipelines(tmp_path: Path) -> None:
    files = StatusFiles(str(tmp_path / "queries"), OsDisk())
    common = {"at_ms": 1_700_000_000_000, "process": os.getpid(), "batch": 7, "rows": 1_234_567, "rows_behind": 89}
    files.write(QueryStatus(id="a1", name="orders", state="running", seconds_behind=2.5, **common))
    files.write(QueryStatus(id="a2", name="bills", state="failed", error="<b>no table</b>", **common))
    files.write(QueryStatus(id="a3", name="dead", state="running", **{**common, "process": 2**22 + 1}))
    good = {"rows": 5, "missing": [], "doubled": [], "phantom": [], "wrong": []}
    report = {
        "ok": False, "orders": {"paid": 5}, "paid": 5, "topic": good, "unreadable": [],
        "tables": {"shipping": {**good, "missing": [f"order-{number}" for number in range(25)]}},
        "totals": {"missing": 25, "doubled": 0, "phantom": 0, "wrong": 0, "delivered_twice": 1},
    }  # fmt: skip
    (tmp_path / "report.json").write_text(json.dumps(report))
    settings = replace(
        SETTINGS, status_dir=str(tmp_path / "queries"),
        reconciliations=(str(tmp_path / "report.json"), str(tmp_path / "nothing.json")),
    )  # fmt: skip

    async def work(there: Site) -> None:
        await there.browser.log_in("vera")
        page = await there.browser.get("/pipelines")
        assert "1,234,567" in page and "2.5 s" in page and "&lt;b&gt;no table" in page and ">gone<" in page
        assert "they differ" in page and "25 missing in table shipping" in page and "and 5 more" in page
        assert "no report can be read there" in page

    on_site(work, tmp_path, settings=settings)
