"""POP compared with a model. For any order of events: no message is lost, no acknowledged message is delivered again,
and no message is delivered while it is invisible.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.broker.pop.lab import GROUP, TOPIC, Given, PopLab

MAX_TIMES = 3


@dataclass
class Held:
    """A delivery whose consumer has not ended it."""

    item: Given
    visible_at: int


class Pops(RuleBasedStateMachine):
    """Producers, consumers, time, a disk that stalls and fills, a process and a machine that die."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="gantry-pop-"))
        self.lab = PopLab(self.root / "store", retry_max_times=MAX_TIMES)
        self.sent: set[str] = set()
        self.count = 0
        self.held: dict[str, Held] = {}
        self.acked: set[str] = set()
        self.tried: set[str] = set()
        """An acknowledgement was sent."""
        self.doubtful: set[str] = set()
        """Acknowledged, renewed or brought back by a write whose outcome nobody knows: it may be there or not."""

    # Time and failures.

    @rule(seconds=st.sampled_from([0.001, 0.5, 2.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.lab.clock.advance(seconds)

    @rule()
    def save(self) -> None:
        if not self.lab.disk.full:
            self.lab.save()

    @rule()
    def stall(self) -> None:
        if self.lab.disk.held is None:
            self.lab.disk.hold()

    @rule()
    def go_on(self) -> None:
        if self.lab.disk.held is not None:
            self.lab.disk.release()

    @rule(full=st.booleans())
    def fill(self, full: bool) -> None:
        self.lab.disk.full = full
        self.lab.clock.advance(1.0)

    @rule()
    def crash(self) -> None:
        self.lab.crash()
        self.lab.open()

    @rule(kept=st.floats(0, 1))
    def power_cut(self, kept: float) -> None:
        # What was being brought back may be twice now: the copy was written, and the mark that it was not.
        self.doubtful |= self.sent - self.acked
        self.lab.power_cut(kept)
        self.lab.open()

    @precondition(lambda self: self.lab.disk.held is None and not self.lab.disk.full)
    @rule()
    def restart(self) -> None:
        self.lab.stop()
        self.lab.open()

    # Clients.

    @rule(number=st.integers(1, 5), queue_id=st.integers(0, 1))
    def send(self, number: int, queue_id: int) -> None:
        for _ in range(number):
            self.count += 1
            body = f"m{self.count}"
            if self.lab.send(body, queue_id).accepted:
                self.sent.add(body)

    @rule(count=st.integers(1, 6), invisible_ms=st.sampled_from([1, 500, 1_000, 20_000]))
    def pop(self, count: int, invisible_ms: int) -> None:
        now = self.lab.clock.wall_ms()
        call = self.lab.pop(count, invisible_ms)
        for item in call.messages:
            self.check_delivery(item, now)
            self.held[item.body] = Held(item, item.handle.visible_at)

    def check_delivery(self, item: Given, now: int) -> None:
        if item.body in self.doubtful:
            return
        assert item.body not in self.acked, f"{item.body} was acknowledged"
        held = self.held.get(item.body)
        assert held is None or held.visible_at <= now, f"{item.body} is invisible until {held and held.visible_at}"
        assert item.message.reconsume_times <= MAX_TIMES

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        bodies = data.draw(st.lists(st.sampled_from(sorted(self.held)), min_size=1, max_size=4, unique=True))
        now = self.lab.clock.wall_ms()
        in_time = [body for body in bodies if self.held[body].visible_at > now]
        self.tried.update(bodies)
        call = self.lab.ack(*(self.held.pop(body).item for body in bodies))
        if call.accepted:
            self.acked.update(in_time)
        else:
            self.doubtful.update(bodies)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), invisible_ms=st.sampled_from([0, 700, 10_000]))
    def change(self, data: st.DataObject, invisible_ms: int) -> None:
        self.renew(data.draw(st.sampled_from(sorted(self.held))), invisible_ms)

    def renew(self, body: str, invisible_ms: int) -> None:
        held = self.held.pop(body)
        now = self.lab.clock.wall_ms()
        going_on, call = self.lab.change(held.item, invisible_ms)
        if held.visible_at > now and body not in self.doubtful:
            assert going_on
        if going_on and not call.accepted:
            self.doubtful.add(body)
        if going_on and call.accepted:
            assert call.pop_time - now < 50
            handle = held.item.handle
            renewed = type(handle)(
                handle.offset, call.pop_time, invisible_ms, handle.revive_queue, handle.kind, handle.broker_name,
                handle.queue_id, handle.offset,
            )  # fmt: skip
            self.held[body] = Held(Given(held.item.topic, held.item.message, renewed), renewed.visible_at)

    def teardown(self) -> None:
        """In the end everything that was sent has been acknowledged, or comes now, or is a dead letter."""
        lab = self.lab
        lab.disk.full = False
        if lab.disk.held is not None:
            lab.disk.release()
        lab.clock.advance(100.0)
        got: set[str] = set()
        for _ in range(10):
            while messages := lab.pop(32, 1_000_000).messages:
                for item in messages:
                    self.check_delivery(item, lab.clock.wall_ms())
                got |= {item.body for item in messages}
                assert lab.ack(*messages).accepted
            lab.clock.advance(1.0)
        dead = set(lab.bodies(f"%DLQ%{GROUP}"))
        lost = self.sent - got - self.acked - dead - self.tried
        assert not lost, f"{lost} of {TOPIC} are nowhere"
        assert not dead & self.acked - self.doubtful, "a dead letter was acknowledged"
        assert len(lab.consumption.revive_log.ledger) == 0
        lab.save()
        lab.crash()
        shutil.rmtree(self.root)


def test_a_check_point_that_was_not_written_takes_no_other_with_it() -> None:
    """The pop that the full disk refused had offset 0 of the revive topic, and so has the one behind it."""
    pops = Pops()
    pops.send(number=1, queue_id=0)
    pops.fill(full=True)
    pops.pop(count=1, invisible_ms=1)
    pops.fill(full=False)
    pops.restart()
    pops.pop(count=1, invisible_ms=1)
    pops.restart()
    pops.teardown()


def test_a_check_point_with_the_key_of_an_acknowledged_one_is_open() -> None:
    """Two changes and a restart in one millisecond, as when the clock is set back. The part of the revive topic that is
    read again begins between the first check point and its acknowledgement.
    """
    pops = Pops()
    pops.send(number=1, queue_id=0)
    pops.pop(count=1, invisible_ms=1)
    pops.renew("m1", 0)
    pops.restart()
    pops.renew("m1", 700)
    pops.renew("m1", 0)
    pops.restart()
    pops.teardown()


TestPops = pytest.mark.slow(Pops.TestCase)
TestPops.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
