from __future__ import annotations

from pathlib import Path

from gantrymq.runtime.disk import OsDisk
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.files.checkpoint import Checkpoint, CheckpointFile, Mark, MarkFile, read_checkpoint, read_mark
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


def test_the_position_of_the_mark_is_durable_whatever_became_of_the_notes_of_it() -> None:
    disk = SimDisk()
    file = MarkFile(disk, "/gantry/mark")
    file.note_flushed(900)
    file.write(Mark(500, 400, 300, 7))
    assert file.read()[0] == 900
    for data in disk.bytes_of("/gantry/mark"):
        data[:1] = data[512:513] = b"!"
    assert file.read() == (500, Mark(500, 400, 300, 7))


def test_a_bit_that_turns_over_takes_one_note_at_most() -> None:
    disk = SimDisk()
    file = MarkFile(disk, "/gantry/mark")
    for position in (900, 950, 990):
        file.note_flushed(position)
    whole = bytes(disk.bytes_of("/gantry/mark")[0])
    assert len(whole) == 524
    for at in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            assert read_mark(bytes(damaged))[0] in (950, 990)
    file.keep(1000)
    durable = bytes(disk.bytes_of("/gantry/mark")[1])
    assert read_mark(durable[:512])[0] == read_mark(bytes(512) + durable[512:])[0] == 1000


def test_the_older_note_is_written_over_also_by_the_next_process() -> None:
    disk = SimDisk()
    file = MarkFile(disk, "/gantry/mark")
    file.note_flushed(900)
    for position in (950, 990, 1010):
        again = MarkFile(disk, "/gantry/mark")
        before = again.read()[0]
        again.note_flushed(position)
        data = bytes(disk.bytes_of("/gantry/mark")[0])
        assert sorted((read_mark(data[:512])[0], read_mark(bytes(512) + data[512:])[0])) == [before, position]


def test_what_the_last_start_found_outlives_a_power_cut_that_tears_both_notes(tmp_path: Path) -> None:
    """Found by simulation, seed 19002648."""
    path = tmp_path / "gantry" / "mark"
    mark = MarkFile(OsDisk(), str(path))
    mark.keep(8_303)
    mark.note_flushed(8_988)
    mark.note_flushed(9_440)
    mark.close()
    with path.open("r+b") as file:
        for at in (4, 516):  # the checksum arrived, and the position did not
            file.seek(at)
            file.write(bytes(8))
    mark = MarkFile(OsDisk(), str(path))
    assert mark.read() == (8_303, None)
    mark.close()


def test_a_log_that_ends_earlier_than_before_leaves_no_higher_note(tmp_path: Path) -> None:
    path = tmp_path / "gantry" / "mark"
    for position in (8_303, 9_440, 1_017):
        mark = MarkFile(OsDisk(), str(path))
        mark.read()
        mark.keep(position)
        assert mark.kept == position
        mark.close()
        assert read_mark(path.read_bytes())[0] == position
