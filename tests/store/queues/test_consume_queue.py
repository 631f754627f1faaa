from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.files.segment import OpenFiles
from gantrymq.store.queues.consume_queue import BLANK_SIZE, ENTRY, ConsumeQueue
from gantrymq.store.queues.queue_table import QueueTable, list_queues


def queue(disk: SimDisk, bases: list[int] | None = None) -> ConsumeQueue:
    return ConsumeQueue(OpenFiles(disk), "/T/0", 100, "T", 0, bases or [])


def again(disk: SimDisk) -> ConsumeQueue:
    return queue(disk, list_queues(disk, "/", 100)["T", 0])


def fill(made: ConsumeQueue, count: int, size: int = 10) -> None:
    for _ in range(count):
        number = made.max_offset
        made.add(number, number * size, size, number)


@given(st.lists(st.sampled_from(["add", "add", "add", "write"]), max_size=60), st.data())
def test_entries_read_the_same_wherever_they_lie(actions: list[str], data: Any) -> None:
    disk = SimDisk()
    made = queue(disk)
    for action in actions:
        if action == "add":
            fill(made, 1)
        else:
            made.write_out()
    count = actions.count("add")
    assert (made.start_offset, made.max_offset, made.next_offset) == (0, count, count)
    wanted = b"".join(ENTRY.pack(number * 10, 10, number) for number in range(count))
    first, length = data.draw(st.integers(0, 70)), data.draw(st.integers(0, 70))
    assert made.raw(first, length) == wanted[first * 20 : (first + length) * 20]
    if made.write_out() or count:
        loaded = again(disk)
        loaded.load(1 << 60)
        assert loaded.raw(0, 100) == wanted and loaded.next_offset == count


def test_repeats_are_ignored_and_gaps_filled_with_entries_that_stand_for_nothing() -> None:
    disk = SimDisk()
    made = queue(disk)
    made.add(0, 0, 10, 1)
    made.add(0, 5, 5, 5)
    made.add(3, 40, 10, 2)
    assert (made.max_offset, made.entry(1), made.entry(2)) == (4, None, None)
    assert made.entry(3) == (40, 10, 2) and made.entry(0) == (0, 10, 1) and made.entry(4) is None
    assert made.first_at(0) == 0 and made.first_at(40) in (1, 2, 3) and made.first_at(41) == 4
    last = made.last_entry()
    assert last is not None and last.log_offset == 40


def test_a_queue_that_begins_late_begins_in_its_file_with_blank_entries() -> None:
    disk = SimDisk()
    made = queue(disk)
    made.add(7, 1000, 10, 0)
    assert (made.start_offset, made.max_offset, made.min_offset(1000)) == (5, 8, 7)
    made.write_out()
    assert disk.list("/T/0") == [f"{100:020d}"]
    assert disk.open(f"/T/0/{100:020d}").read(40, 0) == ENTRY.pack(0, BLANK_SIZE, 0) * 2


def test_loading_takes_an_unbroken_beginning_and_the_rest_is_zeroed() -> None:
    disk = SimDisk()
    made = queue(disk)
    fill(made, 12)
    made.write_out()
    loaded = again(disk)
    loaded.load(75)
    assert (loaded.max_offset, loaded.entry(7), loaded.entry(8)) == (8, (70, 10, 7), None)
    loaded.add(8, 500, 10, 9)
    loaded.write_out()
    assert loaded.drop_stale() > 0
    third = again(disk)
    third.load(1 << 60)
    assert third.max_offset == 9 and third.entry(8) == (500, 10, 9)


def test_the_minimum_follows_the_log_and_files_of_removed_records_go() -> None:
    disk = SimDisk()
    made = queue(disk)
    fill(made, 23)
    made.write_out()
    assert [made.min_offset(start) for start in (0, 1, 120, 125, 9999)] == [0, 1, 12, 13, 23]
    assert made.drop_before(125) == 2 and made.start_offset == 10
    assert made.raw(9, 5) == b"" and made.entry(13) == (130, 10, 13) and made.entry(9) is None
    assert made.drop_before(9999) == 2 and made.min_offset(9999) == 23
    fill(made, 2)
    made.write_out()
    assert made.entry(24) == (240, 10, 24)


def test_a_table_makes_queues_on_first_use() -> None:
    table = QueueTable(OpenFiles(SimDisk()), "/queues", 100)
    assert table.get(("T", 1)) is None
    made = table.make("T", 1)
    assert table.make("T", 1) is made is table.get(("T", 1)) and made.directory == "/queues/T/1" and made.is_new
