"""What is refused when a disk gets full, and the reserve for what is not."""

from __future__ import annotations

import pytest

from gantrymq.errors import DiskFull
from gantrymq.runtime.disk import Usage, read_whole, write_durably
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.layout import Layout
from gantrymq.store.reserve import BLOCK_BYTES, Reserve, ReservedDisk
from gantrymq.store.room import Facts, Level, Reason, Room, Use, base_of, level_of
from gantrymq.store.space import Space
from tests.support.places import run
from tests.support.sim_clock import SimClock

MIB = 1 << 20
TOTAL = 1024 * MIB
BASE = 16 * MIB


@pytest.mark.parametrize(
    ("free", "reserve", "need", "level", "reason"),
    [
        (512, 16, 0, Level.OPEN, Reason.RATIO),
        (103, 16, 0, Level.OPEN, Reason.RATIO),
        (102, 16, 0, Level.NO_MESSAGES, Reason.RATIO),
        (4, 16, 0, Level.NO_MESSAGES, Reason.RATIO),
        (200, 16, 190, Level.OPEN, Reason.RATIO),
        (200, 16, 197, Level.NO_MESSAGES, Reason.RESERVE),
        (0, 8, 0, Level.NO_MESSAGES, Reason.RATIO),
        (0, 7, 0, Level.NO_COPIES, Reason.RESERVE),
        (10, 16, 19, Level.NO_COPIES, Reason.RESERVE),
        (0, 4, 0, Level.NO_COPIES, Reason.RESERVE),
        (0, 3, 0, Level.NO_DECISIONS, Reason.RESERVE),
        (3, 0, 0, Level.NO_DECISIONS, Reason.RESERVE),
    ],
)
def test_what_is_refused_by_what_is_left(free: int, reserve: int, need: int, level: Level, reason: Reason) -> None:
    """In MiB."""
    usage = Usage(TOTAL, TOTAL - free * MIB, free * MIB)
    assert level_of(Facts(usage, reserve * MIB, BASE, need * MIB), 0.9) == (level, reason)


def test_without_a_reserve_only_messages_are_refused() -> None:
    for free in (0, 1, 50 * MIB):
        assert level_of(Facts(Usage(TOTAL, TOTAL - free, free), 0, 0, TOTAL), 0.9)[0] is Level.NO_MESSAGES
    assert level_of(Facts(Usage(TOTAL, 0, TOTAL), 0, 0, 2 * TOTAL), 0.9)[0] is Level.OPEN


def test_a_small_file_system_has_a_small_reserve() -> None:
    assert base_of(32 * MIB, Usage(TOTAL, 0, TOTAL)) == 32 * MIB
    assert base_of(32 * MIB, Usage(16 * MIB, 0, 16 * MIB)) == MIB
    assert base_of(0, Usage(TOTAL, 0, TOTAL)) == 0


def a_room(free: int, base: int = 16 * BLOCK_BYTES, limit: float = 1.0) -> tuple[SimDisk, SimClock, Room]:
    disk, clock = SimDisk(), SimClock()
    disk.make_dirs("/store")
    disk.free_bytes = free
    room = Room(Space(disk, Layout("/store")), clock, limit, Reserve(disk, "/store/gantry/reserve", base))
    room.look()
    return disk, clock, room


def test_the_reserve_is_taken_given_back_in_parts_and_taken_again() -> None:
    disk, _, room = a_room(1 * MIB)
    base, reserve = room.reserve.base, room.reserve
    assert reserve.size == base and disk.free_bytes == MIB - base and room.level is Level.OPEN
    disk.free_bytes = 0  # another program
    room.look()
    assert room.level is Level.NO_MESSAGES and room.closed is not None
    assert room.make_room(100) and disk.free_bytes == 2 * reserve.chunk
    assert reserve.size == base - 2 * reserve.chunk and reserve.given_back == 2 * reserve.chunk
    room.look()
    assert reserve.size == base - 2 * reserve.chunk, "what was given back is there for the next write"
    disk.free_bytes = MIB
    room.look()
    assert (reserve.size, room.level, room.closed) == (base, Level.OPEN, None)
    while reserve.release(1):
        pass
    assert reserve.size == 0 and reserve.release(1) == 0


def test_a_reserve_follows_what_open_transactions_need() -> None:
    _, _, room = a_room(1 * MIB)
    room.need = lambda: 200_000
    room.look()
    assert room.reserve.size >= room.reserve.base + 200_000
    room.need = lambda: 2 * MIB
    room.look()
    assert room.level is Level.NO_COPIES, "not even all of the disk would do"
    room.need = lambda: 0
    room.look()
    assert room.reserve.size == room.reserve.base and room.level is Level.OPEN


def test_own_writes_are_counted_between_two_looks() -> None:
    disk, _, room = a_room(1 * MIB)
    written = 0
    while room.level is Level.OPEN:
        assert disk.free_bytes is not None
        disk.free_bytes -= 10_000
        written += 10_000
        room.wrote(10_000)
    assert disk.free_bytes is not None and written > MIB // 2
    assert disk.free_bytes + room.reserve.size >= room.reserve.base
    with pytest.raises(DiskFull, match="gantry transactions list"):
        room.check(Use.MESSAGE)
    room.check(Use.COPY)
    room.check(Use.DECISION)
    assert room.refused["message", "reserve"] == 1


def test_a_quota_is_believed_although_the_file_system_has_room() -> None:
    _, _, room = a_room(1 * MIB)
    room.failed(100)
    with pytest.raises(DiskFull, match="quota"):
        room.check(Use.MESSAGE)
    assert not room.nearly_full, "no log file has to go because one write failed"


def test_small_files_get_the_space_of_the_reserve() -> None:
    disk, _, room = a_room(1 * MIB)
    disk.make_dirs("/store/config")
    files = ReservedDisk(disk)
    files.make_room = room.file_failed
    write_durably(files, "/store/config/topics.json", b"1" * 3000)
    disk.free_bytes = 0
    write_durably(files, "/store/config/topics.json", b"2" * 4000)
    assert read_whole(disk, "/store/config/topics.json") == b"2" * 4000
    assert room.reserve.given_back > 0
    while room.reserve.release(1):
        pass
    disk.free_bytes = 0
    with pytest.raises(DiskFull):
        write_durably(files, "/store/config/topics.json", b"3" * 5000)
    assert read_whole(disk, "/store/config/topics.json") == b"2" * 4000


def test_a_look_that_finds_room_is_made_soon() -> None:
    async def scenario() -> None:
        disk, clock, room = a_room(1 * MIB)
        disk.free_bytes = 0
        room.look()
        with pytest.raises(DiskFull):
            room.check(Use.MESSAGE)
        disk.free_bytes = MIB
        await clock.advance(1)
        room.check(Use.MESSAGE)

    run(scenario())
