from __future__ import annotations

from pathlib import Path

from gantrymq.runtime.disk import OsDisk
from gantrymq.store.checkpoint import Checkpoint, CheckpointFile, Mark, MarkFile, read_checkpoint
from gantrymq.testing.disk import SimDisk
from tests.golden.stores import NAMES, expected, unpack


def test_apaches_checkpoints_are_read(tmp_path: Path) -> None:
    for name in NAMES:
        root = unpack(name, tmp_path)
        wanted = expected(name)["checkpoint"]
        found = read_checkpoint(OsDisk(), str(root / "checkpoint"))
        assert found == Checkpoint(
            wanted["physicMsgTimestamp"], wanted["logicsMsgTimestamp"], wanted["indexMsgTimestamp"],
            wanted["masterFlushedOffset"], wanted["confirmPhyOffset"],
        )  # fmt: skip


def test_what_is_written_is_read_and_has_apaches_size() -> None:
    disk = SimDisk()
    assert read_checkpoint(disk, "/checkpoint") is None
    file = CheckpointFile(disk, "/checkpoint")
    file.write(Checkpoint(1, 2, 3, 4, 5)).sync()
    file.close()
    assert read_checkpoint(disk, "/checkpoint") == Checkpoint(1, 2, 3, 4, 5) and disk.size("/checkpoint") == 4096
    disk.open("/short", create=True).write(b"x", 0)
    assert read_checkpoint(disk, "/short") is None


def test_a_mark_is_whole_or_not_there() -> None:
    for seed in range(60):
        disk = SimDisk(seed)
        file = MarkFile(disk, "/gantry/mark")
        assert file.read() == (0, None)
        file.note_flushed(100)
        file.write(Mark(90, 80, 70, 12345))
        assert file.read() == (100, Mark(90, 80, 70, 12345))
        disk.open("/gantry/mark").sync()
        disk.sync_dir("/gantry")
        disk.sync_dir("/")
        file.note_flushed(200)
        file.write(Mark(190, 180, 170, 54321))
        flushed, mark = MarkFile(disk.power_cut(), "/gantry/mark").read()
        assert flushed in (100, 200, 90, 190, 0) and mark in (Mark(90, 80, 70, 12345), Mark(190, 180, 170, 54321), None)


def test_the_position_of_the_mark_is_durable_whatever_became_of_the_note_of_it() -> None:
    disk = SimDisk()
    file = MarkFile(disk, "/gantry/mark")
    file.note_flushed(900)
    file.write(Mark(500, 400, 300, 7))
    assert file.read()[0] == 900
    for data in disk.bytes_of("/gantry/mark"):
        data[:1] = b"!"
    assert file.read() == (500, Mark(500, 400, 300, 7))
