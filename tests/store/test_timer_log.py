"""The timer log: Apache's files are read, and ours are Apache's."""

from __future__ import annotations

import contextlib
import random
import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.errors import StoreFormatUnknown
from gantrymq.message.tags import java_hash
from gantrymq.runtime.disk import OsDisk
from gantrymq.simulation.world.disk import SimDisk, SimFile
from gantrymq.store.timer_log import BLANK_MAGIC, DELETE, TimerCheck, TimerCheckFile, TimerLog, Unit
from tests.golden.stores import unpack

FILE_BYTES = 52 * 5 + 20
"""Five units and the blank end."""


def unit(number: int, slot: int, magic: int = 1) -> Unit:
    return Unit(-1, magic, slot - 1000, 1000, number * 100, 100, 7)


def opened(disk: SimDisk, read_ms: int = 0) -> TimerLog:
    log = TimerLog(disk, "/timerlog", FILE_BYTES, 1000)
    log.recover(read_ms, lambda unit: True)
    return log


@pytest.mark.parametrize("name", ["5.5.0", "5.5.0-killed"])
def test_recorded_stores(tmp_path: Path, name: str) -> None:
    """One message was delivered, one waits for an hour."""
    root = unpack(name, tmp_path)
    log = TimerLog(OsDisk(), str(root / "timerlog"), 52000, 1000)
    check = TimerCheckFile(OsDisk(), str(root / "config/timercheck")).read()
    log.recover(check.read_ms, lambda unit: True)
    assert (check.queue_offset, log.end) == (2, 104)
    assert list(log.slots) == [1795225727000]
    (waiting,) = log.units(1795225727000)
    assert waiting == Unit(-1, 1, 1795222127000, 3_600_000, 19023, 349, java_hash("StoreDelay"))
    assert log.waiting == Counter({java_hash("StoreDelay"): 1})
    assert log.oldest(check.read_ms) == 19023


def test_units_and_blanks_as_bytes() -> None:
    disk = SimDisk()
    log = opened(disk)
    log.append([unit(number, 5000 if number % 2 else 6000) for number in range(7)])
    data = disk.open("/timerlog/00000000000000000000").read(FILE_BYTES, 0)
    assert data[:52].hex() == (
        "00000034ffffffffffffffff000000010000000000001388000003e800000000000000000000006400000007"
        "0000000000000000"
    )  # fmt: skip
    assert data[2 * 52 + 4 : 2 * 52 + 12] == bytes(8), "the third points to the first, which has its slot"
    assert data[5 * 52 :].hex() == "00000014" + "0000000000000000" + "cbd43194" + "00000000"
    assert BLANK_MAGIC == 0xCBD43194 - (1 << 32)
    assert [unit.log_offset for unit in log.units(6000)] == [0, 200, 400, 600]
    assert disk.list("/timerlog") == ["00000000000000000000", f"{FILE_BYTES:020d}"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(2, 7), st.booleans()), max_size=60), st.integers(0, 8), st.data())
def test_what_was_appended_is_read_again(slots: list[tuple[int, bool]], read: int, data: st.DataObject) -> None:
    disk = SimDisk()
    log = opened(disk)
    units = [unit(n, slot * 1000, 1 | DELETE * order) for n, (slot, order) in enumerate(slots, 1)]
    rest = list(units)
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        log.append(rest[:count])
        rest = rest[count:]
    again = opened(disk, read * 1000)
    assert again.end == log.end
    assert (again.last and again.last.log_offset) == (units[-1].log_offset if units else None)
    for slot in range(2, 8):
        wanted = [unit for unit in units if unit.time_ms == slot * 1000]
        assert [unit.log_offset for unit in log.units(slot * 1000)] == [unit.log_offset for unit in wanted]
        if slot >= read:
            assert again.units(slot * 1000) == log.units(slot * 1000)
    waiting = [unit for unit in units if unit.time_ms >= read * 1000]
    assert again.waiting[7] == sum(-1 if unit.magic & DELETE else 1 for unit in waiting)
    assert again.oldest(read * 1000) == (waiting[0].log_offset if waiting else None)
    for slot in list(again.slots):
        again.done(slot, again.units(slot))
    assert not again.slots and not again.waiting[7]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_leaves_a_beginning_with_whole_chains(seed: int) -> None:
    disk = SimDisk(seed)
    log = opened(disk)
    chance = random.Random(seed)
    units = [unit(number, chance.randrange(2, 5) * 1000) for number in range(1, 18)]
    log.append(units[:5])
    for file in log.unsynced():
        file.sync()
    for one in units[5:]:
        log.append([one])
    disk = disk.power_cut()
    known = {(unit.log_offset, unit.size, unit.time_ms) for unit in units}
    again = TimerLog(disk, "/timerlog", FILE_BYTES, 1000)
    again.recover(0, lambda unit: (unit.log_offset, unit.size, unit.time_ms) in known)
    found = sorted(unit.log_offset for slot in again.slots for unit in again.units(slot))
    assert found == [unit.log_offset for unit in units[: len(found)]] and len(found) >= 5
    again.append([unit(99, 2000)])
    assert again.units(2000)[-1].log_offset == 9900


def test_files_are_dropped_behind_retention_and_never_the_last() -> None:
    disk = SimDisk()
    log = opened(disk)
    log.append([unit(number, 5000) for number in range(12)])
    log.drop_before(400)
    assert len(disk.list("/timerlog")) == 3
    log.drop_before(401)
    assert len(disk.list("/timerlog")) == 2
    log.drop_before(1 << 40)
    assert len(disk.list("/timerlog")) == 1
    assert [unit.log_offset for unit in log.units(5000)] == [1000, 1100], "the chain ends where the files begin"
    again = opened(disk)
    assert again.units(5000) == log.units(5000)


def test_a_size_that_does_not_fit() -> None:
    disk = SimDisk()
    opened(disk).append([unit(1, 5000)])
    with pytest.raises(StoreFormatUnknown, match="mappedFileSizeTimerLog"):
        TimerLog(disk, "/timerlog", 1024, 1000)


def test_the_check_file() -> None:
    disk = SimDisk()
    disk.make_dirs("/config")
    file = TimerCheckFile(disk, "/config/timercheck")
    assert file.read() == TimerCheck()
    file.write(TimerCheck(1000, 5, 2000, 9))
    assert TimerCheckFile(disk, "/config/timercheck").read() == TimerCheck(1000, 5, 2000, 9)
    assert disk.size("/config/timercheck") == 4096
    disk = disk.power_cut()
    assert disk.exists("/config/timercheck"), "its name is durable from the start"


@pytest.mark.parametrize("started_before", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_whatever_bytes_the_files_hold_every_way_through_them_ends(
    seed: int, started_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who goes round in a circle reads for ever."""
    rng, left, read = random.Random(seed), iter(range(2000)), SimFile.read
    monkeypatch.setattr(SimFile, "read", lambda file, size, at: next(left) is not None and read(file, size, at))
    disk = SimDisk()
    log = opened(disk)
    log.append([unit(number, rng.randrange(1, 5) * 1000) for number in range(1, 40)])
    log = opened(disk) if started_before else log
    for name in disk.list("/timerlog"):
        content, _kept = disk.bytes_of(f"/timerlog/{name}")
        for _ in range(rng.choice([0, 1, 8])):
            at, size = rng.randrange(len(content)), rng.choice([1, 4, 8, 52])
            source = rng.randrange(len(content))
            new = rng.choice([rng.randbytes(size), bytes(size), content[source : source + size]])
            content[at : at + size] = new[: len(content) - at].ljust(min(size, len(content) - at), b"\0")
    log = log if started_before else opened(disk)
    for slot in list(log.slots):
        with contextlib.suppress(struct.error):  # a place where no unit can lie
            assert len(log.units(slot)) <= 40 * 52
    log.oldest(3000)
    log.drop_before(1000)


@pytest.mark.parametrize("seed", range(12))  # what a power cut takes is chance
def test_what_a_killed_process_left_is_durable_behind_the_first_sync(seed: int) -> None:
    disk = SimDisk(seed)
    log = opened(disk)
    log.append([unit(1, 5000)])
    disk = disk.process_dies()
    log = opened(disk)
    assert [one.log_offset for one in log.units(5000)] == [100]
    for file in log.unsynced():
        file.sync()
    log = opened(disk.power_cut())
    assert [one.log_offset for one in log.units(5000)] == [100]
