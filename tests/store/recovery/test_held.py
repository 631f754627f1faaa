"""A start of a store whose records others have yet to confirm: those wait, all others are as they were."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.files.checkpoint import ALONE, MarkFile
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import Placement
from tests.support.places import HOST, record, run, small
from tests.support.safety import LateReplica


def open_waiting(root: Path, *, waits: bool = True) -> tuple[MessageStore, LateReplica]:
    store = MessageStore.open(small(root), OsDisk(), SystemClock(), HOST, waits=waits)
    replica = LateReplica()
    store.require([replica] if waits else [])
    return store, replica


def numbers(store: MessageStore) -> list[int]:
    """Of both queues, what consumers see."""
    found = []
    for queue in (0, 1):
        answer = store.get("Orders", queue, 0, 1000, 1 << 20)
        found += [int(message.body[:3]) for message in scan(answer.data)]
    return sorted(found)


async def killed(root: Path, count: int, confirmed: int, *, noted: int) -> list[Placement]:
    """What a kill leaves of a store of ``count`` records, of which so many are confirmed, and so many were noted."""
    store, replica = open_waiting(root / "runs")
    placed: list[Placement] = []
    for number in range(count):
        placed += store.append([record("Orders", number % 2, b"%03d" % number * 40)])
        await store.flush_everything()
    for at in (noted, confirmed):
        if at:
            replica.confirm(placed[at - 1].end)
        if at == noted:
            store.note_confirmed()
    assert numbers(store) == list(range(confirmed))
    shutil.copytree(root / "runs", root / "killed")
    await store.close()
    return placed


@pytest.mark.parametrize("seed", range(12))
def test_what_was_not_confirmed_waits_after_a_kill_and_goes_on_in_its_place(tmp_path: Path, seed: int) -> None:
    """At any number of records, across files of the log and of the queues."""
    rng = random.Random(seed)
    count = rng.randrange(1, 250)
    confirmed = rng.randrange(count + 1)
    noted = rng.randrange(confirmed + 1)
    print(f"seed {seed}: {count} records, {confirmed} confirmed, {noted} of them noted")

    async def work() -> None:
        placed = await killed(tmp_path, count, confirmed, noted=noted)
        store, replica = open_waiting(tmp_path / "killed")
        try:
            seen = numbers(store)
            assert seen == list(range(len(seen))) and noted <= len(seen) <= confirmed
            assert len(list(store.scan(0))) == len(seen)
            assert len(store.query("Orders", "order-1", 64)) == min(len(seen), 64)
            (later,) = store.append([record("Orders", 0, b"%03d" % count * 40)])
            await store.flush_everything()
            assert later.log_offset == placed[-1].end or later.log_offset % 16384 == 0
            assert later.queue_offset == (count + 1) // 2
            replica.confirm(placed[-1].end)
            assert numbers(store) == list(range(count))
            replica.confirm(later.end)
            assert numbers(store) == list(range(count + 1)) == sorted(numbers(store))
        finally:
            await store.close()
        store, _ = open_waiting(tmp_path / "killed")
        assert numbers(store) == list(range(count + 1)), "behind an orderly end everything was confirmed"
        await store.close()

    run(work())


def test_without_others_everything_counts_and_is_confirmed_from_then_on(tmp_path: Path) -> None:
    async def work() -> None:
        await killed(tmp_path, 40, 10, noted=10)
        store, _ = open_waiting(tmp_path / "killed", waits=False)
        assert numbers(store) == list(range(40))
        shutil.copytree(tmp_path / "killed", tmp_path / "again")
        await store.close()
        store, _ = open_waiting(tmp_path / "again")
        assert numbers(store) == list(range(40)), "they were visible"
        await store.close()

    run(work())


def test_damage_among_what_waits_ends_the_wait_before_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The places of damaged records are kept free in queues, which end where something waits."""

    async def work() -> None:
        placed = await killed(tmp_path, 40, 10, noted=10)
        path = next((tmp_path / "killed" / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        data[placed[20].log_offset + 100] ^= 0xFF
        path.write_bytes(data)
        store, replica = open_waiting(tmp_path / "killed")
        assert "counts as confirmed" in caplog.text
        assert numbers(store) == list(range(20))
        replica.confirm(placed[-1].end)
        assert numbers(store) == [number for number in range(40) if number != 20]
        await store.close()

    run(work())


def test_the_note_of_what_is_confirmed_outlives_power_cuts() -> None:
    for seed in range(60):
        disk = SimDisk(seed)
        file = MarkFile(disk, "/gantry/mark")
        file.read()
        assert file.confirmed == ALONE
        file.keep_confirmed(100)
        file.note_confirmed(200)
        file.note_confirmed(300)
        disk = disk.power_cut()
        again = MarkFile(disk, "/gantry/mark")
        again.read()
        assert again.confirmed in (100, 200, 300), "never more than the truth, and never nothing"
        again.keep_confirmed(50)
        disk = disk.power_cut()
        last = MarkFile(disk, "/gantry/mark")
        last.read()
        assert last.confirmed == 50
        last.keep_confirmed(ALONE)
        disk = disk.power_cut()
        alone = MarkFile(disk, "/gantry/mark")
        alone.read()
        assert alone.confirmed == ALONE
