"""Deliveries that a door prolongs outlive it: for whom, and which receipt handle the client has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.pop.check_point import CheckPoint, check_point_body
from gantrymq.broker.pop.holds import RESUME_MS, HeldDelivery, Hold
from tests.broker.pop.lab import GROUP, TOPIC, Given, PopLab

RETRY = f"%RETRY%{GROUP}_{TOPIC}"


def popped(root: Path, *, orderly: bool = False) -> tuple[PopLab, Given]:
    lab = PopLab(root / "store", queues=1, orderly=orderly)
    lab.send("a")
    (item,) = lab.pop(invisible_ms=5_000, order=orderly).messages
    return lab, item


def prolonged(lab: PopLab, item: Given, invisible_ms: int) -> None:
    hold = Hold("client", item.handle.pop_time)
    if item.handle.orderly:
        handle = item.handle
        lab.consumption.deliveries.change_in_order(
            TOPIC, GROUP, 0, handle.offset, handle.pop_time, invisible_ms, hold.holder
        )
    else:
        going_on, call = lab.change(item, invisible_ms, hold)
        assert going_on and call.accepted


def again(lab: PopLab, seconds: float = 0.0) -> list[HeldDelivery]:
    lab.save()
    lab.crash()
    lab.clock.advance(seconds)
    lab.open()
    return lab.consumption.held()


@pytest.mark.parametrize("orderly", [False, True])
def test_a_delivery_that_was_prolonged_is_known_after_a_kill_and_one_that_was_not_is_not(
    tmp_path: Path, orderly: bool
) -> None:
    lab, item = popped(tmp_path, orderly=orderly)
    assert again(lab) == []
    lab.clock.advance(1.0)
    prolonged(lab, item, 20_000)
    for _ in range(2):
        (held,) = again(lab)
        assert (held.group, held.topic, held.hold) == (GROUP, TOPIC, Hold("client", item.handle.pop_time))
        assert held.handle.visible_at == lab.clock.wall_ms() + 20_000
        first = held.first
        assert (first.queue_id, first.offset, first.pop_time) == (0, item.handle.offset, item.handle.pop_time)


def test_one_whose_time_is_over_at_the_start_waits_for_the_door(tmp_path: Path) -> None:
    lab, item = popped(tmp_path)
    prolonged(lab, item, 20_000)
    (held,) = again(lab, 60.0)
    lab.clock.advance(RESUME_MS / 1000 - 1)
    assert lab.bodies(RETRY) == []
    going_on, call = lab.change(Given(held.topic, item.message, held.handle), 60_000, held.hold)
    assert going_on and call.accepted
    lab.clock.advance(50.0)
    assert lab.bodies(RETRY) == []
    (held,) = lab.consumption.held()
    assert held.first.pop_time == item.handle.pop_time
    lab.clock.advance(20.0)
    assert (lab.bodies(RETRY), lab.consumption.held()) == (["a"], [])


def test_without_a_door_it_comes_a_little_later(tmp_path: Path) -> None:
    lab, item = popped(tmp_path)
    prolonged(lab, item, 20_000)
    again(lab, 60.0)
    lab.clock.advance(RESUME_MS / 1000 + 1)
    assert lab.bodies(RETRY) == ["a"]


@pytest.mark.parametrize("orderly", [False, True])
def test_a_time_that_the_client_names_itself_is_no_prolongation(tmp_path: Path, orderly: bool) -> None:
    lab, item = popped(tmp_path, orderly=orderly)
    prolonged(lab, item, 20_000)
    (held,) = lab.consumption.held()
    now = Given(held.topic, item.message, held.handle)
    if orderly:
        lab.consumption.deliveries.change_in_order(TOPIC, GROUP, 0, 0, held.handle.pop_time, 1_000)
    else:
        assert lab.change(now, 1_000)[1].accepted
    assert (lab.consumption.held(), again(lab)) == ([], [])


def test_a_check_point_of_nobody_is_the_record_of_apache() -> None:
    plain = check_point_body(CheckPoint("T", "G", 0, 1, 2, 3, "b", (0,)))
    assert b"gh" not in plain and b"gf" not in plain
    held = check_point_body(CheckPoint("T", "G", 0, 1, 2, 3, "b", (0,), holder="c", first_pop=1))
    assert b'"gf":1' in held and b'"gh":"c"' in held
