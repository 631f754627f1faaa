"""Lists of messages read only the beginnings of bodies, whatever a few bytes grow to when they are decompressed."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from pathlib import Path

from gantrymq.admin import Admin
from gantrymq.console.views import LIST_BODY, PAGE_BODY
from gantrymq.message import flags
from gantrymq.message.queues import MessageQueue
from tests.support.brokers import cluster

GROWN = 8_000_000
BOMB = zlib.compress(bytes(GROWN))
COUNT = 20


def test_a_page_of_bodies_that_grow_costs_what_is_shown(tmp_path: Path) -> None:
    async def play() -> None:
        async with asyncio.timeout(60), cluster(tmp_path, with_name_server=True, broker_name="b") as running:
            await running.create_topic("Bombs", 1)
            for _ in range(COUNT):
                await running.sent("Bombs", BOMB, "KEYS\x01k\x02UNIQ_KEY\x01u\x02", sys_flag=flags.COMPRESSED)
            assert running.name_server is not None
            async with Admin(running.name_server.address) as admin:
                queue = MessageQueue("Bombs", "b", 0)
                await admin.browsing.newest("Bombs", 1, LIST_BODY)  # what is loaded with the first question
                tracemalloc.start()
                try:
                    lists = [
                        await admin.browsing.newest("Bombs", COUNT, LIST_BODY),
                        await admin.browsing.since("Bombs", 0, COUNT, LIST_BODY),
                        (await admin.browsing.at(queue, 0, COUNT, LIST_BODY))[0],
                        await admin.messages.by_key("Bombs", "k", body_max=LIST_BODY),
                        await admin.messages.by_unique_key("Bombs", "u", LIST_BODY),
                    ]
                    assert tracemalloc.get_traced_memory()[1] < GROWN / 2, "less than one of them"
                finally:
                    tracemalloc.stop()
                for found in lists:
                    assert len(found) == COUNT
                    assert {(len(view.body), view.body_cut) for view in found} == {(LIST_BODY, True)}
                one = await admin.messages.at(queue, 0, PAGE_BODY)
                assert one is not None and one.body_cut and len(one.body) == PAGE_BODY
                whole = await admin.messages.at(queue, 0)
                assert whole is not None and not whole.body_cut and len(whole.body) == GROWN

    asyncio.run(play())
