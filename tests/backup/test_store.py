"""Backups of a store without a broker: every byte of the log, damage, and what a restore makes of it."""

from __future__ import annotations

import asyncio
import gc
import shutil
import tracemalloc
from pathlib import Path

import pytest

from gantrymq.backup import live_store
from gantrymq.backup.pruning import prune
from gantrymq.backup.restoring import Restoring
from gantrymq.backup.target import DirectoryTarget
from gantrymq.errors import BackupDamaged, BackupRefused, StoreFormatUnknown
from gantrymq.runtime.clock import SystemClock
from gantrymq.store.layout import Layout
from gantrymq.store.message_store import MessageStore
from tests.backup.scene import Scene, flipped, objects, parts_of
from tests.support.places import durable, open_store, record, run, small


async def filled(scene: Scene, count: int, queue_id: int = 0) -> MessageStore:
    """An open store with so many more messages."""
    store = open_store(small(scene.store))
    await more(store, count, queue_id)
    return store


async def more(store: MessageStore, count: int, queue_id: int = 0) -> None:
    for number in range(count):
        await durable(store, store.append([record(queue_id=queue_id, body=b"%04d" % number * 20)]))


async def bodies(scene: Scene, name: str = "restored") -> list[bytes]:
    store = open_store(small(scene.root / name))
    found = [message.body for message in store.scan(store.min_log_offset)]
    await store.close()
    return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_backup_of_an_open_store_has_all_of_its_log(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 200)
        taken = scene.take()
        assert taken.stored.manifest.records == 200
        assert taken.stored.manifest.log.end == store.appended
        assert len(parts_of(taken.stored.manifest)) == len(list((scene.store / "commitlog").iterdir())) > 2
        restored = scene.restore()
        assert (restored.records, restored.end) == (200, store.appended)
        assert scene.log("restored") == scene.log()
        await store.close()
        assert await bodies(scene) == await bodies(scene, "store")

    run(work())
    assert scene.problems() == []


def test_the_next_backup_sends_only_what_is_new(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 100)
        first = scene.take()
        again = scene.take()
        assert again.sent_bytes == 0
        assert again.stored.manifest.log == first.stored.manifest.log
        await more(store, 10)
        second = scene.take()
        begin = first.stored.manifest.log.end
        assert second.sent_bytes == store.appended - begin
        assert parts_of(second.stored.manifest)[: len(parts_of(first.stored.manifest))] == parts_of(
            first.stored.manifest
        )
        assert scene.restore().records == 110
        assert scene.restore("older", backup_id=first.stored.id).records == 100
        await store.close()

    run(work())


def test_a_part_that_is_gone_is_noticed_and_sent_again(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 100)
        scene.take()
        victim = objects(scene)[-2]
        assert "log" in str(victim)
        victim.unlink()
        assert [text for _, text in scene.problems()] == [f"log/{victim.name} is missing in {scene.backups}"]
        with pytest.raises(BackupDamaged, match="is missing"):
            scene.restore()
        assert not (scene.root / "restored" / "commitlog").exists()
        scene.take()
        assert scene.problems() == []
        await store.close()

    run(work())


def test_every_damaged_byte_of_a_backup_is_noticed(scene: Scene) -> None:
    async def work() -> None:
        (scene.store / "config").mkdir(parents=True)
        (scene.store / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
        store = await filled(scene, 30)
        scene.take()
        await store.close()

    run(work())
    assert scene.problems() == []
    files = objects(scene)
    assert {file.parent.name for file in files} == {"backups", "log", "tables"}
    tried = 0
    for file in files:
        size = file.stat().st_size
        for at in {0, 1, size // 3, size // 2, size - 2, size - 1}:
            with flipped(file, at):
                assert scene.problems(), (file, at)
                with pytest.raises((BackupDamaged, BackupRefused)):
                    scene.restore("never")
                tried += 1
    assert tried > 15
    assert scene.problems() == []


def test_a_damaged_record_is_copied_as_it_is_and_passed_over(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 100)
        place = store.entry("Orders", 0, 40)
        assert place is not None
        await store.close()
        file = scene.store / "commitlog" / f"{place.log_offset // 16384 * 16384:020d}"
        with flipped(file, place.log_offset % 16384 + 100):
            taken = scene.take()
            assert taken.stored.manifest.log.damaged == ((place.log_offset, place.log_offset + place.size),)
            assert taken.stored.manifest.records == 99
            assert scene.problems() == []
            scene.restore()
            assert scene.log("restored") == scene.log()
        found = await bodies(scene)
        assert len(found) == 99

    run(work())


def test_another_store_is_not_mixed_into_the_target(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 50)
        scene.take()
        await store.close()
        shutil.rmtree(scene.store)
        store = await filled(scene, 10)
        with pytest.raises(BackupRefused, match="Give it a new target"):
            scene.take()
        await more(store, 60)
        with pytest.raises(BackupRefused, match="has other bytes"):
            scene.take()
        await store.close()

    run(work())
    assert scene.restore().records == 50


def test_the_log_ends_before_the_first_later_record(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 3)
        first = scene.take().stored.manifest
        await asyncio.sleep(0.02)
        await more(store, 4)
        at = max(message.store_timestamp for message in store.scan(store.min_log_offset))
        await asyncio.sleep(0.02)
        await more(store, 90)
        scene.take()
        assert first.last_ms < at
        restored = scene.restore(at_ms=at)
        assert (restored.records, restored.last_ms) == (7, at)
        assert (restored.tables.manifest, restored.log.manifest == first) == (first, False)
        await store.close()
        assert await bodies(scene) == (await bodies(scene, "store"))[:7]

    run(work())


def test_a_restore_needs_an_empty_directory(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 3)
        scene.take()
        await store.close()

    run(work())
    (scene.root / "full").mkdir()
    (scene.root / "full" / "note.txt").write_text("mine")
    with pytest.raises(BackupRefused, match=r"is not empty: it has note\.txt"):
        scene.restore("full")
    assert [path.name for path in (scene.root / "full").iterdir()] == ["note.txt"]
    scene.restore()
    with pytest.raises(BackupRefused, match="is not empty"):
        scene.restore()


def test_no_broker_starts_on_a_restore_that_did_not_end(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 40)
        scene.take()
        await store.close()

    run(work())
    scene.restore()
    half = scene.root / "restored"
    (half / "gantry" / "restoring").touch()
    with pytest.raises(StoreFormatUnknown, match="Run gantry restore again"):
        open_store(small(half))
    (half / "commitlog" / "00000000000000000000").write_bytes(b"half of it")
    assert scene.restore().records == 40
    assert scene.log("restored") == scene.log()


def test_an_empty_store_and_no_store(scene: Scene) -> None:
    with pytest.raises(StoreFormatUnknown, match="is not the directory of a store"):
        scene.take()
    with pytest.raises(BackupRefused, match="there is no backup"):
        scene.restore()
    (scene.store / "config").mkdir(parents=True)
    (scene.store / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    assert scene.take().stored.manifest.records == 0
    assert scene.restore().records == 0
    assert (scene.root / "restored" / "config" / "topics.json").exists()


class Deleting(DirectoryTarget):
    """While the first part of the log is stored, the broker deletes old files."""

    def __init__(self, scene: Scene, store: MessageStore) -> None:
        super().__init__(scene.disk, str(scene.backups))
        self._store = store
        self.deleted = 0

    def write(self, name: str, data: bytes) -> None:
        super().write(name, data)
        if name.startswith("log/") and not self.deleted:
            self.deleted = self._store.delete_expired(SystemClock().wall_ms() + 10**9, 0, self._store.appended)


def test_files_that_are_deleted_meanwhile_are_left_out(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 300)
        target = Deleting(scene, store)
        taken = scene.take(target).stored.manifest
        assert target.deleted > 1
        assert taken.log.start == store.min_log_offset > 0
        restored = scene.restore()
        assert (restored.end, restored.records) == (store.appended, taken.records)
        await store.close()
        assert await bodies(scene) == await bodies(scene, "store")
        assert len(await bodies(scene)) == taken.records

    run(work())
    assert scene.problems() == []


def test_parts_end_behind_records(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of a part: the same log comes back."""

    async def work() -> None:
        store = await filled(scene, 60)
        for size in (1, 300, 1000, 5000):
            monkeypatch.setattr(live_store, "PART_BYTES", size)
            target = DirectoryTarget(scene.disk, str(scene.root / f"backups-{size}"))
            log = scene.take(target).stored.manifest.log
            assert len(log.parts) >= (log.end - log.start) // 16384 + 1
            assert size > 1000 or len(log.parts) > 10
            Restoring(scene.disk, Layout(str(scene.root / f"restored-{size}")), target).restore()
            assert scene.log(f"restored-{size}") == scene.log()
        await store.close()

    run(work())


def test_old_backups_go_with_what_only_they_need(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 300)
        old = scene.take().stored
        store.delete_expired(SystemClock().wall_ms() + 10**9, 0, store.appended)
        await more(store, 20)
        await asyncio.sleep(0.01)
        now_ms = SystemClock().wall_ms()
        new = scene.take().stored
        (scene.backups / "log" / "left-by-an-interrupt").touch()
        files = objects(scene)
        shown = prune(scene.target, now_ms, dry_run=True)
        assert objects(scene) == files
        assert ([one.id for one in shown.backups], shown.objects > 2) == ([old.id], True)
        assert prune(scene.target, now_ms, dry_run=False) == shown
        assert len(objects(scene)) == len(files) - 1 - shown.objects
        assert scene.problems() == []
        assert scene.restore().records == new.manifest.records
        again = prune(scene.target, now_ms + 10**9, dry_run=False)
        assert (again.backups, again.objects) == ([], 0), "the newest one stays"
        manifest = scene.backups / new.name
        with flipped(manifest, 30), pytest.raises(BackupRefused, match="nothing is deleted"):
            prune(scene.target, now_ms, dry_run=False)
        await store.close()

    run(work())


class Pruned(DirectoryTarget):
    """Somebody deletes an object while a backup is taken, as it may happen in a bucket."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.disk, str(scene.backups))
        self.deleted = ""

    def write(self, name: str, data: bytes) -> None:
        super().write(name, data)
        if name.startswith("log/") and not self.deleted:
            self.deleted = name
        elif self.deleted and name.startswith("log/"):
            self.remove(self.deleted)
            self.deleted = "done"


def test_an_object_that_is_deleted_meanwhile_is_stored_again(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 100)
        target = Pruned(scene)
        scene.take(target)
        assert target.deleted == "done"
        assert scene.problems() == []
        assert scene.restore().records == 100
        await store.close()

    run(work())


@pytest.mark.slow
def test_a_backup_does_not_hold_the_log_in_memory(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    mib = 1 << 20
    monkeypatch.setattr(live_store, "PART_BYTES", mib)

    async def work() -> int:
        store = open_store(small(scene.store, mapped_file_size_commit_log=8 * mib))
        for _ in range(24):
            await durable(store, store.append([record(body=bytes(60_000)) for _ in range(17)]))
        gc.collect()
        gc.disable()  # nothing may wait for it: a part is tens of MB
        tracemalloc.start()
        try:
            taken = scene.take()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            gc.enable()
        assert taken.sent_bytes > 20 * mib
        await store.close()
        return peak

    assert run(work()) < 8 * mib


def test_an_older_backup_does_not_silently_take_the_place_of_a_damaged_one(scene: Scene) -> None:
    async def work() -> None:
        store = await filled(scene, 10)
        old = scene.take().stored
        await more(store, 10)
        new = scene.take().stored
        await store.close()
        with flipped(scene.backups / new.name, 50):
            with pytest.raises(BackupDamaged, match="Name a whole backup with --backup"):
                scene.restore()
            assert scene.restore(backup_id=old.id).records == 10

    run(work())
