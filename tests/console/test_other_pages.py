"""Clients, replication, dead letters, search in bodies and the lag of groups, over a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from gantrymq.admin import Admin
from gantrymq.aio import Producer, PushConsumer
from gantrymq.broker.remoting.door import RemotingDoor
from gantrymq.message.message import Message, MessageView
from gantrymq.protocol.codes import RequestCode
from tests.console.site import Site, on_site
from tests.console.test_pages import prepared


def test_clients_and_replication(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        get = there.browser.get
        assert "No client is connected" in await get("/clients")
        assert "Every broker is alone" in await get("/replication") and "ASYNC_MASTER" in await get("/replication")

        def listener(message: MessageView) -> None:
            """It consumes."""

        async with (
            Producer("payments", name_servers=there.name_servers) as producer,
            PushConsumer("shipping", name_servers=there.name_servers, listener=listener).subscribe("orders", "paid"),
        ):
            await producer.send(Message("orders", b"hello"))
            async with asyncio.timeout(60):
                while "payments" not in await get("/clients?kind=producer"):
                    await asyncio.sleep(0.05)
                while "remoting" not in await get("/clients?q=shipping"):
                    await asyncio.sleep(0.05)
            shown = await get("/clients?sort=-heard_ms")
            assert 'aria-sort="descending"' in shown and "127.0.0.1" in shown and "PYTHON" in shown
            assert "No client fits" in await get("/clients?q=nobody")
            assert "payments" not in await get("/clients?kind=consumer")
            member = await get("/consumers/shipping")
            assert "orders (paid)" in member and "V5_5_0" in member and "Behind for" in member
            cast("RemotingDoor", there.running.broker.doors[0]).handlers.pop(RequestCode.SUMMARIZE)
            older = await get("/clients")
            assert "payments" in older and "shipping" in older and "no such summary" in older

    on_site(work, tmp_path)


def test_dead_letters_say_where_they_come_from(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        before = await there.browser.get("/dead-letters/newsletter")
        assert 'href="/topics/orders"' in before and "a consumer gave it up before" in before
        assert "sent again</span>" not in before
        assert "1</td>" in await there.browser.get("/dead-letters?sort=-messages")
        await asyncio.sleep(0.002)  # the copy must have a later time
        sent = await there.browser.post(
            "/dead-letters/newsletter/resend", chosen=there_place(before), why="ticket 41", which="chosen"
        )
        assert "1 sent again" in sent
        async with asyncio.timeout(60):  # the index follows the log
            while "sent again</span>" not in await there.browser.get("/dead-letters/newsletter"):
                await asyncio.sleep(0.05)

    on_site(work, tmp_path)


def there_place(page: str) -> str:
    return page.split('name="chosen" value="')[1].split('"')[0]


def test_bodies_are_searched_within_bounds(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        get = there.browser.get
        assert '<option value="orders">' in await get("/messages"), "topics are suggested"
        found = await get("/messages?topic=orders&body=%22n%22:7")
        assert "k7" in found and "k8" not in found and "Looked at 10 messages" in found
        assert "everything in this time range was looked at" in found
        assert "0 found" in await get("/messages?topic=orders&body=needle")
        assert "Looked at 0 messages" in await get("/messages?topic=orders&body=n&until=2020-01-01")
        for query, words in (
            ("body=x", "give the topic"), ("topic=orders&body=x&most=7", "not a valid number"),
            ("topic=orders&body=x&time=later", "is no time"), (f"topic=orders&body={'x' * 300}", "1 to 256"),
            ("topic=orders&body=x&time=2026-01-02&until=2026-01-01", "ends before it begins"),
        ):  # fmt: skip
            assert words in await get(f"/messages?{query}"), query
        await get("/messages?topic=nothing&body=x", 404)
        await there.half("K1")
        vera = there.new_browser()
        await vera.log_in("vera")
        await vera.get("/messages?topic=RMQ_SYS_TRANS_HALF_TOPIC&body=order", 403)

    on_site(work, tmp_path)


def test_the_plot_of_a_group_fills(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await prepared(there)
        async with Admin(there.name_servers) as admin:
            assert (await admin.overviews.groups()).groups["shipping"].lag == 4
        console = there.browser.http._transport.app.state.console  # type: ignore[attr-defined]
        async with asyncio.timeout(60):
            while not any("shipping" in sample for sample in console.lags.kept):
                await asyncio.sleep(0.05)
        shown = await there.browser.get("/consumers/shipping")
        assert shown.count('<svg class="plot"') == 2 and "Behind for: oldest unread message" in shown
        listed = await there.browser.get("/consumers?sort=-behind_ms")
        assert listed.index("shipping") < listed.index("newsletter") and 'aria-sort="descending"' in listed

    on_site(work, tmp_path)
