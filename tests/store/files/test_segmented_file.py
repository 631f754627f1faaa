from __future__ import annotations

import pytest

from gantrymq.errors import DiskFull, InvariantViolated
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.files.segmented_file import SegmentedFile, list_segments


def sequence(disk: SimDisk, *, durable: bool = True) -> SegmentedFile:
    bases = list_segments(disk, "/files", 256, "size")
    return SegmentedFile(OpenFiles(disk), "/files", 256, bases, durable=durable)


def test_bytes_go_over_file_boundaries() -> None:
    disk = SimDisk()
    files = sequence(disk)
    assert (files.start, files.end, files.segment(0), files.read(0, 10)) == (0, 0, None, b"")
    touched = files.write(0, b"a" * 200)
    touched += files.write(200, b"b" * 400)
    assert [segment.base for segment in touched] == [0, 0, 256, 512]
    assert files.read(190, 100) == b"a" * 10 + b"b" * 90
    assert files.read(500, 9000) == b"b" * 100 + bytes(168)
    again = sequence(disk)
    assert (again.start, again.end, again.read(250, 10)) == (0, 768, b"b" * 10)


def test_a_sequence_may_start_behind_zero_and_grows_at_its_end_only() -> None:
    files = sequence(SimDisk())
    files.begin(512)
    files.write(600, b"x")
    assert (files.start, files.end, files.segment(511), files.segment(768)) == (512, 768, None, None)
    with pytest.raises(InvariantViolated):
        files.write(1024, b"x")
    with pytest.raises(InvariantViolated):
        files.begin(0)


def test_zeroing_from_a_position_removes_later_files_that_held_data() -> None:
    disk = SimDisk()
    files = sequence(disk)
    files.write(0, b"x" * 600)
    files.grow()
    assert files.zero_from(100) == 156 + 3 * 256
    assert (files.end, files.read(0, 256)) == (256, b"x" * 100 + bytes(156))
    files.grow()
    assert files.zero_from(100) == 0 and files.end == 512  # an empty file may lie there already


def test_dropping_never_takes_the_last_file() -> None:
    disk = SimDisk()
    files = sequence(disk)
    files.write(0, b"x" * 700)
    assert files.drop_before(511) == 1 and files.start == 256
    assert files.drop_before(9999) == 1 and files.start == 512
    assert disk.list("/files") == [f"{512:020d}"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_power_cut_leaves_no_gap_between_files(durable: bool) -> None:
    for seed in range(100):
        disk = SimDisk(seed)
        files = sequence(disk, durable=durable)
        for at in range(0, 1000, 100):
            files.write(at, b"x" * 100)
        after = disk.power_cut()
        assert sequence(after).end in ((1024,) if durable else (0, 256, 512, 768, 1024))


def test_when_the_disk_is_full_nothing_is_added() -> None:
    disk = SimDisk()
    files = sequence(disk)
    files.grow()
    disk.free_bytes = 0
    with pytest.raises(DiskFull):
        files.write(0, b"x")
    assert files.end == 256


def test_reading_over_the_end_of_a_file_that_somebody_cut_off_ends() -> None:
    disk = SimDisk()
    files = sequence(disk)
    files.write(0, b"x" * 700)
    disk.open(files.segments[0].path).truncate(100)
    assert files.read(50, 400) == b"x" * 50 and files.read(200, 100) == b""
