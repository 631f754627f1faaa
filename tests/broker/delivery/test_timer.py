"""Timer messages in virtual time, on a disk in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.delivery.timer_rules import TimerRules, park_for
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import TIMER
from gantrymq.message.tags import java_hash
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.message_store import MessageStore
from tests.support.places import HOST, durable, record, run, small
from tests.support.sim_clock import SimClock, settle

DAY_MS = 24 * 3600 * 1000
RULES = TimerRules(1000, 30 * DAY_MS, 2 * DAY_MS)
FILE_BYTES = 1040
"""A timer log file of 19 units."""


class Broker:
    """A store with its timer."""

    def __init__(self, disk: SimDisk, clock: SimClock, rules: TimerRules = RULES) -> None:
        self.disk, self.clock, self.rules = disk, clock, rules
        config = small("/store", mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=20_000)
        self.store = MessageStore.open(config, disk, clock, HOST)
        disk.make_dirs("/store/config")
        self.timer = TimedDelivery(self.store, clock, disk, rules, FILE_BYTES)
        self.timer.start()

    async def send(self, delay_ms: int, body: bytes, key: str = "", **parts: str) -> None:
        text = properties.encode(
            {"TAGS": "A", "UNIQ_KEY": key or body.decode(), "TIMER_DELAY_MS": str(delay_ms), **parts}
        )
        slot = self.rules.slot_of(text, self.clock.wall_ms())
        assert slot is not None
        await self.append(park_for(record("T", 1, body, properties=text), slot))

    async def recall(self, delay_ms: int, key: str) -> None:
        await self.send(delay_ms, b"0", key, TIMER_DEL_UNIQKEY=key)

    async def append(self, *records: object) -> None:
        assert await durable(self.store, self.store.append(records)) is None  # type: ignore[arg-type]
        await settle()

    def messages(self, topic: str = "T", queue_id: int = 1) -> list[StoredMessage]:
        first, end = self.store.queue_range(topic, queue_id)
        found = [self.store.entry(topic, queue_id, offset) for offset in range(first, end)]
        messages = [self.store.read(entry.log_offset) for entry in found if entry is not None]
        return [message for message in messages if message is not None]

    def delivered(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    async def close(self) -> None:
        await self.timer.stop()
        self.timer.close()
        await self.store.close()


@asynccontextmanager
async def broker(disk: SimDisk | None = None, clock: SimClock | None = None) -> AsyncIterator[Broker]:
    running = Broker(disk or SimDisk(), clock or SimClock())
    yield running
    await running.close()


def scenario(work: Callable[[Broker], Coroutine[None, None, None]]) -> None:
    async def start() -> None:
        async with broker() as running:
            await work(running)

    run(start())


@pytest.mark.slow
def test_messages_come_within_the_second_behind_their_time_and_never_before() -> None:
    async def work(b: Broker) -> None:
        await b.send(3_000, b"three")
        await b.send(1_500, b"one and a half")
        await b.send(1, b"at once")
        await b.clock.advance(1.0)
        assert b.delivered() == [b"at once"]
        await b.clock.advance(0.49)
        assert b.delivered() == [b"at once"]
        await b.clock.advance(0.51)
        assert b.delivered() == [b"at once", b"one and a half"]
        await b.clock.advance(0.99)
        assert b.delivered() == [b"at once", b"one and a half"]
        await b.clock.advance(0.02)
        assert b.delivered() == [b"at once", b"one and a half", b"three"]
        await b.clock.advance(10)
        assert b.clock.waiting == 0, "nothing to wait for"

    scenario(work)


@pytest.mark.slow
def test_a_delivered_message_is_as_it_was_sent_and_says_how_it_waited() -> None:
    async def work(b: Broker) -> None:
        now = b.clock.wall_ms()
        await b.send(2_000, b"body")
        await b.clock.advance(3)
        (message,) = b.messages()
        assert b.store.entry("T", 1, 0).tags_code == java_hash("A")  # type: ignore[union-attr]
        assert properties.decode(message.properties_text) == {
            "TAGS": "A", "UNIQ_KEY": "body", "TIMER_DELAY_MS": "2000", "TIMER_OUT_MS": str(now + 1000),
            "REAL_TOPIC": "T", "REAL_QID": "1", "TIMER_ENQUEUE_MS": str(now), "TIMER_DEQUEUE_MS": str(now + 2000),
        }  # fmt: skip

    scenario(work)


@pytest.mark.slow
def test_a_recalled_message_is_not_delivered_and_its_neighbours_are() -> None:
    async def work(b: Broker) -> None:
        for name in (b"a", b"b", b"c"):
            await b.send(5_000, name)
        await b.recall(5_000, "b")
        assert b.timer.waiting == Counter({java_hash("T"): 2})
        await b.clock.advance(6)
        assert b.delivered() == [b"a", b"c"]
        assert +b.timer.waiting == Counter()
        assert b.timer.counts.delays[java_hash("T")].counts[0] == 3, "the order to withdraw is no message"

    scenario(work)


@pytest.mark.slow
def test_hundreds_of_one_second_keep_their_order_over_files_and_batches() -> None:
    async def work(b: Broker) -> None:
        bodies = [b"%d" % number for number in range(500)]
        for body in bodies:
            slot = b.rules.floor(b.clock.wall_ms() + 4_000)
            b.store.append([park_for(record("T", 1, body), slot)])
        await settle()
        assert len(b.disk.list("/store/timerlog")) > 20
        await b.clock.advance(6)
        assert b.delivered() == bodies

    scenario(work)


@pytest.mark.slow
def test_a_far_message_is_rolled_and_still_delivered_once_in_time() -> None:
    async def work(b: Broker) -> None:
        await b.send(5 * DAY_MS, b"far")
        await b.clock.advance(5 * DAY_MS / 1000 - 1)
        assert b.delivered() == []
        waiting = b.messages(TIMER, 0)
        assert len(waiting) == 3 and properties.find(waiting[-1].properties_text, "TIMER_ROLL_TIMES") == "2"
        assert b.timer.oldest_log_offset() == waiting[-1].log_offset, "the older copies are not needed any more"
        await b.clock.advance(2)
        assert b.delivered() == [b"far"]
        assert b.timer.oldest_log_offset() is None
        delays = b.timer.counts.delays[java_hash("T")]
        assert delays.counts == [0, 0, 0, 0, 0, 0, 1], "once, although it was noted three times"
        assert 5 * DAY_MS / 1000 - 1 <= delays.sum <= 5 * DAY_MS / 1000

    scenario(work)


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
def test_what_waits_over_a_restart_comes_and_what_came_does_not_come_again(clean: bool) -> None:
    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        first = Broker(disk, clock)
        for name, delay_ms in ((b"early", 1_000), (b"late", 60_000), (b"gone", 60_000)):
            await first.send(delay_ms, name)
        await first.recall(60_000, "gone")
        await clock.advance(10)
        assert first.delivered() == [b"early"]
        if clean:
            await first.close()
        else:
            disk = disk.process_dies()
        await clock.advance(120)
        async with broker(disk, clock) as second:
            await clock.advance(1)
            assert second.delivered() == [b"early", b"late"]

    run(work())


@pytest.mark.slow
def test_a_lost_timer_log_is_made_again_from_the_queue() -> None:
    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        async with broker(disk, clock) as first:
            for number in range(30):
                await first.send(1_000 if number % 2 else 60_000, b"%d" % number)
            await clock.advance(10)
        for name in disk.list("/store/timerlog"):
            disk.remove(f"/store/timerlog/{name}")
        async with broker(disk, clock) as second:
            await clock.advance(60)
            assert Counter(second.delivered()) == Counter(b"%d" % number for number in range(30))

    run(work())


def test_what_apache_has_in_its_wheel_is_made_again() -> None:
    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        async with broker(disk, clock):
            disk.open("/store/timerwheel", create=True).close()
        async with broker(disk, clock):
            assert not disk.exists("/store/timerwheel")

    run(work())


def test_files_whose_messages_are_gone_are_removed() -> None:
    async def work(b: Broker) -> None:
        for number in range(60):
            await b.send(1_000, b"%d" % number)
        await b.clock.advance(3)
        before = b.disk.list("/store/timerlog")
        b.timer.drop_old()
        assert b.disk.list("/store/timerlog") == before
        last = b.messages(TIMER, 0)[40].log_offset
        b.timer._log.drop_before(last)
        assert b.disk.list("/store/timerlog") == before[2:]

    scenario(work)


def test_the_store_is_closed_behind_the_slot_that_is_being_delivered() -> None:
    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        first = Broker(disk, clock)
        for number in range(300):
            first.store.append([park_for(record("T", 1, b"%d" % number), clock.wall_ms())])
        await settle()
        await clock.advance(0.999)
        clock._now += 5
        first.timer._look()
        assert first.timer._slot is not None
        await first.close()
        async with broker(disk, clock) as second:
            await clock.advance(10)
            assert len(second.delivered()) == 300

    run(work())


def test_a_store_that_refuses_is_asked_again() -> None:
    async def work(b: Broker) -> None:
        for number in range(3):
            await b.send(1_000, b"%d" % number)
        b.disk.free_bytes = 0
        await b.clock.advance(2)
        assert b.delivered() == []
        b.disk.free_bytes = None
        await b.clock.advance(5)
        assert b.delivered() == [b"0", b"1", b"2"]

    scenario(work)


def test_a_message_that_comes_before_the_store_is_asked_again_stops_nothing() -> None:
    async def work(b: Broker) -> None:
        await b.send(1_000, b"refused")
        b.disk.free_bytes = 0
        await b.clock.advance(2)
        b.disk.free_bytes = None
        await b.send(1_000, b"later")
        await b.clock.advance(5)
        assert b.delivered() == [b"refused", b"later"]

    scenario(work)
