from __future__ import annotations

from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.recovery.cases import Case
from tests.support.places import durable, open_store, record, run, small
from tests.support.sim_clock import SimClock, settle

ROOT = "/data/store"


def test_an_idle_store_has_no_timers_and_writes_nothing() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        await clock.advance(10)
        assert clock.waiting == 0
        await durable(store, store.append([record()]))
        await clock.advance(20)
        assert clock.waiting == 0
        before = disk.operations
        await clock.advance(1000)
        assert disk.operations == before
        await store.close()
        again = open_store(small(ROOT), disk, clock)
        await clock.advance(10)
        assert clock.waiting == 0
        await again.close()

    run(scenario())


def test_a_store_that_only_builds_its_index_again_becomes_idle() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        await durable(store, store.append([record()]))
        await store.close()
        for name in disk.list(f"{ROOT}/index"):
            disk.remove(f"{ROOT}/index/{name}")
        again = open_store(small(ROOT), disk, clock)
        await clock.advance(20)
        assert clock.waiting == 0 and len(again.query("Orders", "order-1", 5)) == 1
        await again.close()

    run(scenario())


def test_entries_reach_their_files_in_a_second_and_are_read_from_both_places() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        placed = []
        for _ in range(15):
            placed += store.append([record()])
        await durable(store, placed)
        assert not disk.exists(f"{ROOT}/consumequeue")
        await clock.advance(1)
        assert disk.list(f"{ROOT}/consumequeue/Orders/0") == ["0" * 20]
        for _ in range(15):
            placed += store.append([record()])
        await durable(store, placed)
        answer = store.get("Orders", 0, 3, 1000, 1 << 20)
        assert (answer.count, answer.next_offset) == (27, 30)
        await clock.advance(1)
        assert disk.list(f"{ROOT}/consumequeue/Orders/0") == ["0" * 20, f"{400:020d}"]
        await store.close()

    run(scenario())


def test_after_a_crash_only_what_came_behind_the_mark_is_read() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        for _ in range(100):
            placed = store.append([record()])
        await durable(store, placed)
        await clock.advance(6)
        marked = placed[0].end
        for _ in range(5):
            placed = store.append([record()])
        await durable(store, placed)
        disk, clock = disk.power_cut(), SimClock(clock.wall_ms())
        after = open_store(small(ROOT), disk, clock)
        assert (after.recovered.case, after.recovered.start, after.recovered.records) == (Case.MARKED, marked, 5)
        assert after.queue_range("Orders", 0) == (0, 105)
        await clock.advance(6)
        third = open_store(small(ROOT), disk.power_cut(), clock)
        assert (third.recovered.case, third.recovered.records) == (Case.MARKED, 0)

    run(scenario())


def test_a_queue_that_cannot_be_written_stays_in_memory_until_there_is_space() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        placed = store.append([record()])
        await durable(store, placed)
        disk.free_bytes = 0
        await clock.advance(6)
        assert store.get("Orders", 0, 0, 1, 1000).count == 1
        disk.free_bytes = None
        await clock.advance(1)
        assert store.get("Orders", 0, 0, 1, 1000).count == 1
        await store.close()
        assert not disk.exists(f"{ROOT}/abort")

    run(scenario())


def test_a_failed_sync_of_derived_files_makes_no_marks_but_loses_nothing() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        disk.fail_next_sync("consumequeue")
        placed = store.append([record()])
        await durable(store, placed)
        await clock.advance(30)
        placed = store.append([record()])
        assert await durable(store, placed) is None
        await store.close()
        assert disk.exists(f"{ROOT}/abort")
        after = open_store(small(ROOT), disk.power_cut(), clock)
        assert after.queue_range("Orders", 0) == (0, 2)
        await settle()

    run(scenario())


def test_a_store_that_is_closed_while_it_syncs_for_a_mark_has_everything_durable() -> None:
    """The files that the mark had not come to were forgotten: a power cut behind an orderly end took their entries."""

    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = open_store(small(ROOT), disk, clock)
        await durable(store, [store.append([record(f"topic{number}")])[0] for number in range(12)])
        await clock.advance(1)
        store._derived._begin_mark()
        assert store._derived._marking
        await store.close()
        files = [f"{ROOT}/consumequeue/topic{number}/0/{'0' * 20}" for number in range(12)]
        assert [path for path in files if disk.unsynced_of(path)] == []

    run(scenario())
