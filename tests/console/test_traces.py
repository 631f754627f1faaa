"""The page and the command of the message trace, with records that real clients wrote."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from gantrymq.aio import ConsumeFromWhere, Message, MessageView, Producer, PushConsumer, TransactionProducer
from gantrymq.message.system_topics import TRACE
from gantrymq.runtime.calendar import LAST_MS
from tests.cli.tool import Tool
from tests.console.scene import Sure
from tests.console.site import Site, on_site

TIMES = {"far": 2**62, "last": LAST_MS}


async def recorded(there: Site) -> tuple[str, str]:
    """The ids of a message that was consumed at the second try, and of a transaction."""
    seen: list[bytes] = []
    done = asyncio.Event()

    async def listener(messages: list[MessageView]) -> None:
        seen.append(messages[0].body)
        if len(seen) == 1:
            raise ValueError("once")
        if len(seen) == 3:
            done.set()

    async with PushConsumer(
        "shipping", name_servers=there.name_servers, listener=listener, trace=True, orderly=True, suspend_ms=10,
        from_where=ConsumeFromWhere.FIRST_OFFSET,
    ).subscribe("orders"):  # fmt: skip
        async with TransactionProducer(
            "payments", name_servers=there.name_servers, listener=Sure(), trace=True
        ) as producer:  # fmt: skip
            plain = await producer.send(Message("orders", "one", keys="order-1"))
            while len(seen) < 2:
                await asyncio.sleep(0.02)
            ended = await producer.send_in_transaction(Message("orders", "two", keys="order-2"))
        await done.wait()
    return plain.message_id, ended.message_id


def words(page: str) -> list[str]:
    """The text of each row of the last table."""
    rows = re.findall(r"<tr>(.*?)</tr>", page.rpartition("<tbody>")[2], re.DOTALL)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]


def test_the_life_of_a_message(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.browser.log_in("vera")
        assert "no client has recorded anything yet" in await there.browser.get("/traces")
        plain, ended = await recorded(there)
        sent, *consumed = words(await there.browser.get(f"/traces?word={plain}"))
        assert " sent payments 127.0.0.1 " in sent and sent.endswith(f"orders {there.running.broker.address}")
        assert len(consumed) == 2 and " consumed delivery 1, failed shipping 127.0.0.1 " in consumed[0]
        assert " consumed delivery 2 shipping 127.0.0.1 " in consumed[1]
        drawn = await there.browser.get("/traces?word=order-2")
        assert drawn.count('<svg class="waterfall"') >= 3 and "bar-sent" in drawn and "bar-consumed" in drawn
        assert "broker broker-a" in drawn and "bar-broker" in drawn, "what the broker noted of the transaction"
        half, decided, last = words(await there.browser.get("/traces?word=order-2"))
        assert "half message sent" in half and "decided commit, by the producer" in decided and "consumed" in last
        newest = await there.browser.get("/traces")
        assert len(words(newest)) == 6 and f'href="/traces?word={ended}"' in newest
        assert "No client recorded anything" in await there.browser.get("/traces?word=absent")
        found = re.search(r'href="(/messages\?[^"]*)"', await there.browser.get(f"/traces?word={plain}"))
        assert found is not None and plain in await there.browser.get(found[1].replace("&amp;", "&"))

        tool = Tool(there.name_servers, there.audit)
        rows = await asyncio.to_thread(tool.json, "message", "trace", plain)
        assert [(row["happened"], row["group"], row["good"]) for row in rows] == [
            ("sent", "payments", True), ("consumed", "shipping", False), ("consumed", "shipping", True),
        ]  # fmt: skip
        assert "decided" in await asyncio.to_thread(tool.text, "message", "trace", "order-2")
        assert "no client recorded" in await asyncio.to_thread(tool.text, "message", "trace", "absent")

    on_site(work, tmp_path)


def test_a_topic_of_its_own_and_records_that_are_none(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        await there.browser.log_in("vera")
        async with Producer("anybody", name_servers=there.name_servers) as producer:
            await producer.send(Message(TRACE, "<b>no record</b>", keys="k"))
            records = (f"Recall\x01{at}\x01r\x01g\x01t\x01{name}\x01true\x02" for name, at in TIMES.items())
            far = "".join(records)
            await producer.send(Message("far-trace", far, keys="far last"))
            await producer.send(Message("my-trace", "Recall\x015\x01r\x01g\x01t\x01<ID>\x01true\x02", keys="<ID>"))
        assert "1 record in this topic could not be read" in await there.browser.get("/traces")
        own = await there.browser.get("/traces?topic=my-trace&word=<ID>")
        assert "recalled" in own and "&lt;ID&gt;" in own and "<ID>" not in own
        assert "9998-12-31" in await there.browser.get("/traces?topic=far-trace")
        assert "No client recorded" in await there.browser.get("/traces?topic=far-trace&word=far")
        tool = Tool(there.name_servers, there.audit)
        told = await asyncio.to_thread(tool.text, "message", "trace", "last", "--trace-topic", "far-trace")
        assert "recalled" in told
        async with Producer("anybody", name_servers=there.name_servers) as producer:
            for number in range(70):
                text = f"Recall\x01{number}\x01r\x01g\x01t\x01id{number}\x01true\x02"
                await producer.send(Message("my-trace", text, keys="often"))
        assert "more records than are read at once" in await there.browser.get("/traces?topic=my-trace&word=often")
        assert "no topic nowhere" in await there.browser.get("/traces?topic=nowhere")

    on_site(work, tmp_path)
