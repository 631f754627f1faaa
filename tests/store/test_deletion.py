from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.deletion import FILES_PER_RUN
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetStatus, Placement
from tests.support.places import durable, open_store, record, run, small
from tests.support.sim_clock import SimClock

HOUR_MS = 3_600_000
FOREVER = 1 << 62


async def filled(disk: SimDisk, clock: SimClock, count: int = 300) -> tuple[MessageStore, list[Placement]]:
    store = open_store(small("/data/store"), disk, clock)
    placed = []
    for number in range(count):
        placed += store.append([record(queue_id=number % 2, body=b"x" * 400, properties=f"KEYS\x01k{number}\x02")])
    assert await durable(store, placed) is None
    await clock.advance(6)
    return store, placed


def test_what_is_old_goes_with_everything_that_points_to_it() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store, placed = await filled(disk, clock)
        now = disk.now_ms
        assert store.delete_expired(now + HOUR_MS, 2, FOREVER) == 0
        dropped = store.delete_expired(now + 3 * HOUR_MS, 2, FOREVER)
        files = placed[-1].log_offset // 16384
        assert dropped == files == len({place.log_offset // 16384 for place in placed}) - 1
        assert store.min_log_offset == files * 16384
        kept = [place for place in placed if place.log_offset >= store.min_log_offset]
        assert [m.log_offset for m in store.scan(0)] == [place.log_offset for place in kept]
        least, most = store.queue_range("Orders", 0)
        assert (least, most) == (next(p.queue_offset for p in kept), 150)
        assert store.get("Orders", 0, least - 1, 1, 1000).status is GetStatus.OFFSET_TOO_SMALL
        assert store.get("Orders", 0, least, 100, 1 << 20).count == most - least
        assert store.entry("Orders", 0, 0) is None and store.read(placed[0].log_offset) is None
        assert store.store_time("Orders", 0, 0) is None
        assert store.query("Orders", "k0", 5) == [] and len(store.query("Orders", "k299", 5)) == 1
        assert int(disk.list("/data/store/consumequeue/Orders/0")[0]) > 0
        assert len(disk.list("/data/store/index")) == 1
        other = store.queue_range("Orders", 1)
        assert await durable(store, store.append([record()])) is None
        await store.close()
        again = open_store(small("/data/store"), disk, clock)
        assert again.queue_range("Orders", 1) == other
        assert [m.log_offset for m in again.scan(0)][: len(kept)] == [place.log_offset for place in kept]

    run(scenario())


@pytest.mark.parametrize("hours", [0, 1])
def test_retention_never_passes_what_must_be_kept(hours: int) -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store, placed = await filled(disk, clock)
        keep = placed[100].log_offset
        store.delete_expired(disk.now_ms + 9 * HOUR_MS, hours, keep)
        assert store.min_log_offset == keep // 16384 * 16384
        assert store.read(keep) is not None
        assert store.delete_expired(disk.now_ms + 9 * HOUR_MS, hours, 0) == 0
        await store.close()

    run(scenario())


def test_the_last_file_stays_and_a_run_has_a_limit(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store, placed = await filled(disk, clock, 600)
        files = placed[-1].log_offset // 16384
        assert store.delete_expired(FOREVER, 0, FOREVER) == FILES_PER_RUN < files
        while store.delete_expired(FOREVER, 0, FOREVER):
            pass
        assert store.min_log_offset == files * 16384
        assert store.delete_expired(FOREVER, 0, FOREVER) == 0
        await store.close()

    run(scenario())


def test_a_crash_in_the_middle_of_deleting_is_harmless() -> None:
    for seed in range(30):

        async def scenario(seed: int = seed) -> None:
            disk, clock = SimDisk(seed), SimClock()
            store, placed = await filled(disk, clock)
            store.delete_expired(FOREVER, 0, placed[200].log_offset)
            after = open_store(small("/data/store"), disk.power_cut(), clock)
            found = [m.log_offset for m in after.scan(0)]
            assert found == [place.log_offset for place in placed][-len(found) :] and len(found) >= 100
            assert after.queue_range("Orders", 0)[1] == 150
            answer = after.get("Orders", 0, after.queue_range("Orders", 0)[0], 1000, 1 << 20)
            assert answer.next_offset == 150
            await after.close()

        run(scenario())
