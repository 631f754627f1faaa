from __future__ import annotations

import pytest

from gantrymq.errors import DiskFull
from gantrymq.simulation.world.disk import SimDisk, SimFile
from gantrymq.simulation.world.disk_content import SECTOR
from gantrymq.store.files.segment import OpenFiles, Segment, segment_name


def segment(disk: SimDisk, base: int = 8192, size: int = 8192) -> Segment:
    made = Segment(OpenFiles(disk), "/", base, size)
    made.create(durable=True)
    return made


def test_a_file_is_named_by_its_first_position_and_made_at_full_size() -> None:
    disk = SimDisk()
    made = segment(disk)
    assert made.path == "/00000000000000008192" and segment_name(0) == "0" * 20
    assert disk.power_cut().size(made.path) == 8192


def test_positions_are_those_of_the_sequence() -> None:
    made = segment(SimDisk())
    made.write(8200, b"hello")
    assert made.read(8199, 7) == b"\0hello\0"
    assert made.read(16380, 100) == bytes(4)


def test_finding_what_is_not_zero() -> None:
    made = segment(SimDisk())
    assert made.next_nonzero(8192) is None
    made.write(9000, b"\0\0x")
    made.write(16383, b"y")
    assert [made.next_nonzero(at) for at in (8192, 9002, 9003, 16383)] == [9002, 9002, 16383, 16383]


def test_zeroing_touches_no_hole() -> None:
    disk = SimDisk()
    made = segment(disk)
    made.write(9000, b"x" * 10)
    made.write(15000, b"y" * 10)
    disk.free_bytes = 0
    assert made.zero(9005, 15005) == 10
    assert made.read(9000, 10) == b"x" * 5 + bytes(5) and made.read(15000, 10) == bytes(5) + b"y" * 5
    assert made.zero(8192) == 10 and made.next_nonzero(8192) is None
    with pytest.raises(DiskFull):
        made.write(12000, b"z" * SECTOR)


def test_only_so_many_files_stay_open_but_pinned_ones_do() -> None:
    disk = SimDisk()
    for name in "abcd":
        disk.open(f"/{name}", create=True)
    files = OpenFiles(disk, limit=2)
    pinned = files.pin("/a")
    first = files.get("/b")
    files.get("/c")
    files.get("/d")
    assert files.get("/a") is pinned and pinned.size() == 0
    with pytest.raises(ValueError, match="closed"):
        first.size()
    files.unpin("/a")
    files.forget("/a")
    with pytest.raises(ValueError, match="closed"):
        pinned.size()
    files.close()


def test_looking_for_what_is_not_zero_ends_where_somebody_cut_the_file_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the file system does not know its holes: then every place may hold something."""
    disk = SimDisk()
    made = segment(disk)
    made.write(9000, b"x")
    disk.open(made.path).truncate(100)
    asked = iter(range(100))
    monkeypatch.setattr(SimFile, "next_data", lambda _file, offset: next(asked) and offset)
    next(asked)
    assert made.next_nonzero(8192) is None and made.zero(8192) == 0
