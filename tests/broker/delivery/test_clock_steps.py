"""The wall clock steps, forward and back: what waits keeps its wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from gantrymq.broker.delivery.delivered import Delivered
from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.message import properties
from gantrymq.runtime.steady import SteadyTime
from gantrymq.simulation.world.disk import SimDisk
from tests.broker.delivery import test_delay, test_timer
from tests.support.places import run, small
from tests.support.sim_clock import SimClock, settle

STEPS_MS = (-5 * 86_400_000, -3_000, 3_600_000)


class Delay(test_delay.Broker):
    """Messages of delay level 3, which wait 10 s."""

    async def send_one(self, body: bytes) -> None:
        await self.append(
            test_delay.park(test_delay.record("T", 1, body), 3, test_delay.DELAYS_MS, self.time.wall_ms())
        )

    def __init__(self, disk: SimDisk, clock: SimClock) -> None:
        super().__init__(disk, clock)
        self.time = self.delay._time

    async def close(self) -> None:
        await self.delay.stop()
        self.delay.close()
        await self.store.close()


class Timer(test_timer.Broker):
    """Timer messages of 10 s."""

    async def send_one(self, body: bytes) -> None:
        text = properties.encode({"UNIQ_KEY": body.decode(), "TIMER_DELAY_MS": "10000"})
        slot = self.rules.slot_of(text, self.clock.wall_ms(), self.timer.now_ms())
        assert slot is not None
        await self.append(test_timer.park_for(test_timer.record("T", 1, body, properties=text), slot))


Kind = Callable[[SimDisk, SimClock], Delay | Timer]
KINDS: tuple[Kind, ...] = (Delay, Timer)


def scenario(kind: Kind, work: Callable[[Delay | Timer], Awaitable[None]]) -> None:
    async def start() -> None:
        broker = kind(SimDisk(), SimClock())
        await work(broker)
        await broker.close()

    run(start())


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_sent_before_and_behind_a_step_comes_at_its_time(kind: Kind, step_ms: int) -> None:
    """A timer message that was sent behind a step back used to wait for the length of the step."""

    async def work(b: Delay | Timer) -> None:
        await b.send_one(b"long over")
        await b.clock.advance(20)
        assert b.delivered() == [b"long over"]
        await b.send_one(b"before")
        await b.clock.advance(4)
        b.clock.skew_ms += step_ms
        await b.send_one(b"behind")
        await b.clock.advance(5.9)
        assert b.delivered() == [b"long over"]
        await b.clock.advance(1.2)
        assert b.delivered() == [b"long over", b"before"]
        await b.clock.advance(2.8)
        assert b.delivered() == [b"long over", b"before"]
        await b.clock.advance(1.2)
        assert b.delivered() == [b"long over", b"before", b"behind"]

    scenario(kind, work)


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("kind", KINDS)
def test_over_a_restart_nothing_waits_longer_than_its_whole_wait(kind: Kind, step_ms: int) -> None:
    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        b = kind(disk, clock)
        await b.send_one(b"one")
        await b.clock.advance(4)
        await b.close()
        after = SimClock(clock.wall_ms() + step_ms)
        b = kind(disk, after)
        await settle()
        if step_ms < 0:
            await after.advance(5.9)
            assert b.delivered() == []
        await after.advance(11.1 - 5.9)
        assert b.delivered() == [b"one"]
        await b.send_one(b"two")
        await after.advance(9.9)
        assert b.delivered() == [b"one"]
        await after.advance(1.2)
        assert b.delivered() == [b"one", b"two"]
        await b.close()

    run(work())


def test_a_copy_is_found_again_whatever_the_files_of_the_cursors_say() -> None:
    """The broker dies behind a delivery, before anything else was written."""

    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        b = Delay(disk, clock)
        delivered = Delivered.open(b.store, disk, SteadyTime(clock))
        delivered.parts.clear()
        delivered.begin()
        await b.send_one(b"one")
        await clock.advance(11)
        assert b.delivered() == [b"one"]
        disk = disk.process_dies()
        again = test_delay.MessageStore.open(b.store.config, disk, clock, test_delay.HOST)
        found = Delivered.open(again, disk, SteadyTime(clock))
        entry = again.entry("SCHEDULE_TOPIC_XXXX", 2, 0)
        assert entry is not None and set(found.copies) == {entry.log_offset}
        await again.close()

    run(work())


class NotedTimer(Timer):
    """The same with the file in which a broker notes the time of its timer."""

    def __init__(self, disk: SimDisk, clock: SimClock) -> None:
        self.disk, self.clock, self.rules = disk, clock, test_timer.RULES
        config = small("/store", mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=20_000)
        self.store = test_timer.MessageStore.open(config, disk, clock, test_timer.HOST)
        disk.make_dirs("/store/config")
        time = SteadyTime(clock, lambda: self.store.appended)
        delivered = Delivered.open(self.store, disk, time)
        self.timer = TimedDelivery(self.store, clock, disk, self.rules, test_timer.FILE_BYTES, time, delivered)
        delivered.begin()
        self.timer.start()


def test_a_timer_that_noted_its_time_long_ago_does_not_go_back_to_it() -> None:
    """A message that was stored twenty seconds behind the note used to wait for them, too, when the clock was set
    back before the broker was started again."""

    async def work() -> None:
        disk, clock = SimDisk(), SimClock()
        b = NotedTimer(disk, clock)
        await b.clock.advance(20)
        await b.send_one(b"one")
        after = SimClock(clock.wall_ms() - 3_600_000)
        b = NotedTimer(disk.process_dies(), after)
        await after.advance(8)
        assert b.delivered() == []
        await after.advance(4.1)
        assert b.delivered() == [b"one"]
        await b.close()

    run(work())


def test_a_pause_between_two_looks_at_the_clocks_is_no_step() -> None:
    clock = SimClock()
    time = SteadyTime(clock)
    clock.skew_ms = 150
    time.wall_ms()
    assert time.steps == 0
    clock.skew_ms = 250
    time.wall_ms()
    assert time.steps == 1
