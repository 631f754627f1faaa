"""Topics in the console: the list at a glance, and how they are made, changed and deleted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

from gantrymq.broker.remoting.door import RemotingDoor
from gantrymq.console.parts import Console
from gantrymq.protocol.codes import RequestCode
from tests.console.site import Browser, Site, on_site
from tests.console.test_pages import prepared


def order_shown(text: str) -> list[str]:
    return re.findall(r'href="/topics/([\w%]+)">', text.partition("<tbody>")[2])


def test_the_list_is_sorted_and_hides_the_system(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        await there.running.create_topic("a-empty", 1)
        listed = await there.browser.get("/topics?sort=-messages")
        assert order_shown(listed)[0] == "orders" and "TBW102" not in listed and "%RETRY%" not in listed
        assert "DefaultCluster" not in listed.partition("<tbody>")[2], "a topic that the broker made for itself"
        assert 'aria-sort="descending"' in listed and "Furthest behind" in listed
        assert order_shown(await there.browser.get("/topics?sort=messages"))[-1] == "orders"
        assert order_shown(await there.browser.get("/topics?sort=nonsense")) == sorted(order_shown(listed))
        every = await there.browser.get("/topics?all=1")
        assert "TBW102" in every and "%25DLQ%25newsletter" in every
        shown = await there.browser.get("/topics/orders?senders=1")
        assert "not connected any more" in shown or "PG" in shown
        assert 'data-label="Behind for"' in shown and 'href="/consumers/shipping"' in shown
        cast("RemotingDoor", there.running.broker.doors[0]).handlers.pop(RequestCode.SUMMARIZE)
        other = there.new_browser()
        await other.log_in("vera")
        console: Console = there.browser.http._transport.app.state.console  # type: ignore[attr-defined]
        console.topic_rows.forget()
        console.group_rows.forget()
        older = await other.get("/topics?sort=-messages")
        assert "figures cannot be sorted" in older and 'href="/topics/orders"' in older and ">10</td>" in older
        assert "cannot be sorted" in await other.get("/consumers?sort=-lag")
        assert 'href="/consumers/shipping"' in await other.get("/topics/orders")

    on_site(work, tmp_path)


def test_topics_are_made_changed_and_deleted(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        ada = there.new_browser()
        await ada.log_in("ada")
        new = {"topic": "fresh", "read_queues": "3", "write_queues": "3", "perm": "6", "order": "no", "type": "FIFO",
               "new": "1"}  # fmt: skip
        planned = await ada.post("/topics/plan", **new)
        assert "Create fresh?" in planned and "created with 3 queues" in planned and not there.audit.exists()
        await ada.get("/topics/fresh", 404)
        assert "give a reason" in await ada.post("/topics/change", 400, **new)
        assert "was created" in await ada.post("/topics/change", **new, why="ticket 20")
        shown = await ada.get("/topics/fresh")
        assert "FIFO" in shown and "Change the settings" in shown and "fresh" in await ada.get("/topics")
        assert "exists already" in await ada.post("/topics/plan", 400, **new)
        same = {name: value for name, value in new.items() if name != "new"}
        assert "has these settings already" in await ada.post("/topics/plan", **same)
        fewer = {"topic": "orders", "read_queues": "1", "write_queues": "1"}
        assert "would hide 5 message(s)" in await ada.post("/topics/plan", **fewer)
        assert "would hide" in await ada.post("/topics/change", 400, **fewer, why="ticket 21")
        assert "was changed" in await ada.post("/topics/change", **fewer, why="ticket 21", hide="1")
        gone = await ada.post("/topics/orders/delete-plan")
        assert "Delete orders?" in gone and "shipping" in gone
        for name in ("", "order"):
            text = await ada.post("/topics/orders/delete", 400, name=name, why="ticket 22")
            assert "nothing was deleted" in text
        assert "give a reason" in await ada.post("/topics/orders/delete", 400, name="orders")
        assert "was deleted" in await ada.post("/topics/orders/delete", name="orders", why="ticket 22")
        await ada.get("/topics/orders", 404)
        done = [json.loads(line) for line in there.audit.read_text().splitlines()]
        assert [(line["action"], line["phase"]) for line in done if line["phase"] == "done"] == [
            ("create topic", "done"), ("change topic", "done"), ("delete topic", "done"),
        ]  # fmt: skip
        await wrong_forms(ada)
        otto = there.new_browser()
        await otto.log_in("otto")
        assert "Create a topic" not in await otto.get("/topics")

    on_site(work, tmp_path)


async def wrong_forms(ada: Browser) -> None:
    """What people type by accident, and what somebody types who wants to break it."""
    for fields, words in (
        ({"topic": ""}, "blank"), ({"topic": "a b"}, "not allowed"), ({"topic": "x" * 5_000}, "at most 127"),
        ({"topic": "t", "read_queues": "many"}, "not a valid number of read queues"),
        ({"topic": "t", "read_queues": "0"}, "from 1 to"), ({"topic": "t", "write_queues": "9" * 400}, "from 1 to"),
        ({"topic": "t", "read_queues": "\u0663"}, "not a valid number"), ({"topic": "t", "perm": "7"}, "permission"),
        ({"topic": "t", "order": "maybe"}, "yes or no"), ({"topic": "t", "type": "SLOW"}, "unknown message type"),
    ):  # fmt: skip
        text = await ada.post("/topics/plan", 400, **fields)
        assert words in text, (fields, text[-600:])
    assert "belongs to the system" in await ada.post("/topics/TBW102/delete-plan", 400)
    await ada.post("/topics/nothing/delete-plan", 404)
