"""The search in bodies: what it finds, where it ends, and that going on misses nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.body_search import PART_FIRST, Bounds, Ended
from gantrymq.errors import ConfigError
from gantrymq.message.message import Message
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from tests.support.brokers import Cluster, cluster, send_header

FOREVER_MS = 4_000_000_000_000


async def filled(running: Cluster, count: int) -> None:
    """Messages in two queues; one in a hundred has the text."""
    await running.create_topic("Orders", 2)
    for first in range(0, count, 100):
        bodies = [b'{"order": %d, "who": "%s"}' % (n, b"Needle" if n % 100 == 7 else b"hay") for n in
                  range(first, first + 100)]  # fmt: skip
        batch = encode_batch([Message("Orders", body) for body in bodies])
        header = send_header("Orders", queue_id=first // 100 % 2, batch=True)
        answer = await running.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


def test_a_search_finds_all_or_says_where_it_ended(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            await filled(running, 1_000)
            async with Admin(running.name_server.address) as admin:
                search = admin.body_search
                whole = await search.run("Orders", "NEEDLE", 0, FOREVER_MS, Bounds(seconds=60), body_max=10)
                assert (len(whole.found), whole.messages, whole.queues, whole.unread) == (10, 1_000, 2, 0)
                assert whole.ended is Ended.ALL and whole.before_ms is None and whole.found[0].body_cut
                newest = await search.run("Orders", "needle", 0, FOREVER_MS, Bounds(found=1, seconds=60))
                assert newest.ended is Ended.FOUND and newest.unread > 0 and newest.before_ms is not None
                few = await search.run("Orders", "needle", 0, FOREVER_MS, Bounds(messages=50, seconds=60))
                assert few.ended is Ended.MESSAGES and few.messages == 50 and few.unread == 950
                bytes_ = await search.run("Orders", "needle", 0, FOREVER_MS, Bounds(body_bytes=100, seconds=60))
                assert bytes_.ended is Ended.BYTES and bytes_.messages <= 2 * PART_FIRST
                late = await search.run("Orders", "needle", 0, FOREVER_MS, Bounds(seconds=0))
                assert late.ended is Ended.TIME and late.messages == 0 and late.unread == 1_000
                assert late.before_ms == FOREVER_MS, "it goes on where it began"
                nothing = await search.run("Orders", "thread", 0, FOREVER_MS, Bounds(seconds=60))
                assert not nothing.found and nothing.ended is Ended.ALL
                long_ago = await search.run("Orders", "needle", 0, 1_000, Bounds(seconds=60))
                assert long_ago.messages == 0 and long_ago.queues == 0
                for text, span in (("", (0, 1)), ("x" * 257, (0, 1)), ("x", (5, 5))):
                    with pytest.raises(ConfigError):
                        await search.run("Orders", text, *span, Bounds())

    asyncio.run(work())


def test_a_search_that_goes_on_misses_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            await running.create_topic("Orders", 2)
            for number in range(30):
                await running.sent("Orders", b"needle %d" % number, queue_id=number % 2)
                await asyncio.sleep(0.002)  # so that they have different times
            async with Admin(running.name_server.address) as admin:
                found: set[bytes] = set()
                to_ms, rounds = FOREVER_MS, 0
                while rounds < 60:
                    rounds += 1
                    done = await admin.body_search.run("Orders", "needle", 0, to_ms, Bounds(messages=8, seconds=60))
                    found |= {one.body for one in done.found}
                    if done.before_ms is None:
                        break
                    assert done.before_ms < to_ms, "each search goes further back"
                    to_ms = done.before_ms
                assert len(found) == 30 and rounds > 2

    asyncio.run(work())
