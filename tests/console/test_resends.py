"""Messages that are sent again: nothing without its dry run, and a broker that does not answer is waited for once."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from gantrymq.admin import Admin
from gantrymq.admin.audit import Phase
from gantrymq.console.resends import Resend, outcome
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import decode_command
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.nameserver import RegisterBroker
from tests.console.scene import send_back
from tests.console.site import Site, on_site

TOPIC, SILENT = "orders", "broker-s"


@contextlib.asynccontextmanager
async def silent_broker(there: Site) -> AsyncIterator[Counter[int]]:
    """A broker that the name server knows and that answers nothing; gives how often it was asked, by request code."""
    asked: Counter[int] = Counter()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameSplitter()
        while data := await reader.read(65536):
            asked.update(decode_command(*frame).code for frame in frames.feed(data))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    body = RegisterBrokerBody().encode()
    header = RegisterBroker(
        broker_name=SILENT, broker_addr=f"{host}:{port}", cluster_name="DefaultCluster", ha_server_addr="127.0.0.1:1",
        broker_id=0, compressed=False, body_crc32=crc32(body) & 0x7FFFFFFF,
    )  # fmt: skip
    # The name server forgets a broker whose connection ends; this one stays open until the cluster stops.
    known = await there.running.client.call(
        there.name_servers, RequestCode.REGISTER_BROKER, header, body, timeout_ms=10_000
    )  # fmt: skip
    assert known.code == 0, known.remark
    try:
        yield asked
    finally:
        server.close()


@pytest.mark.slow
def test_a_silent_broker_is_waited_for_once(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        for number in range(6):
            await there.running.sent(TOPIC, b"%d" % number, queue_id=number % 2)
        console = there.browser.http._transport.app.state.console  # type: ignore[attr-defined]
        here = [f"broker-a/{number % 2}/{number // 2}" for number in range(6)]
        gone = [place.replace("broker-a", SILENT) for place in here[:3]]
        copies = await Resend(console, "newsletter").read(TOPIC, here)
        assert not any(copy.problem for copy in copies)
        async with silent_broker(there) as asked:
            # Two of them that nobody has asked yet: one reads, the other one sends.
            reading, sending = Resend(console, "newsletter"), Resend(console, "newsletter")
            moved = [
                sending.planned(msgspec.structs.replace(copy.message, queue=MessageQueue(TOPIC, SILENT, 0)))
                for copy in copies[:3]
                if copy.message is not None
            ]
            read, sent = await asyncio.gather(
                reading.read(TOPIC, [*gone, *here]), sending.send([moved[0], *copies[3:], *moved[1:]])
            )
            assert asked[RequestCode.PULL_MESSAGE] == 1 and asked[RequestCode.SEND_MESSAGE_V2] == 1
            assert read[0].problem and all("not tried" in copy.problem for copy in read[1:3])
            assert not any(copy.problem for copy in read[3:]), "the other broker's messages are read"
            assert sent[0].unknown and all(copy.copy_id for copy in sent[1:4])
            assert all("not tried" in copy.problem and not copy.unknown for copy in sent[4:])
            assert outcome(sent) == (Phase.DONE, "3 of 6 sent")
            assert outcome([sent[0], *sent[4:]]) == (Phase.UNKNOWN, "0 of 3 sent")
            assert all("not tried" in copy.problem for copy in await sending.read(TOPIC, gone))
            assert asked[RequestCode.PULL_MESSAGE] == 1, "who did not answer a copy is not asked for messages"

    on_site(work, tmp_path)


def test_only_what_a_dry_run_listed_is_sent(tmp_path: Path) -> None:
    async def work(there: Site) -> None:
        async def letter(number: int) -> None:
            sent = await there.running.sent(TOPIC, b"%d" % number)
            await send_back(admin, there.running, sent.msg_id)

        group, browser = "/dead-letters/newsletter", there.browser
        await browser.log_in("otto")
        async with Admin(there.name_servers) as admin:
            await admin.groups.put("newsletter", lambda known: known)
            await letter(1)
            await letter(2)
            plan = await browser.post(f"{group}/plan", which="all")
            listed = re.findall(r'name="chosen" value="([^"]+)"', plan)
            await letter(3)
            refused = await browser.post(f"{group}/resend", 400, which="all", why="ticket 1")
            assert "only messages that a dry run listed are sent" in refused
            await browser.post(f"{group}/resend", 400, which="all", chosen=listed, why="ticket 1")
            assert not there.audit.exists()
            assert "2 sent again" in await browser.post(f"{group}/resend", chosen=listed, why="ticket 2")
            copies = await admin.browsing.newest("%RETRY%newsletter", 10)
        assert sorted(copy.body for copy in copies) == [b"1", b"2"], "the third came after the dry run"

    on_site(work, tmp_path)
