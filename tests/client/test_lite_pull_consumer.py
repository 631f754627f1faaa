"""Polling, with a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gantrymq.aio import ConsumeFromWhere, LitePullConsumer, Message, Producer
from gantrymq.errors import ConfigError, RequestRejected
from tests.client.peer import run, until
from tests.client.real import server

FAST: dict[str, Any] = {"rebalance_interval_ms": 100, "from_where": ConsumeFromWhere.FIRST_OFFSET}


async def poll(consumer: LitePullConsumer, count: int) -> list[str]:
    found: list[str] = []
    for _ in range(200):
        found += [view.body.decode() for view in await consumer.poll(100)]
        if len(found) >= count:
            return found
    raise AssertionError(f"only {found}")


def test_subscribers_share_and_go_on_where_they_were(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            for number in range(20):
                await producer.send(Message("T", f"{number}", tags="AB"[number % 2]))

            def member() -> LitePullConsumer:
                return LitePullConsumer("CG", name_servers=address, poll_batch_size=3, **FAST).subscribe("T", "A")

            async with member() as one:
                assert sorted(await poll(one, 10), key=int) == [f"{number}" for number in range(0, 20, 2)]
                await one.commit()  # what is only polled may come again where queues change hands
                async with member() as two:
                    await until(lambda: len(one.assigned) == len(two.assigned) == 2)
                    assert await two.poll(50) == []
            await producer.send(Message("T", "new", tags="A"))
            async with member() as again:
                assert await poll(again, 1) == ["new"] and await again.poll(50) == []

    run(test)


def test_assigned_queues_are_sought_paused_and_committed(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address, Producer("PG", name_servers=address) as producer:
            await producer.send(Message("T", "x"))
            queue, other = (await producer.queues("T"))[:2]
            for number in range(10):
                await producer.send(Message("T", f"{number}"), queue)
            settings = {"auto_commit": False, "poll_batch_size": 4, **FAST}
            async with LitePullConsumer("CG", name_servers=address, **settings) as consumer:
                assert queue in await consumer.queues("T") and await consumer.poll(0) == []
                await consumer.assign([queue])
                first = await poll(consumer, 4)
                assert len(first) == 4 and await consumer.committed(queue) is None
                await consumer.commit()
                assert await consumer.committed(queue) == 4
                await consumer.pause([queue])
                assert await consumer.poll(50) == []
                await consumer.resume([queue])
                assert len(await consumer.poll(5_000)) == 4
                await consumer.seek(queue, 1)
                assert [view.queue_offset for view in await consumer.poll(5_000)] == [1, 2, 3, 4]
                await consumer.seek_to_end(queue)
                assert await consumer.poll(50) == []
                await producer.send(Message("T", "late"), queue)
                assert await poll(consumer, 1) == ["late"]
                await consumer.seek_to_begin(queue)
                assert (await consumer.poll(5_000))[0].queue_offset == 0
                assert await consumer.offset_for_timestamp(queue, 0) == 0
                await consumer.commit({queue: 2})
                await consumer.assign([queue, other])
                assert consumer.assigned == sorted([queue, other])
                for wrong in (consumer.seek(queue, 99), consumer.seek(queue, -1)):
                    with pytest.raises(ConfigError, match="outside"):
                        await wrong
                await consumer.assign([other])
                with pytest.raises(ConfigError, match="not read"):
                    await consumer.pause([queue])
            async with LitePullConsumer("CG", name_servers=address, **settings) as consumer:
                await consumer.assign([queue])
                assert (await consumer.poll(5_000))[0].queue_offset == 2

    run(test)


def test_sql_is_read_by_the_broker_for_assigned_queues_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            server(tmp_path, enable_property_filter=True) as address,
            Producer("PG", name_servers=address) as producer,
        ):
            for number in range(6):
                await producer.send(Message("T", f"{number}", properties={"price": f"{number}"}))
            async with LitePullConsumer("CG", name_servers=address, **FAST) as consumer:
                await consumer.assign(await consumer.queues("T"), sql="price > 3")
                assert sorted(await poll(consumer, 2)) == ["4", "5"]
                with pytest.raises(RequestRejected, match="SQL"):
                    await consumer.assign(await consumer.queues("T"), sql="price >")

    run(test)


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    async def test() -> None:
        async with server(tmp_path) as address:
            consumer = LitePullConsumer("CG", name_servers=address).subscribe("T")
            async with consumer:
                with pytest.raises(ConfigError, match="not both"):
                    await consumer.assign([])
                with pytest.raises(ConfigError, match="before start"):
                    consumer.subscribe("U")

    run(test)
