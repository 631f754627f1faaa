"""Which parts a backup has in common with the one before, and which backups a restore needs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.backup.manifest import LogPart, LogRange, Manifest, Stored, decode, encode
from gantrymq.backup.rules import check_lineage, choose, kept_parts
from gantrymq.errors import BackupDamaged, BackupRefused

FILE = 1000


def part(begin: int, end: int, first_ms: int = 0, last_ms: int = 0) -> LogPart:
    return LogPart(begin, end, f"{begin:032x}{end:032x}", 1, first_ms, last_ms)


def backup(taken_ms: int, *parts: LogPart) -> Stored:
    start, end = (parts[0].begin, parts[-1].end) if parts else (0, 0)
    log = LogRange(FILE, start, end, (), parts)
    manifest = Manifest(made_by="test", taken_ms=taken_ms, log=log, tables=())
    return Stored(encode(manifest)[0], manifest)


def timed(taken_ms: int, *times: int, start: int = 0) -> Stored:
    """A backup whose parts have one record each, stored at these times."""
    places = range(start, start + len(times) * 100, 100)
    return backup(taken_ms, *(part(at, at + 100, time, time) for at, time in zip(places, times, strict=True)))


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogPart, ...]:
    """Parts that follow each other, none of them over the end of a file."""
    position = draw(st.integers(0, 3)) * FILE
    parts = []
    for length in draw(st.lists(st.integers(1, FILE), max_size=12)):
        end = min(position + length, position - position % FILE + FILE)
        parts.append(part(position, end))
        position = end
    return tuple(parts)


@given(logs(), st.integers(0, 8), st.data())
def test_kept_parts_follow_each_other_and_are_all_there(
    parts: tuple[LogPart, ...], dropped: int, data: st.DataObject
) -> None:
    lost = data.draw(st.sets(st.sampled_from(parts))) if parts else set()
    start = (parts[0].begin if parts else 0) + dropped * FILE
    sizes = {one.name: one.size for one in parts if one not in lost}
    before = LogRange(FILE, parts[0].begin if parts else 0, parts[-1].end if parts else 0, (), parts)
    kept = kept_parts(before, FILE, start, sizes)
    position = start
    for one in kept:
        assert one.begin == position and one.name in sizes
        position = one.end
    following = next((one for one in parts if one.begin == position), None)
    assert following is None or following in lost, "nothing that could be kept is sent again"


def test_an_object_of_another_size_is_sent_again() -> None:
    one, two = part(0, 10), part(10, 20)
    before = LogRange(FILE, 0, 20, (), (one, two))
    assert kept_parts(before, FILE, 0, {one.name: 10, two.name: 9}) == (one,)
    assert kept_parts(before, FILE * 2, 0, {one.name: 10, two.name: 10}) == ()
    assert kept_parts(None, FILE, 0, {}) == ()


def test_a_log_that_is_shorter_or_has_other_files_is_another_one() -> None:
    before = LogRange(FILE, 0, 500, (), (part(0, 500),))
    check_lineage(before, FILE, 500, "/store")
    with pytest.raises(BackupRefused, match=r"the log of /store ends at offset 499, and the one in the target at 500"):
        check_lineage(before, FILE, 499, "/store")
    with pytest.raises(BackupRefused, match="have 2000 bytes, and those in the target 1000"):
        check_lineage(before, 2000, 500, "/store")


def test_the_newest_backup_without_a_time() -> None:
    old, new = timed(10, 5), timed(20, 5, 15)
    choice = choose([new, old], None)
    assert (choice.log, choice.tables, choice.is_cut) == (new, new, False)
    with pytest.raises(BackupRefused, match="there is no backup"):
        choose([], None)


def test_a_clock_that_was_set_back_does_not_change_which_one_is_newest() -> None:
    old, new = timed(2000, 5), timed(20, 5, 15)
    assert choose([old, new], None).log is new


def test_a_time_between_two_backups_takes_the_log_of_the_later_and_the_positions_of_the_earlier() -> None:
    first, second, third = timed(10, 5), timed(20, 5, 15), timed(30, 5, 15, 25)
    for at, log, tables in ((12, second, first), (15, third, first), (20, third, second), (24, third, second)):
        choice = choose([first, second, third], at)
        assert (choice.log, choice.tables, choice.at_ms) == (log, tables, at), at
        assert choice.is_cut
    choice = choose([first, second, third], 30)
    assert (choice.log, choice.tables, choice.is_cut) == (third, third, False)
    choice = choose([first, second, third], 27)
    assert (choice.log, choice.tables, choice.at_ms, choice.is_cut) == (third, second, None, True)


def test_times_of_which_nothing_is_known_are_refused() -> None:
    first, second = timed(1000, 500), timed(2000, 500, 1500)
    with pytest.raises(BackupRefused, match=r"the newest backup is of 1970-01-01T00:00:02.000\+00:00"):
        choose([first, second], 2001)
    with pytest.raises(BackupRefused, match=r"the first backup is of 1970-01-01T00:00:01\.000"):
        choose([first, second], 999)
    late = timed(3000, 2500, start=5 * FILE)
    with pytest.raises(BackupRefused, match=r"records of .*02.200.* are in no backup"):
        choose([first, second, late], 2200)


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=5), st.integers(0, 100))
def test_positions_are_never_behind_the_cut(steps: list[list[int]], percent: int) -> None:
    """Backups of one growing log: each one adds records, some time after the last one."""
    now, times, made = 1, [], []
    for more in steps:
        for wait in more:
            now += wait
            times.append(now)
        made.append(timed(now + 1, *times))
        now += 2
    first, last = made[0].manifest.taken_ms, made[-1].manifest.taken_ms
    at_ms = first + (last - first) * percent // 100
    choice = choose(made, at_ms)
    cut = next((index for index, time in enumerate(times) if time > at_ms), len(times)) * 100
    assert choice.tables.manifest.log.end <= cut <= choice.log.manifest.log.end
    assert choice.tables.manifest.taken_ms <= at_ms


def test_a_manifest_that_was_changed_is_noticed() -> None:
    name, data = encode(timed(10, 5).manifest)
    assert decode(name, data) == timed(10, 5).manifest
    for at in range(len(data)):
        with pytest.raises(BackupDamaged):
            decode(name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(BackupDamaged, match="its bytes are not those"):
        decode(name, data[:-1])


def test_a_later_format_is_refused() -> None:
    later = Manifest(format=2, made_by="gantry 9", taken_ms=0, log=LogRange(0, 0, 0), tables=())
    name, data = encode(later)
    with pytest.raises(BackupDamaged, match="has format 2, and this program reads 1: use a newer gantry"):
        decode(name, data)
