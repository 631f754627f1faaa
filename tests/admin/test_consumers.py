"""How far a group is, and whether it is done with what was stored before a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gantrymq.admin.blocking import Admin
from gantrymq.admin.consumers import GroupProgress, QueueLag
from gantrymq.message.queues import MessageQueue
from tests.support.brokers import cluster


def progress(*queues: tuple[int, int, int]) -> GroupProgress:
    """Of queues, each by its end, where the group is, and when the last message that is done was stored."""
    lags = [
        QueueLag(queue=MessageQueue("T", "b", at), broker_offset=end, consumer_offset=done, last_ms=last)
        for at, (end, done, last) in enumerate(queues)
    ]
    return GroupProgress(group="G", queues=lags, tps=0.0)


def test_what_was_stored_before_a_time_is_done() -> None:
    assert progress((10, 10, 500), (0, 0, 0)).reached(1_000), "nothing is left"
    assert progress((10, 8, 1_000), (9, 9, 3)).reached(1_000), "what is left was stored later"
    assert not progress((10, 8, 999), (9, 9, 5_000)).reached(1_000)
    assert not progress((10, 0, 0)).reached(1_000), "nothing is done yet"
    assert not progress().reached(1_000), "the group is not known"


def test_a_program_asks_without_an_event_loop(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            address = running.name_server.address

            def ask() -> GroupProgress:
                with Admin(address) as admin:
                    return admin.consumers.progress("CG", "Orders")

            await running.create_topic("Orders", 1)
            for _ in range(3):
                await running.sent("Orders")
            last = running.broker.store.store_time("Orders", 0, 2)
            assert last is not None
            await running.pull("Orders", commit_offset=1, sys_flag=5)
            behind = await asyncio.to_thread(ask)
            assert (behind.lag, behind.reached(last + 1)) == (2, False)
            await running.pull("Orders", offset=3, commit_offset=3, sys_flag=5)
            assert (await asyncio.to_thread(ask)).reached(last + 1)

    asyncio.run(asyncio.wait_for(work(), 30))
