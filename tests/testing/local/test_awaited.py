"""What tasks wait for: a client, something of the user's own, or nothing that matters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gantrymq import LitePullConsumer, Message, aio
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.awaited import look_at

from .test_cluster import ANYWHERE


async def asks(producer: aio.Producer) -> None:
    await producer.request(Message("questions", b"?"), timeout_ms=60_000)


async def asks_deep_down(producer: aio.Producer) -> None:
    await asyncio.gather(asyncio.create_task(asks(producer)), asyncio.sleep(0))


async def polls(producer: aio.Producer) -> None:
    async with aio.LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders") as consumer:
        await consumer.poll(60_000)


async def waits_for_itself(producer: aio.Producer) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("work", "wanted"), [(asks, True), (asks_deep_down, True), (polls, False), (waits_for_itself, False)]
)
def test_a_task_that_waits_for_an_answer_is_found(work: Any, wanted: bool) -> None:
    async def main(cluster: LocalCluster) -> None:
        async with aio.Producer("p", name_servers=ANYWHERE) as producer:
            task = asyncio.create_task(work(producer))
            await cluster.settle_async()
            assert look_at(asyncio.get_running_loop(), of_the_test=True).wanted is wanted
            assert not look_at(asyncio.get_running_loop(), of_the_test=False).wanted
            task.cancel()
            await asyncio.wait([task])

    with LocalCluster() as cluster:
        cluster.create_topic("orders")
        asyncio.run(main(cluster))


def test_the_background_work_of_a_client_is_not_the_tests() -> None:
    with LocalCluster(virtual_time=True) as cluster:
        cluster.create_topic("orders")
        with LitePullConsumer("c", name_servers=ANYWHERE).subscribe("orders"):
            cluster.settle()
            before = cluster.time()
            cluster.settle()
            assert cluster.time() == before
