"""Bytes of another log: their places, what is refused, and logs that are cut. Whole histories by chance:
``tests/simulation/replica``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gantrymq.errors import CorruptRecord, StoreError, StoreUnavailable
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetStatus
from tests.support.places import HOST, durable, open_store, record, run, small
from tests.support.safety import LateReplica
from tests.support.sim_clock import SimClock, settle

ROOT = "/data/store"


def pair(work: Callable[[MessageStore, MessageStore, SimClock], Awaitable[None]]) -> None:
    """A store with 60 records in several files, and an empty one that follows it."""

    async def scenario() -> None:
        clock = SimClock()
        primary, replica = (open_store(small(ROOT), SimDisk(), clock) for _ in range(2))
        for number in range(60):
            text = f"KEYS\x01k{number}\x02"
            await durable(primary, primary.append([record(queue_id=number % 2, body=b"x" * 500, properties=text)]))
        replica.follow("it is a replica")
        await work(primary, replica, clock)

    run(scenario())


def log_of(store: MessageStore, start: int = 0, end: int | None = None) -> bytes:
    return store._log.files.read(start, (store.written if end is None else end) - start)


def test_a_log_fed_in_pieces_is_equal_and_read_like_the_other_one() -> None:
    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        data = log_of(primary)
        for at in range(0, len(data), 777):
            assert replica.next_raw == at
            replica.append_raw(at, data[at : at + 777])
        await replica.flush_everything()
        assert (log_of(replica), replica.max_log_offset) == (data, primary.max_log_offset)
        for queue_id in range(2):
            ours, theirs = (store.get("Orders", queue_id, 0, 100, 1 << 20) for store in (replica, primary))
            assert (ours.data, ours.count, ours.max_offset) == (theirs.data, 30, 30)
        assert [found.log_offset for found in replica.query("Orders", "k7", 5)] == [
            found.log_offset for found in primary.query("Orders", "k7", 5)
        ]

    pair(work)


def test_bytes_for_another_place_are_refused_and_change_nothing() -> None:
    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        data = log_of(primary)
        replica.append_raw(0, data[:1000])
        for place in (0, 999, 1001, 5000):
            with pytest.raises(StoreError, match="belong to offset 1000"):
                replica.append_raw(place, data[place : place + 10])
        replica.append_raw(1000, data[1000:])
        await replica.flush_everything()
        assert log_of(replica) == data

    pair(work)


@pytest.mark.parametrize("at", [0, 4, 8, 24, 28, 84, 90])
def test_a_broken_record_is_refused_behind_those_before_it(at: int) -> None:
    """At each field that can be checked; the record before it is taken."""

    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        data = bytearray(log_of(primary))
        size = int.from_bytes(data[:4], "big")
        data[size + at] ^= 0x40
        with pytest.raises(CorruptRecord):
            replica.append_raw(0, bytes(data[: 3 * size]))
        assert replica.appended == replica.next_raw == size
        replica.append_raw(size, log_of(primary, size))
        await replica.flush_everything()
        assert log_of(replica) == log_of(primary)

    pair(work)


def test_a_store_that_follows_takes_no_records_of_its_own_and_others_no_bytes() -> None:
    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        with pytest.raises(StoreUnavailable, match="it is a replica"):
            replica.append([record()])
        with pytest.raises(StoreError, match="only while the store follows"):
            primary.append_raw(primary.next_raw, b"")
        with pytest.raises(StoreError, match="only while the store follows"):
            await primary.truncate(0)
        replica.append_raw(0, log_of(primary)[:3000])
        replica.lead()
        placed = replica.append([record()])
        assert await durable(replica, placed) is None
        with pytest.raises(StoreError):
            replica.append_raw(replica.next_raw, log_of(primary)[:10])

    pair(work)


def test_an_empty_log_begins_where_a_file_of_the_other_one_begins() -> None:
    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        start = primary._log.files.segments[1].base
        with pytest.raises(StoreError):
            replica.append_raw(start + 100, log_of(primary, start + 100))
        replica.append_raw(start, log_of(primary, start))
        await replica.flush_everything()
        assert log_of(replica, start) == log_of(primary, start)
        first, end = replica.queue_range("Orders", 0)
        assert 0 < first < end == 30
        theirs = primary.get("Orders", 0, first, 100, 1 << 20)
        assert replica.get("Orders", 0, first, 100, 1 << 20).data == theirs.data

    pair(work)


def test_a_cut_takes_everything_behind_it_and_the_log_goes_on_from_there() -> None:
    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        data = log_of(primary)
        replica.append_raw(0, data)
        await replica.flush_everything()
        await clock.advance(7)
        heard: list[int] = []
        replica.truncating.append(heard.append)
        entry = primary.entry("Orders", 1, 10)
        assert entry is not None
        cut = asyncio.ensure_future(replica.truncate(entry.log_offset))
        while not cut.done():
            await settle()
            await clock.advance(0.1)
        await cut
        assert heard == [entry.log_offset] == [replica.max_log_offset] == [replica.appended]
        assert replica.queue_range("Orders", 0) == (0, 11) and replica.queue_range("Orders", 1) == (0, 10)
        assert replica.get("Orders", 1, 20, 1, 100).status is GetStatus.OFFSET_OVERFLOW_BADLY
        assert replica.read(entry.log_offset) is None and replica.query("Orders", "k50", 5) == []
        replica.append_raw(entry.log_offset, data[entry.log_offset :])
        await replica.flush_everything()
        assert log_of(replica) == data and len(replica.query("Orders", "k50", 5)) == 1

    pair(work)


def test_a_log_is_not_cut_inside_of_a_record() -> None:
    async def work(primary: MessageStore, replica: MessageStore, clock: SimClock) -> None:
        replica.append_raw(0, log_of(primary))
        for place in (1, 100, replica.appended + 1, -1):
            with pytest.raises(StoreError):
                await replica.truncate(place)
        assert log_of(replica) == log_of(primary)

    pair(work)


def test_what_was_confirmed_behind_a_cut_counts_no_longer() -> None:
    async def scenario() -> None:
        confirming = LateReplica()
        store = MessageStore.open(small(ROOT), SimDisk(), SimClock(), HOST, conditions=[confirming])
        placed = [store.append([record()])[0] for _ in range(4)]
        await store.flush_everything()
        confirming.confirm(placed[1].end)
        told: list[object] = []
        store.safety.when_safe(placed[3].end, told.append)
        store.follow("it is a replica")
        await store.truncate(placed[1].log_offset)
        assert (store.safety.position, confirming.position) == (placed[0].end, placed[0].end)
        assert len(told) == 1 and isinstance(told[0], StoreUnavailable)
        assert store.queue_range("Orders", 0) == (0, 1)
        store.lead()
        again = store.append([record()])[0]
        assert (again.log_offset, again.queue_offset) == (placed[1].log_offset, 1)

    run(scenario())
