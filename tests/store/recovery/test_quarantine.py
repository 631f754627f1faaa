"""How a store handles damage that is found only when the log is scanned or a queue is read."""

from __future__ import annotations

import contextlib
import logging
import random
import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pytest

from gantrymq.errors import GantryError
from gantrymq.protocol.stored_message import scan
from gantrymq.simulation.world.disk import SimDisk, SimFile
from gantrymq.store.message_store import MessageStore
from gantrymq.store.queues.consume_queue import ENTRY_BYTES
from gantrymq.store.recovery.quarantine import Quarantine
from gantrymq.store.values import Boundary, Placement
from tests.support.places import durable, open_store, record, run, small

COUNT: Final = 60
READS_MAX: Final = 20_000
"""More steps than any test here needs, so that a test that does not end fails."""

ENTRIES: Final = {
    "size too large": (8, b"\x7f"),
    "size negative": (8, b"\x80"),
    "size zero": (8, bytes(4)),
    "size a little larger": (11, b"\xff"),
    "size a little smaller": (11, b"\x01"),
    "size in the log": (8, struct.pack(">i", 4096)),
    "offset too large": (0, b"\x01"),
    "offset negative": (0, b"\x80"),
    "offset zero": (0, bytes(8)),
    "offset further on": (0, struct.pack(">q", 9000)),
    "offset behind the end": (0, struct.pack(">q", 16000)),
    "all of it": (0, b"\xff" * ENTRY_BYTES),
    "nothing left": (0, bytes(ENTRY_BYTES)),
}
"""Name of a damage to a queue entry to (place in it, bytes put there)."""
RECORDS: Final = {"size": (0, b"\xff"), "magic": (4, b"nope"), "body": (120, b"\xff\xff"), "zeros": (0, bytes(150))}
"""Likewise of a record."""


class Endless(BaseException):
    """Nothing catches it."""


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes round in a circle reads the same bytes again and again."""
    left = READS_MAX
    read = SimFile.read

    def counted(file: SimFile, size: int, offset: int) -> bytes:
        nonlocal left
        left -= 1
        assert size >= 0 and offset >= 0, "the system refuses such a read"
        if left < 0:
            raise Endless(f"still reading {file.path}, {size} bytes at {offset}")
        return read(file, size, offset)

    monkeypatch.setattr(SimFile, "read", counted)


async def filled(disk: SimDisk) -> list[Placement]:
    """A store of two queues, closed in order."""
    store = open_store(small("/store"), disk)
    placed = []
    for number in range(COUNT):
        body, text = b"%03d" % number * 40, f"KEYS\x01all k{number}\x02"
        placed += store.append([record("Orders", number % 2, body, properties=text)])
    assert await durable(store, placed) is None
    await store.close()
    return placed


def damage(disk: SimDisk, directory: str, file_size: int, position: int, data: bytes) -> None:
    observed, kept = disk.bytes_of(f"/store/{directory}/{position // file_size * file_size:020d}")
    at = position % file_size
    for content in (observed, kept):
        content[at : at + len(data)] = data


def damage_record(disk: SimDisk, place: Placement, what: str) -> None:
    at, data = RECORDS[what]
    damage(disk, "commitlog", 16384, place.log_offset + at, data)


def damage_entry(disk: SimDisk, number: int, what: str) -> None:
    """Of the message with that number of the story."""
    at, data = ENTRIES[what]
    damage(disk, f"consumequeue/Orders/{number % 2}", 400, number // 2 * ENTRY_BYTES + at, data)


def read_all(store: MessageStore) -> list[int]:
    """Log offsets of what consumers get."""
    found = []
    for queue in (0, 1):
        offset, end = store.queue_range("Orders", queue)
        while offset < end:
            answer = store.get("Orders", queue, offset, 8, 1 << 20)
            assert answer.next_offset > offset
            found += [message.log_offset for message in scan(answer.data)]
            offset = answer.next_offset
    return sorted(found)


def scanned(store: MessageStore) -> list[int]:
    return [message.log_offset for message in store.scan(0)]


@pytest.mark.parametrize("consumed_before", [False, True])
@pytest.mark.parametrize("victim", [0, 1, 21, COUNT - 1])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("what", RECORDS)
def test_a_walk_goes_on_behind_a_record_whose_queue_entry_is_damaged_too(
    what: str, entry: str, victim: int, consumed_before: bool
) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        others = [place.log_offset for place in placed if place is not placed[victim]]
        store = open_store(small("/store"), disk)
        damage_record(disk, placed[victim], what)
        damage_entry(disk, victim, entry)
        if consumed_before:  # an entry may name another record of that size: nobody can tell
            assert set(read_all(store)) == set(others)
        assert scanned(store) == others == scanned(store)
        assert store.earliest_store_time() == placed[victim == 0].store_timestamp

    run(scenario())


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("what", RECORDS)
def test_the_index_is_built_behind_such_a_record(what: str, entry: str) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        for name in disk.list("/store/index"):
            disk.remove(f"/store/index/{name}")
        store = open_store(small("/store"), disk)
        damage_record(disk, placed[20], what)
        damage_entry(disk, 20, entry)
        read_all(store)
        for number, place in enumerate(placed):
            found = [message.log_offset for message in store.query("Orders", f"k{number}", 5)]
            assert found == ([] if number == 20 else [place.log_offset])

    run(scenario())


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_damaged_entry_is_reported_as_one_and_its_record_is_none_that_is_damaged(
    entry: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        store = open_store(small("/store"), disk)
        damage_entry(disk, 20, entry)
        with caplog.at_level(logging.ERROR):
            for _ in range(2):
                read_all(store)
                assert scanned(store) == [place.log_offset for place in placed]
        assert "record at log offset" not in caplog.text
        reported = re.findall(r"entry 10 of queue 0 of Orders is damaged", caplog.text)
        assert len(reported) == (0 if entry in SILENT else 1)

    run(scenario())


SILENT: Final = {"offset negative", "all of it"}
"""What such an entry says lies before the log, where retention has been."""


def test_of_a_damaged_record_both_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        store = open_store(small("/store"), disk)
        damage_record(disk, placed[20], "body")
        with caplog.at_level(logging.ERROR):
            for _ in range(2):
                read_all(store), scanned(store)
            damage_entry(disk, 20, "size too large")
            for _ in range(2):
                read_all(store), scanned(store)
        assert caplog.text.count(f"record at log offset {placed[20].log_offset} is corrupt") == 1
        assert caplog.text.count("entry 10 of queue 0 of Orders is damaged") == 1
        assert len(caplog.records) == 2

    run(scenario())


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_search_by_time_goes_over_a_damaged_entry(entry: str) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        store = open_store(small("/store"), disk)
        for number in (0, 28, 30, 58):
            damage_entry(disk, number, entry)
        for boundary in Boundary:
            for time in (0, placed[0].store_timestamp, placed[-1].store_timestamp + 1):
                assert 0 <= store.offset_by_time("Orders", 0, time, boundary) <= COUNT // 2

    run(scenario())


@pytest.mark.parametrize("said", [0, 3, 1 << 40])
def test_a_selecting_reader_gets_on_whatever_queue_offset_a_record_says(said: int) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        store = open_store(small("/store"), disk)
        damage(disk, "commitlog", 16384, placed[20].log_offset + 20, struct.pack(">q", said))
        for room in (1, 1 << 20):
            answer = store.get("Orders", 0, 9, 2, room, wants=bool)
            assert answer.next_offset == 9 + answer.count
        assert store.get("Orders", 0, 10, 1, 1 << 20, wants=bool).next_offset == 11

    run(scenario())


def quarantine_of(store: MessageStore, ranges: dict[int, int]) -> Quarantine:
    return Quarantine(store._log, store._queues, ranges)


@pytest.mark.parametrize("known", [-1, 0, 4999, 5000])
def test_what_lies_behind_a_place_is_behind_it_whatever_was_known(known: int) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        await filled(disk)
        store = open_store(small("/store"), disk)
        quarantine = quarantine_of(store, {5000: known})
        expected = next(message.log_offset for message in store.scan(0) if message.log_offset > 5000)
        assert quarantine.behind(5000, store.max_log_offset) == expected
        assert quarantine.behind(5000, store.max_log_offset) == expected
        assert quarantine.behind(5001, 5002) == 5002
        assert quarantine_of(store, {5000: 5100}).behind(5000, 9999) == 5100

    run(scenario())


def test_a_store_that_is_damaged_all_over_still_ends() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        placed = await filled(disk)
        store = open_store(small("/store"), disk)
        for number, place in enumerate(placed):
            damage_record(disk, place, list(RECORDS)[number % len(RECORDS)])
            damage_entry(disk, number, list(ENTRIES)[number % len(ENTRIES)])
        assert read_all(store) == scanned(store) == [] and store.earliest_store_time() == -1
        assert await durable(store, store.append([record()])) is None
        assert len(scanned(store)) == 1

    run(scenario())


def files_of(disk: SimDisk, directory: str = "/store") -> Iterator[str]:
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if disk.is_dir(path):
            yield from files_of(disk, path)
        else:
            yield path


def spoil(disk: SimDisk, paths: list[str], rng: random.Random) -> None:
    """Bits turn over, pieces become zeros, become something else, or move to another place."""
    for path in rng.sample(paths, rng.randrange(1, len(paths) + 1)):
        for _ in range(rng.choice([1, 1, 4, 40])):
            contents = disk.bytes_of(path)
            size = len(contents[0])
            if not size:
                continue
            used = len(bytes(contents[0]).rstrip(b"\0")) or size
            at, length = rng.randrange(used), rng.choice([1, 1, 4, 8, 20, 200])
            source = rng.randrange(size)
            old = bytes(contents[0][at : at + length])
            flipped = bytes([old[0] ^ 1 << rng.randrange(8)]) + old[1:]
            moved = bytes(contents[0][source : source + len(old)]).ljust(len(old), b"\0")
            new = rng.choice([flipped, bytes(len(old)), rng.randbytes(len(old)), moved])
            for content in contents:
                content[at : at + len(new)] = new


def tried(step: Callable[[], object]) -> None:
    """A store may refuse what it finds, but it has to come to an end."""
    with contextlib.suppress(GantryError, struct.error):
        step()


def read_queues(store: MessageStore, rng: random.Random) -> None:
    for topic, queue in store.queues():
        wants = rng.choice([None, bool])
        offset, end = store.queue_range(topic, queue)
        while offset < end:
            try:
                following = store.get(topic, queue, offset, 8, 1 << 20, wants=wants).next_offset
            except (GantryError, struct.error):
                following = offset + 1
            assert following > offset
            offset = following
        time, boundary = rng.randrange(1 << 42), rng.choice(list(Boundary))
        tried(partial(store.offset_by_time, topic, queue, time, boundary))


def query(store: MessageStore, rng: random.Random) -> None:
    for number in range(0, COUNT, 7):
        tried(partial(store.query, "Orders", rng.choice(["all", f"k{number}"]), 64))


@pytest.mark.parametrize("seed", range(40))
def test_whatever_bytes_a_store_holds_every_way_through_it_ends(seed: int) -> None:
    rng = random.Random(seed)

    def use(store: MessageStore) -> None:
        ways = [
            lambda: scanned(store),
            store.earliest_store_time,
            lambda: read_queues(store, rng),
            lambda: query(store, rng),
        ]
        for way in rng.sample(ways, len(ways)):
            tried(way)

    async def scenario() -> None:
        disk = SimDisk(seed)
        placed = await filled(disk)
        if rng.random() < 0.5:
            disk.open("/store/abort", create=True)
        if rng.random() < 0.3:
            for name in disk.list("/store/index"):
                disk.remove(f"/store/index/{name}")
        store = open_store(small("/store"), disk) if rng.random() < 0.6 else None
        if rng.random() < 0.5:
            spoil(disk, [path for path in files_of(disk) if re.search("/commitlog/|/consumequeue/|/index/", path)], rng)
        for number in rng.sample(range(COUNT), rng.choice([0, 1, 2, 8])):
            damage_record(disk, placed[number], rng.choice(list(RECORDS)))
            damage_entry(disk, number, rng.choice(list(ENTRIES)))
        with contextlib.suppress(GantryError, struct.error):
            store = store or open_store(small("/store"), disk)
            for _ in range(2):
                use(store)
                assert await durable(store, store.append([record("Orders", 0)])) is None
            await store.close()

    run(scenario())
