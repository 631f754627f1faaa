"""A delivery makes one dead letter, whatever is killed, and however often its client asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.pop.lab import GROUP, TOPIC, PopLab

LETTERS = f"%DLQ%{GROUP}"
RETRY = f"%RETRY%{GROUP}_{TOPIC}"


def lab_with(root: Path, *names: str, orderly: bool = False) -> PopLab:
    lab = PopLab(root / "store", queues=1, orderly=orderly)
    for name in names:
        assert lab.send(name).accepted
    return lab


def again(lab: PopLab) -> None:
    lab.crash()
    lab.open()


@pytest.mark.parametrize("orderly", [False, True])
def test_a_client_that_asks_again_makes_no_second_one(tmp_path: Path, orderly: bool) -> None:
    lab = lab_with(tmp_path, "a", orderly=orderly)
    (item,) = lab.pop(order=orderly).messages
    going_on, call = lab.give_up(item)
    assert (going_on, call.accepted) == (True, True)
    assert lab.give_up(item)[0] is False
    lab.clock.advance(120.0)
    assert (lab.bodies(LETTERS), lab.bodies(RETRY), lab.pop(order=orderly).messages) == (["a"], [], [])
    assert lab.counters.given_up == {(TOPIC, GROUP): 1}


@pytest.mark.parametrize("orderly", [False, True])
def test_two_who_ask_at_the_same_time_are_both_told_when_it_is_safe(tmp_path: Path, orderly: bool) -> None:
    lab = lab_with(tmp_path, "a", orderly=orderly)
    (item,) = lab.pop(order=orderly).messages
    lab.disk.hold()
    calls = [lab.give_up(item)[1], lab.give_up(item)[1]]
    assert [call.answered for call in calls] == [False, False]
    lab.disk.release()
    assert [call.accepted for call in calls] == [True, True]
    assert lab.bodies(LETTERS) == ["a"]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("saved", ["before the pop", "before", "after"])
def test_a_kill_makes_no_second_one(tmp_path: Path, orderly: bool, saved: str) -> None:
    lab = lab_with(tmp_path, "a", "b", orderly=orderly)
    if saved == "before the pop":
        lab.pop(1, 100, order=orderly)
        lab.save()
        lab.clock.advance(1.0)
    items = lab.pop(order=orderly).messages
    (item,) = (one for one in items if one.body == "a")
    if saved == "before":
        lab.save()
    assert lab.give_up(item)[1].accepted
    if saved == "after":
        lab.save()
    lab.note()
    again(lab)
    assert lab.give_up(item)[0] is False
    again(lab)
    assert lab.give_up(item)[0] is False
    assert lab.bodies(LETTERS) == ["a"]
    lab.clock.advance(120.0)
    assert [one.body for one in lab.pop(order=orderly).messages] == ["b"]


@pytest.mark.parametrize("given_up", ["a", "b"])
def test_an_orderly_message_that_comes_again_after_a_kill_makes_no_second_one(tmp_path: Path, given_up: str) -> None:
    """Nothing was saved since the group began, so the start does not know that there was a delivery."""
    lab = lab_with(tmp_path, "a", "b", orderly=True)
    (item,) = (one for one in lab.pop(order=True).messages if one.body == given_up)
    assert lab.give_up(item)[1].accepted
    again(lab)
    came = {one.body: one for one in lab.pop(order=True).messages}
    assert set(came) == {"a", "b"}
    assert lab.give_up(came[given_up])[0] is False
    del came[given_up]
    lab.ack_in_order(*came.values())
    lab.clock.advance(120.0)
    assert (lab.bodies(LETTERS), lab.pop(order=True).messages) == ([given_up], [])


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_write_that_a_power_cut_has_torn_is_completed_or_was_never_there(tmp_path: Path, kept: float) -> None:
    lab = lab_with(tmp_path, "a")
    (item,) = lab.pop().messages
    lab.disk.hold()
    assert not lab.give_up(item)[1].answered
    lab.power_cut(kept)
    lab.open()
    lab.give_up(item)
    assert lab.bodies(LETTERS) == ["a"]
    lab.clock.advance(120.0)
    assert lab.bodies(RETRY) == []


def test_a_full_disk_ends_no_delivery(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a")
    (item,) = lab.pop(invisible_ms=5_000).messages
    lab.topics.ensure(LETTERS, 1)
    lab.disk.full = True
    assert not lab.give_up(item)[1].accepted
    lab.disk.full = False
    lab.clock.advance(10.0)
    assert (lab.bodies(LETTERS), lab.bodies(RETRY)) == ([], ["a"])


def test_what_comes_back_waits_for_a_dead_letter_that_is_being_written(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a", "b")
    items = lab.pop(invisible_ms=1_000).messages
    lab.disk.hold()
    _, call = lab.give_up(items[0])
    lab.clock.advance(3.0)
    lab.disk.release()
    lab.clock.advance(3.0)
    assert (call.accepted, lab.bodies(LETTERS), lab.bodies(RETRY)) == (True, ["a"], ["b"])


def test_a_delivery_that_is_over_makes_none(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a")
    (item,) = lab.pop(invisible_ms=100).messages
    lab.clock.advance(1.0)
    assert lab.give_up(item)[0] is False
    (item,) = lab.pop().messages
    assert lab.ack(item).accepted
    assert lab.give_up(item)[0] is False
    assert lab.bodies(LETTERS) == []


def test_an_orderly_message_that_came_again_is_of_its_new_consumer(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a", orderly=True)
    (old,) = lab.pop(invisible_ms=100, order=True).messages
    lab.clock.advance(1.0)
    (new,) = lab.pop(order=True).messages
    assert not lab.give_up(old)[1].accepted
    assert lab.give_up(new)[1].accepted
    assert lab.bodies(LETTERS) == ["a"]


def test_the_log_is_read_again_until_the_files_know_about_an_orderly_dead_letter(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a", orderly=True)
    lab.note()
    (item,) = lab.pop(order=True).messages
    begin = lab.store.appended
    assert lab.give_up(item)[1].accepted
    assert lab.delivered.content()["position"] == begin
    lab.save()
    assert lab.delivered.content()["position"] > begin


def test_a_promoted_broker_takes_no_old_dead_letter_for_one_of_a_new_delivery(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a", orderly=True)
    (item,) = lab.pop(order=True).messages
    assert lab.give_up(item)[1].accepted
    lab.stop()
    lab.open()
    lab.offsets.reset(GROUP, TOPIC, 0, 0)
    lab.stop()
    (lab.root / "gantry" / "delivered").unlink()
    lab.promoted = True
    lab.open()
    lab.offsets.reset(GROUP, TOPIC, 0, 0)
    assert [one.body for one in lab.pop(order=True).messages] == ["a"]


@pytest.mark.parametrize("given_up", ["a", "b"])
def test_nor_after_many_kills(tmp_path: Path, given_up: str) -> None:
    lab = lab_with(tmp_path, "a", "b", orderly=True)
    (item,) = (one for one in lab.pop(order=True).messages if one.body == given_up)
    assert lab.give_up(item)[1].accepted
    for noted in (False, True, False):
        again(lab)
        came = {one.body: one for one in lab.pop(order=True).messages}
        assert lab.give_up(came[given_up])[0] is False
        if noted:
            lab.note()
    lab.ack_in_order(*(one for one in came.values() if one.body != given_up))
    lab.save()
    lab.note()
    assert "givenUp" not in lab.delivered.content(), "the files know about it"
    again(lab)
    lab.clock.advance(120.0)
    assert (lab.bodies(LETTERS), lab.pop(order=True).messages) == ([given_up], [])


def test_its_old_consumer_and_its_new_one_give_an_orderly_message_up_at_the_same_time(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, "a", "b", orderly=True)
    old = lab.pop(order=True).messages[0]
    again(lab)  # nothing was saved, so the old one is not known to be over
    lab.disk.hold()
    calls = [lab.give_up(old)[1]]
    new, other = lab.pop(order=True).messages
    calls.append(lab.give_up(new)[1])
    lab.disk.release()
    assert [call.accepted for call in calls] == [True, True]
    assert lab.bodies(LETTERS) == ["a"]
    lab.ack_in_order(other)
    lab.clock.advance(120.0)
    assert lab.pop(order=True).messages == []


def test_a_dead_letter_of_a_message_that_is_in_no_batch_is_remembered(tmp_path: Path) -> None:
    """Its old consumer asks after a kill, while the group begins with the first message of the queue again."""
    lab = lab_with(tmp_path, "a", "b", "c", orderly=True)
    old = lab.pop(order=True).messages[2]
    again(lab)
    lab.disk.hold()
    _, call = lab.give_up(old)
    (first,) = lab.pop(1, order=True).messages
    lab.disk.release()
    assert (call.accepted, first.body) == (True, "a")
    lab.ack_in_order(first)
    for _ in range(2):
        came = {one.body: one for one in lab.pop(order=True).messages}
        assert lab.give_up(came["c"])[0] is False
        again(lab)
    assert lab.bodies(LETTERS) == ["c"]


def test_a_dead_letter_behind_a_message_in_hand_is_remembered_when_the_files_are_of_different_times(
    tmp_path: Path,
) -> None:
    lab = lab_with(tmp_path, "a", "b", orderly=True)
    _, second = lab.pop(order=True).messages
    assert lab.give_up(second)[1].accepted
    lab.save()
    lab.note()
    (lab.root / "config" / "consumerOrderInfo.json").unlink()  # as if its last write had been lost
    again(lab)
    came = {one.body: one for one in lab.pop(order=True).messages}
    assert set(came) == {"a", "b"} and lab.give_up(came["b"])[0] is False
    assert lab.bodies(LETTERS) == ["b"]
