"""Delayed delivery in virtual time, on a disk in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from gantrymq.broker.delivery.delay import DelayedDelivery
from gantrymq.broker.delivery.delay_levels import park, real_place
from gantrymq.errors import ConfigError
from gantrymq.message import system_topics
from gantrymq.runtime.disk import read_whole, write_durably
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.message_store import MessageStore
from tests.support.places import HOST, durable, record, run, small
from tests.support.sim_clock import SimClock, settle

DELAYS_MS = (1_000, 5_000, 10_000)
PATH = "/store/config/delayOffset.json"


class Broker:
    """A store with its delayed delivery."""

    def __init__(self, disk: SimDisk, clock: SimClock) -> None:
        self.disk, self.clock = disk, clock
        config = small(
            "/store",
            mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20_000,
            message_delay_level="1s 5s 10s",
        )
        self.store = MessageStore.open(config, disk, clock, HOST)
        disk.make_dirs("/store/config")
        self.delay = DelayedDelivery(self.store, clock, disk, PATH, DELAYS_MS)
        self.delay.start()

    async def send(self, level: int, body: bytes, topic: str = "T") -> None:
        await self.append(park(record(topic, 1, body), level, DELAYS_MS, self.clock.wall_ms()))

    async def append(self, *records: object) -> None:
        assert await durable(self.store, self.store.append(records)) is None  # type: ignore[arg-type]
        await settle()

    def delivered(self, topic: str = "T") -> list[bytes]:
        first, end = self.store.queue_range(topic, 1)
        found = [self.store.entry(topic, 1, offset) for offset in range(first, end)]
        messages = [self.store.read(entry.log_offset) for entry in found if entry is not None]
        return [message.body for message in messages if message is not None]


@asynccontextmanager
async def broker(disk: SimDisk | None = None, clock: SimClock | None = None) -> AsyncIterator[Broker]:
    running = Broker(disk or SimDisk(), clock or SimClock())
    yield running
    running.delay.close()
    await running.store.close()


def scenario(work: Callable[[Broker], Coroutine[None, None, None]]) -> None:
    async def start() -> None:
        async with broker() as running:
            await work(running)

    run(start())


@pytest.mark.slow
def test_each_level_waits_its_time_and_not_longer() -> None:
    async def work(b: Broker) -> None:
        await b.send(2, b"five")
        await b.send(1, b"one")
        await b.clock.advance(0.99)
        assert b.delivered() == []
        await b.clock.advance(0.02)
        assert b.delivered() == [b"one"]
        await b.clock.advance(3.9)
        assert b.delivered() == [b"one"]
        await b.clock.advance(0.1)
        assert b.delivered() == [b"one", b"five"]
        assert b.clock.waiting <= 1, "nothing is waited for but the store's own housekeeping"

    scenario(work)


def test_a_delivered_message_is_as_it_was_sent() -> None:
    async def work(b: Broker) -> None:
        sent = record("T", 1, b"body", properties="TAGS\x01A\x02DELAY\x011\x02", flag=5, reconsume_times=2)
        await b.append(park(sent, 1, DELAYS_MS, b.clock.wall_ms()))
        await b.clock.advance(1.1)
        entry = b.store.entry("T", 1, 0)
        assert entry is not None and entry.tags_code == 65, "found by its tag again"
        message = b.store.read(entry.log_offset)
        assert message is not None
        assert (message.flag, message.reconsume_times, message.born_timestamp) == (5, 2, sent.born_timestamp)
        assert real_place(message.properties_text) == ("T", 1), "as in Apache's broker the place stays to be seen"

    scenario(work)


@pytest.mark.slow
def test_hundreds_that_are_due_together_keep_their_order() -> None:
    async def work(b: Broker) -> None:
        bodies = [b"%d" % number for number in range(500)]
        for body in bodies:
            b.store.append([park(record("T", 1, body), 1, DELAYS_MS, b.clock.wall_ms())])
        await settle()
        await b.clock.advance(1.1)
        assert b.delivered() == bodies

    scenario(work)


@pytest.mark.slow
def test_what_was_delivered_is_not_delivered_again_after_a_restart_and_what_was_not_is() -> None:
    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        async with broker(disk, clock) as b:
            await b.send(1, b"delivered")
            await clock.advance(1.1)
            await b.send(2, b"waiting")
        await clock.advance(60)
        async with broker(disk, clock) as b:
            await settle()
            assert b.delivered() == [b"delivered", b"waiting"]
        async with broker(disk, clock) as b:
            await settle()
            assert b.delivered() == [b"delivered", b"waiting"]

    run(work())


@pytest.mark.slow
def test_a_power_cut_loses_no_delayed_message() -> None:
    async def work() -> None:
        disk, clock = SimDisk(3), SimClock()
        b = Broker(disk, clock)
        await b.send(1, b"one")
        await clock.advance(1.1)
        await b.send(1, b"two")
        after = disk.power_cut()
        async with broker(after, SimClock(clock.wall_ms() + 60_000)) as again:
            await settle()
            bodies = again.delivered()
            assert set(bodies) == {b"one", b"two"}, "each at least once"

    run(work())


@pytest.mark.slow
def test_a_clock_that_was_set_back_does_not_delay_for_ever() -> None:
    async def work() -> None:
        disk = SimDisk()
        async with broker(disk, SimClock(2_000_000_000_000)) as b:
            await b.send(3, b"early")
        async with broker(disk, SimClock(1_000_000_000_000)) as b:
            await b.clock.advance(9.9)
            assert b.delivered() == [], "how much of its wait is over cannot be known: it may be none"
            await b.clock.advance(0.2)
            assert b.delivered() == [b"early"]

    run(work())


@pytest.mark.slow
def test_a_message_without_a_usable_place_is_skipped_and_stops_nobody() -> None:
    async def work(b: Broker) -> None:
        await b.append(record(system_topics.SCHEDULE, 0, b"lost", tags_code=b.clock.wall_ms()))
        await b.send(1, b"half", system_topics.HALF)
        await b.send(1, b"good")
        await b.clock.advance(1.1)
        assert b.delivered() == [b"good"]
        assert b.delivered(system_topics.HALF) == []

    scenario(work)


def test_a_full_disk_is_waited_for() -> None:
    async def work(b: Broker) -> None:
        await b.send(1, b"later")
        b.disk.free_bytes = 0
        await b.clock.advance(5)
        assert b.delivered() == []
        b.disk.free_bytes = None
        await b.clock.advance(30)
        assert b.delivered() == [b"later"]

    scenario(work)


def test_a_level_above_the_highest_means_the_highest() -> None:
    parked = park(record("T", 7), 99, DELAYS_MS, 1000)
    assert (parked.topic, parked.queue_id, parked.tags_code) == (system_topics.SCHEDULE, 2, 11_000)
    assert real_place(parked.properties) == ("T", 7)


@pytest.mark.parametrize("text", ["", "REAL_TOPIC\x01T\x02", "REAL_TOPIC\x01T\x02REAL_QID\x01x\x02"])
def test_texts_without_a_place(text: str) -> None:
    assert real_place(text) is None


def test_an_unreadable_file_is_reported_and_not_overwritten() -> None:
    async def work(b: Broker) -> None:
        write_durably(b.disk, PATH, b'{"offsetTable":5}')
        with pytest.raises(ConfigError, match=r"delayOffset\.json"):
            DelayedDelivery(b.store, b.clock, b.disk, PATH, DELAYS_MS)
        assert read_whole(b.disk, PATH) == b'{"offsetTable":5}'

    scenario(work)
