"""Popping over a real store whose disk answers when the test says so."""

from __future__ import annotations

from pathlib import Path

from gantrymq.broker.pop.check_point import (
    APPLIED_GROUP,
    REVIVE_GROUP,
    Ack,
    CheckPoint,
    check_point_body,
    record_properties,
)
from gantrymq.store.values import NewRecord
from tests.broker.pop.lab import GROUP, HOST, TOPIC, Call, Given, PopLab, key_of


def bodies(call: Call) -> list[str]:
    return sorted(item.body for item in call.messages)


def send(lab: PopLab, *names: str) -> None:
    for name in names:
        assert lab.send(name).accepted


def test_nothing_is_handed_out_before_its_check_point_is_on_the_disk(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a", "b")
    lab.disk.hold()
    first, second = lab.pop(1), lab.pop(5)
    assert (first.answered, second.answered, lab.offsets.get(GROUP, TOPIC, 0)) == (False, False, 0)
    lab.disk.release()
    assert (bodies(first), bodies(second), lab.offsets.get(GROUP, TOPIC, 0)) == (["a"], ["b"], 2)


def test_what_was_not_handed_out_is_popped_again_after_a_crash(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a")
    lab.save()
    lab.disk.hold()
    assert not lab.pop().answered
    lab.power_cut(0.0)
    lab.open()
    assert bodies(lab.pop()) == ["a"]


def test_a_full_disk_takes_nothing_away(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a", "b")
    lab.disk.full = True
    call = lab.pop()
    assert call.error is not None
    assert (len(lab.consumption.revive_log.ledger), lab.offsets.get(GROUP, TOPIC, 0)) == (0, 0)
    lab.disk.full = False
    lab.clock.advance(10.0)
    assert bodies(lab.pop()) == ["a", "b"]


def test_a_killed_broker_repeats_neither_what_was_acknowledged_nor_what_is_invisible(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a", "b", "c")
    lab.save()
    call = lab.pop(invisible_ms=10_000)
    assert lab.ack(call.messages[0]).accepted
    lab.crash()
    lab.open()
    assert lab.offsets.get(GROUP, TOPIC, 0) == 3, "as the check points say"
    assert lab.pop().messages == []
    lab.clock.advance(10.0)
    assert bodies(lab.pop()) == ["b", "c"]


def test_what_came_back_does_not_come_back_twice_after_a_crash(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a")
    lab.pop(invisible_ms=100)
    lab.clock.advance(1.0)
    lab.crash()
    lab.open()
    lab.clock.advance(5.0)
    assert bodies(lab.pop()) == ["a"]
    assert lab.bodies(f"%RETRY%{GROUP}_{TOPIC}") == ["a"]


def test_a_popped_message_that_is_given_up_counts_as_a_dead_letter_of_its_topic(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store", retry_max_times=1)
    send(lab, "a", "b")
    lab.pop(invisible_ms=100)
    lab.clock.advance(1.0)
    assert not lab.counters.given_up
    assert sorted(bodies(lab.pop(invisible_ms=100))) == ["a", "b"]
    lab.clock.advance(1.0)
    assert lab.counters.given_up == {(TOPIC, GROUP): 2}
    assert sorted(lab.bodies(f"%DLQ%{GROUP}")) == ["a", "b"]


def test_the_offsets_tell_what_of_the_revive_topic_is_done(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store", revive_queue_num=1)
    send(lab, "a", "b")
    first, second = lab.pop(1), lab.pop(1)
    assert lab.ack(second.messages[0]).accepted
    lab.save()
    revive = lab.consumption.revive_log.topic
    assert lab.offsets.get(REVIVE_GROUP, revive, 0) is None
    assert lab.offsets.get(APPLIED_GROUP, revive, 0) == 2
    assert lab.ack(first.messages[0]).accepted
    lab.save()
    assert lab.offsets.get(REVIVE_GROUP, revive, 0) == 3
    lab.stop()
    lab.open()
    assert len(lab.consumption.revive_log.ledger) == 0


def test_check_points_of_apaches_timer_wait_for_their_acknowledgements(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a", "b")
    lab.offsets.commit(GROUP, TOPIC, 0, 2)
    point = CheckPoint(TOPIC, GROUP, 0, 0, lab.clock.wall_ms() - 10_000, 11_000, "broker-a", (0, 1))
    record = NewRecord(
        lab.consumption.revive_log.topic, 3, check_point_body(point), record_properties("ck", lab.clock.wall), 0, HOST
    )
    lab.store.append([record])
    lab.clock.run()
    assert lab.consumption.revive_log.ledger.get(point.key) is not None
    lab.clock.advance(2.0)
    assert lab.pop().messages == []
    lab.clock.advance(2.0)
    assert bodies(lab.pop()) == ["a", "b"]


def test_an_acknowledgement_of_a_check_point_that_is_still_parked_is_kept(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a", "b")
    (item, _) = lab.pop(invisible_ms=9_000_000).messages
    parked = Given(item.topic, item.message, type(item.handle)(
        0, item.handle.pop_time - 5000, 20_000, 2, "0", "broker-a", 0, 0
    ))  # fmt: skip
    assert lab.ack(parked).accepted
    point = CheckPoint(TOPIC, GROUP, 0, 0, parked.handle.pop_time, 20_000, "broker-a", (0, 1))
    record = NewRecord(
        lab.consumption.revive_log.topic, 2, check_point_body(point), record_properties("ck", lab.clock.wall), 0, HOST
    )
    lab.store.append([record])
    lab.clock.run()
    opened = lab.consumption.revive_log.ledger.get(key_of(parked))
    assert opened is not None
    assert opened.pending == {1}


def test_a_damaged_record_of_the_revive_topic_stops_nobody(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    record = NewRecord(lab.consumption.revive_log.topic, 0, b"{", record_properties("ck", 1), 0, HOST)
    lab.store.append([record])
    lab.clock.run()
    send(lab, "a")
    assert bodies(lab.pop()) == ["a"]


def test_what_a_deleted_group_popped_is_dropped(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    send(lab, "a")
    lab.pop(invisible_ms=100)
    lab.groups.delete(GROUP)
    lab.clock.advance(1.0)
    assert len(lab.consumption.revive_log.ledger) == 0
    assert not lab.topics.exists(f"%RETRY%{GROUP}_{TOPIC}")


def test_a_large_backlog_comes_back_in_pieces(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    for number in range(300):
        lab.send(f"{number}")
    for _ in range(10):
        lab.pop(invisible_ms=100)
    lab.clock.advance(1.0)
    assert len(lab.bodies(f"%RETRY%{GROUP}_{TOPIC}")) == 300


def test_orderly_pops_survive_a_stop(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store", queues=1)
    send(lab, "a", "b")
    assert bodies(lab.pop(1, 5_000, order=True)) == ["a"]
    lab.stop()
    lab.open()
    assert lab.pop(1, order=True).messages == []
    lab.clock.advance(5.0)
    assert bodies(lab.pop(1, order=True)) == ["a"]


def test_acknowledgements_of_one_turn_are_one_record(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store", revive_queue_num=1)
    send(lab, "a", "b", "c")
    items = lab.pop().messages
    done: list[object] = []
    for item in items:
        receipt = (item.handle.revive_queue, item.handle.visible_at, Ack(key_of(item), (item.handle.offset,)))
        lab.consumption.deliveries.ack([receipt], done.append)
    assert not lab.consumption.deliveries.change(
        TOPIC, GROUP, 0, 0, items[0].handle, 5, suspend=False, done=lambda _, error: None
    )
    lab.clock.run()
    assert done == [None, None, None]
    assert lab.store.queue_range(lab.consumption.revive_log.topic, 0) == (0, 2)
    assert len(lab.consumption.revive_log.ledger) == 0
