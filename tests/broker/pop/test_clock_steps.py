"""The wall clock steps, forward and back: what was popped comes back when its invisible time is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.message.system_topics import pop_retry_topic
from tests.broker.pop.lab import GROUP, TOPIC, PopLab

STEPS_MS = (-5 * 86_400_000, -3_000, 3_600_000)
RETRIES = pop_retry_topic(TOPIC, GROUP, v2=False)


@pytest.fixture
def lab(tmp_path: Path) -> PopLab:
    return PopLab(tmp_path / "store", queues=1)


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_a_popped_message_comes_back_at_its_time(lab: PopLab, step_ms: int) -> None:
    lab.send("before")
    assert lab.pop(invisible_ms=10_000).messages
    lab.clock.advance(4)
    lab.clock.wall += step_ms
    lab.send("behind")
    assert [item.body for item in lab.pop(invisible_ms=10_000).messages] == ["behind"]
    for seconds, back in ((5.9, []), (0.2, ["before"]), (3.8, ["before"]), (0.2, ["before", "behind"])):
        lab.clock.advance(seconds)
        assert lab.bodies(RETRIES) == back


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_over_a_restart_it_is_invisible_for_its_whole_time_at_most(lab: PopLab, step_ms: int) -> None:
    lab.send("one")
    assert lab.pop(invisible_ms=10_000).messages
    lab.clock.advance(4)
    lab.stop()
    lab.clock.wall += step_ms
    lab.open()
    lab.clock.advance(10.1)
    assert lab.bodies(RETRIES) == ["one"]


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_a_queue_that_is_popped_in_order_opens_at_its_time(lab: PopLab, step_ms: int) -> None:
    lab.send("one")
    assert lab.pop(invisible_ms=10_000, order=True).messages
    lab.clock.advance(4)
    lab.clock.wall += step_ms
    lab.clock.advance(5.9)
    assert lab.pop(order=True).messages == []
    lab.clock.advance(0.2)
    assert [item.body for item in lab.pop(order=True).messages] == ["one"]
