"""Timer messages against a plain list, with power cuts at any operation, deaths of the process and restarts.

What must hold: nothing comes before its time; what was acknowledged and not withdrawn comes; it comes once, unless a
crash followed within seconds of its delivery, or of its being written again because its time is far away; what was
withdrawn in time never comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.delivery.timer_rules import TimerRules, park_for
from gantrymq.errors import StoreError
from gantrymq.message import properties
from gantrymq.simulation.world.disk import PowerCut, SimDisk
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from tests.support.places import open_store, record, small
from tests.support.sim_clock import SimClock, settle

ROLL_MS = 40_000
RULES = TimerRules(1000, 10**9, ROLL_MS)
"""Messages for later than that are rolled: written again when they have waited so long."""
FORGETFUL_MS = 2_100
"""How long before a crash a delivery may be forgotten: the time between two syncs, and one step."""


@dataclass
class Sent:
    key: str
    sent_ms: int
    due_ms: int
    slot_ms: int
    acknowledged: bool = False
    asked: bool = False
    """To be withdrawn. What was not acknowledged of that may be stored all the same."""
    withdrawn: bool = False


class TimerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.runner.get_loop().set_exception_handler(lambda _loop, _context: None)  # the power cuts
        self.sent: list[Sent] = []
        self.crashes: list[int] = []

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed: int) -> None:
        self.disk = SimDisk(seed)
        self.clock = SimClock(1_700_000_000_000)
        self._open()

    def _open(self) -> None:
        self.clock = SimClock(self.clock.wall_ms())
        # The loop runs on for a while when the disk is off already.
        self.disk.when_off = lambda: self.crashes.append(self.clock.wall_ms())

        async def opening() -> tuple[MessageStore, TimedDelivery]:
            config = small("/data/store", mapped_file_size_commit_log=8192)
            store = open_store(config, self.disk, self.clock)
            self.disk.make_dirs("/data/store/config")
            timer = TimedDelivery(store, self.clock, self.disk, RULES, 400)
            timer.start()
            return store, timer

        self.store, self.timer = self.runner.run(opening())

    # ---- what happens

    @rule(delay_ms=st.sampled_from([1, 700, 1_000, 3_000, 3_500, 9_000, 50_000, 130_000]), turns=st.integers(0, 12))
    def send(self, delay_ms: int, turns: int) -> None:
        key = f"K{len(self.sent)}"
        due = self.clock.wall_ms() + delay_ms
        text = properties.encode({"UNIQ_KEY": key, "TIMER_DELIVER_MS": str(due)})
        slot = RULES.slot_of(text, self.clock.wall_ms())
        assert slot is not None
        sent = Sent(key, self.clock.wall_ms(), due, slot)
        self.sent.append(sent)

        def stored(error: StoreError | None) -> None:
            sent.acknowledged = error is None

        self._append(park_for(record("T", 1, key.encode(), properties=text), slot), stored, turns)

    @rule(number=st.integers(0, 1 << 16), turns=st.integers(0, 12))
    def withdraw(self, number: int, turns: int) -> None:
        if not self.sent:
            return
        sent = self.sent[number % len(self.sent)]
        if not sent.acknowledged or self.clock.wall_ms() >= sent.slot_ms:
            return
        text = properties.encode({"UNIQ_KEY": sent.key, "TIMER_DEL_UNIQKEY": sent.key})
        sent.asked = True

        def stored(error: StoreError | None) -> None:
            if error is None:
                sent.withdrawn = True

        self._append(park_for(record("T", 0, b"0", properties=text), sent.slot_ms), stored, turns)

    def _append(self, new: NewRecord, stored: Any, turns: int) -> None:
        async def appending() -> None:
            with contextlib.suppress(StoreError, PowerCut):
                (place,) = self.store.append([new])
                self.store.safety.when_safe(place.end, stored)
                for _ in range(turns):
                    await asyncio.sleep(0)

        self.runner.run(appending())

    @rule(seconds=st.sampled_from([0.3, 1.0, 4.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        with contextlib.suppress(PowerCut):
            self.runner.run(self.clock.advance(seconds))

    # ---- what goes wrong

    @rule(operations=st.integers(0, 30))
    def power_will_fail(self, operations: int) -> None:
        self.disk.operations_left = operations

    @rule(again=st.integers(0, 2), operations=st.integers(0, 60), away=st.sampled_from([0, 500, 100_000]))
    def power_cut(self, again: int, operations: int, away: int) -> None:
        """Off and on; the start itself may be cut off, too."""
        self.crashes.append(self.clock.wall_ms())
        for _ in range(again):
            self.disk = self.disk.power_cut()
            self.disk.operations_left = operations
            with contextlib.suppress(PowerCut):
                self._open()
                self.runner.run(settle())
        self.disk = self.disk.power_cut()
        self._start_again(away)

    @rule(away=st.sampled_from([0, 500, 100_000]))
    def process_is_killed(self, away: int) -> None:
        self.crashes.append(self.clock.wall_ms())
        self.disk = self.disk.process_dies()
        self._start_again(away)

    def _start_again(self, away: int) -> None:
        self.disk.operations_left = None
        self.clock = SimClock(self.clock.wall_ms() + away)
        self._open()
        self._compare()

    @rule()
    def restart(self) -> None:
        if self.disk._off or self.disk.operations_left is not None:
            return

        async def restarting() -> None:
            await self.timer.stop()
            self.timer.close()
            await self.store.close()

        self.runner.run(restarting())
        self._open()
        self._compare()

    # ---- what must hold

    def _compare(self) -> dict[str, list[int]]:
        """Nothing early, nothing twice without reason, nothing withdrawn; times of delivery by key."""
        times: dict[str, list[int]] = defaultdict(list)
        first, end = self.store.queue_range("T", 1)
        for offset in range(first, end):
            entry = self.store.entry("T", 1, offset)
            message = self.store.read(entry.log_offset) if entry is not None else None
            assert message is not None
            times[message.body.decode()].append(message.store_timestamp)
        for sent in self.sent:
            found = times.get(sent.key, [])
            assert all(time >= sent.due_ms for time in found)
            rolled = sent.slot_ms - sent.sent_ms > ROLL_MS and any(
                sent.sent_ms + ROLL_MS <= crash <= sent.slot_ms + FORGETFUL_MS for crash in self.crashes
            )
            for time in found[:-1]:
                assert rolled or any(0 <= crash - time <= FORGETFUL_MS for crash in self.crashes), (
                    sent, found, self.crashes,
                )  # fmt: skip
            assert not (sent.withdrawn and found), (sent, found)
        return times

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.crashes.append(self.clock.wall_ms())
            self.disk = self.disk.power_cut()
            self._start_again(0)
            self.runner.run(self.clock.advance(300))
            times = self._compare()
            lost = [sent for sent in self.sent if sent.acknowledged and not sent.asked and sent.key not in times]
            assert not lost
        self.runner.close()


TestTimerMachine: Any = pytest.mark.slow(TimerMachine.TestCase)
TestTimerMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
