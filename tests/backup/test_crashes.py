"""Backups and restores that end at each of their disk operations, by a power cut, SIGKILL or Ctrl-C; full disks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gantrymq.backup.reading import backups_in
from gantrymq.errors import BackupRefused, DiskFull, StoreFormatUnknown
from gantrymq.simulation.world.disk import PowerCut, SimDisk
from tests.backup.scene import Scene
from tests.support.places import durable, open_store, record, run, small

ROOT = Path("/machine")
COUNT = 120
After = Callable[[SimDisk], SimDisk]
ENDS = {"power cut": SimDisk.power_cut, "killed": SimDisk.process_dies}


class Interrupted(SimDisk):
    """Ctrl-C before the operation with the number ``at``; the disk itself goes on."""

    at = -1

    def happens(self) -> None:
        if self.operations == self.at:
            self.at = -1
            raise KeyboardInterrupt
        super().happens()


async def _filled(disk: SimDisk) -> Scene:
    """A closed store with some files of the log and a table."""
    scene = Scene(ROOT, disk)
    disk.make_dirs(str(scene.store / "config"))
    file = disk.open(str(scene.store / "config" / "topics.json"), create=True)
    file.write(b'{"topicConfigTable":{}}', 0)
    file.sync()
    disk.sync_dir(str(scene.store / "config"))
    await _add(scene)
    return scene


async def _add(scene: Scene) -> None:
    store = open_store(small(scene.store), scene.disk)
    for number in range(COUNT):
        await durable(store, store.append([record(body=b"%04d" % number * 50)]))
    await store.close()


def filled(disk: SimDisk) -> Scene:
    return run(_filled(disk))


def opened(scene: Scene, name: str) -> int:
    """Records that a broker finds there. Raises StoreFormatUnknown."""

    async def work() -> int:
        store = open_store(small(scene.root / name), scene.disk)
        found = sum(1 for _ in store.scan(store.min_log_offset))
        await store.close()
        return found

    return asyncio.run(work())


def operations(disk_after: Callable[[], SimDisk], work: Callable[[Scene], object]) -> range:
    """The numbers of the disk operations that ``work`` makes."""
    disk = disk_after()
    begin = disk.operations
    work(Scene(ROOT, disk))
    return range(begin, disk.operations)


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_backup_that_ends_anywhere_is_whole_or_not_there(end: str) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")

    def ready() -> SimDisk:
        scene = filled(SimDisk(seed))
        scene.take()
        run(_add(scene))
        assert isinstance(scene.disk, SimDisk)
        return scene.disk

    steps = len(operations(ready, lambda scene: scene.take()))
    assert steps > 20
    counts = set()
    for step in range(steps):
        disk = ready()
        disk.operations_left = step
        with pytest.raises(PowerCut):
            Scene(ROOT, disk).take()
        scene = Scene(ROOT, ENDS[end](disk))
        assert scene.problems() == [], step
        whole = backups_in(scene.target).whole
        counts.add(len(whole))
        assert whole[0].manifest.records == COUNT
        scene.take()
        assert scene.problems() == [], step
        assert scene.restore().records == 2 * COUNT
    assert counts >= {1}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_a_restore_that_ends_anywhere_is_whole_or_refused(end: str) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")

    def ready() -> SimDisk:
        scene = filled(SimDisk(seed))
        scene.take()
        assert isinstance(scene.disk, SimDisk)
        return scene.disk

    steps = len(operations(ready, lambda scene: scene.restore()))
    assert steps > 30
    outcomes = set()
    for step in range(steps):
        disk = ready()
        disk.operations_left = step
        with pytest.raises(PowerCut):
            Scene(ROOT, disk).restore()
        scene = Scene(ROOT, ENDS[end](disk))
        if not scene.disk.exists(str(ROOT / "restored" / "gantry")):
            assert not scene.disk.list(str(ROOT / "restored" / "commitlog")), step
            outcomes.add("nothing")
        else:
            try:
                assert opened(scene, "restored") in (COUNT, 0), step
                outcomes.add("whole")
                continue
            except StoreFormatUnknown:
                outcomes.add("refused")
        assert scene.restore().records == COUNT
        assert opened(scene, "restored") == COUNT
    assert outcomes >= {"nothing", "refused"}, outcomes


def interrupted(restoring: bool) -> Interrupted:
    scene = filled(Interrupted(1))
    if restoring:
        scene.take()
    assert isinstance(scene.disk, Interrupted)
    return scene.disk


@pytest.mark.slow
def test_ctrl_c_leaves_no_half_of_a_restore() -> None:
    for at in operations(lambda: interrupted(True), lambda scene: scene.restore()):
        disk = interrupted(True)
        disk.at = at
        scene = Scene(ROOT, disk)
        with pytest.raises(KeyboardInterrupt):
            scene.restore()
        if disk.list(str(ROOT / "restored")) not in ([], ["lock"]):  # it was over
            assert opened(scene, "restored") == COUNT
        else:
            assert scene.restore().records == COUNT


@pytest.mark.slow
def test_ctrl_c_leaves_no_half_of_a_backup() -> None:
    for at in operations(lambda: interrupted(False), lambda scene: scene.take()):
        disk = interrupted(False)
        disk.at = at
        scene = Scene(ROOT, disk)
        with pytest.raises(KeyboardInterrupt):
            scene.take()
        folders = [str(scene.backups / folder) for folder in ("log", "tables", "backups")]
        assert not [name for folder in folders for name in disk.list(folder) if name.endswith(".tmp")], at
        scene.take()
        assert scene.problems() == []


def test_a_full_disk_is_said_and_the_last_backup_stays() -> None:
    disk = SimDisk(3)
    scene = filled(disk)
    first = scene.take()
    run(_add(scene))
    disk.free_bytes = 4096
    with pytest.raises(DiskFull, match=r"no space left for /machine/backups/log/"):
        scene.take()
    assert [one.name for one in backups_in(scene.target).whole] == [first.stored.name]
    assert scene.problems() == []
    disk.total_bytes = 1 << 20
    with pytest.raises(DiskFull, match="has room for 40"):
        scene.restore()
    assert disk.list(str(ROOT / "restored")) == []
    disk.free_bytes = None
    disk.total_bytes = 1 << 40
    scene.take()
    assert scene.restore().records == 2 * COUNT


def test_a_second_backup_at_the_same_time_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    run(_filled_here(scene))
    target = scene.target
    with target.held(), pytest.raises(BackupRefused, match="another backup is being written to"):
        scene.take()
    scene.take()


async def _filled_here(scene: Scene) -> None:
    store = open_store(small(scene.store))
    await durable(store, store.append([replace(record(), body=b"one")]))
    await store.close()
