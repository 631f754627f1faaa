"""What tasks wait for: a client, something of the user's own, or nothing that matters."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gantrymq import LitePullConsumer, aio
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.awaited import look_at

from .test_cluster import ANYWHERE


async def polls(consumer: aio.LitePullConsumer) -> None:
    await consumer.poll(60_000)


async def polls_deep_down(consumer: aio.LitePullConsumer) -> None:
    await asyncio.gather(asyncio.create_task(polls(consumer)), asyncio.sleep(0))


async def waits_for_itself(consumer: aio.LitePullConsumer) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("work", "wanted"), [(polls, True), (polls_deep_down, True), (waits_for_itself, False)])
def test_who_waits_for_a_client_is_found(work: Any, wanted: bool) -> None:
    async def main() -> None:
        async with aio.LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders") as consumer:
            await watch(work(consumer))

    async def watch(work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        for _ in range(10):
            await asyncio.sleep(0)
        assert look_at(asyncio.get_running_loop(), of_the_test=True).wanted is wanted
        assert not look_at(asyncio.get_running_loop(), of_the_test=False).wanted
        task.cancel()

    with LocalCluster() as cluster:
        cluster.create_topic("orders")
        asyncio.run(main())


def test_the_background_work_of_a_client_is_not_the_tests() -> None:
    with LocalCluster(virtual_time=True) as cluster:
        cluster.create_topic("orders")
        with LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders"):
            cluster.settle()
            before = cluster.time()
            cluster.settle()
            assert cluster.time() == before
