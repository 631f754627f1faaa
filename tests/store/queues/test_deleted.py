"""A deleted topic is gone from the queues, also after a crash, and begins empty when it is made again."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from gantrymq.errors import StoreError
from gantrymq.message.message_types import NORMAL
from gantrymq.simulation.world.disk import PowerCut, SimDisk
from gantrymq.store.config import FlushDiskType
from gantrymq.store.message_store import MessageStore
from tests.store.test_deletion import filled
from tests.support.places import durable, open_store, record, run, small
from tests.support.sim_clock import SimClock


async def delete(store: MessageStore, topic: str) -> StoreError | None:
    answer: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
    store.delete_topic(topic, answer.set_result)
    return await answer


@pytest.mark.parametrize("mode", list(FlushDiskType))
def test_a_topic_made_again_begins_empty(tmp_path: Path, mode: FlushDiskType) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path / "store", flush_disk_type=mode))
        placed = [store.append([record(topic, n % 2)])[0] for n in range(60) for topic in ("Orders", "Bills")]
        await durable(store, placed)
        (on_its_way,) = store.append([record("Orders")])
        ended: asyncio.Future[tuple[StoreError | None, int]] = asyncio.get_running_loop().create_future()
        store.delete_topic("Orders", lambda error: ended.set_result((error, store.max_log_offset)))
        error, visible = await ended
        assert error is None
        assert visible >= on_its_way.end, "it must not become visible in a queue that is gone"
        assert not (tmp_path / "store/consumequeue/Orders").exists()
        assert store.queue_range("Orders", 0) == (0, 0) and store.topics() == {"Bills"}
        assert store.read(placed[0].log_offset) is None, "nothing leads to it any more"
        again = store.append([record("Orders", body=b"new")])
        assert again[0].queue_offset == 0
        await durable(store, again)
        sizes = store.arrived()["Orders", NORMAL]
        assert (sum(sizes.counts), sizes.sum) == (1, again[0].size)
        await store.close()
        reopened = open_store(small(tmp_path / "store"))
        assert (reopened.queue_range("Orders", 0), reopened.queue_range("Bills", 0)) == ((0, 1), (0, 30))
        message = reopened.read(again[0].log_offset)
        assert message is not None and message.body == b"new"
        await reopened.close()

    run(scenario())


def test_a_topic_without_queues(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert await delete(store, "Never") is None
        await store.close()

    run(scenario())


@pytest.mark.parametrize("process_only", [False, True])
def test_a_crash_does_not_bring_it_back(process_only: bool) -> None:
    for seed in range(30):

        async def scenario(seed: int = seed) -> None:
            disk, clock = SimDisk(seed), SimClock()
            store, _ = await filled(disk, clock)
            old = store.queue_range("Orders", 0)[1]
            assert old > 0
            assert await delete(store, "Orders") is None
            again = store.append([record("Orders", body=b"new 0"), record("Orders", body=b"new 1")])
            await durable(store, again)
            after = open_store(small("/data/store"), disk.process_dies() if process_only else disk.power_cut(), clock)
            assert after.queue_range("Orders", 0) == (0, 2)
            assert [m.body for m in map(after.read, [p.log_offset for p in again]) if m] == [b"new 0", b"new 1"]
            more = after.append([record("Orders")])
            assert more[0].queue_offset == 2
            await after.close()

        run(scenario())


def test_a_crash_at_any_point_of_deleting_is_harmless() -> None:
    for seed in range(40):

        async def scenario(seed: int = seed) -> None:
            disk, clock = SimDisk(seed), SimClock()
            store, _ = await filled(disk, clock)
            before = store.queue_range("Orders", 0)[1]
            disk.operations_left = seed
            with contextlib.suppress(PowerCut):
                await delete(store, "Orders")
            after = open_store(small("/data/store"), disk.power_cut(), clock)
            assert after.queue_range("Orders", 0)[1] in (0, before), "all of it or nothing"
            await after.close()

        run(scenario())
