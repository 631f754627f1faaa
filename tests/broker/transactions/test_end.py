"""The operation that ends a transaction: the first decision wins, and only a half's group or its sender ends it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gantrymq.broker.refusal import Refusal
from gantrymq.message import flags, properties
from gantrymq.message.transaction import Resolution
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records.half import op_record
from gantrymq.transactions.table.decisions import Decision
from tests.broker.transaction_lab import DONE, HOST, TOPIC, Lab, LabClient


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store")


@pytest.fixture
def session(lab: Lab) -> LabClient:
    return lab.online()


def test_g8_a_commit_delivers_one_message_and_one_op(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    ended = lab.commit(session, half)
    assert ended.result is DONE
    (final,) = lab.delivered()
    (op,) = lab.ops()
    assert final.body == b"paid"
    assert flags.transaction_type(final.sys_flag) == flags.COMMITTED
    assert final.prepared_transaction_offset == half.place[1]
    assert op.body == b"0"
    assert op.log_offset == final.log_offset + final.size
    assert len(lab.coordinator.table) == 0


def test_a_commit_is_answered_when_it_is_durable(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.disk.hold()
    ended = lab.commit(session, half)
    assert ended.result is None
    lab.disk.release()
    assert ended.result is DONE


def test_g10_a_rollback_delivers_nothing(lab: Lab, session: LabClient) -> None:
    ended = lab.roll_back(session, lab.half())
    assert (ended.result, ended.remark) == (DONE, "")
    assert lab.delivered() == []
    assert [op.body for op in lab.ops()] == [b"0"]


def test_a_one_way_end_is_executed_and_not_answered(lab: Lab, session: LabClient) -> None:
    ended = lab.commit(session, lab.half(), one_way=True)
    assert ended.result is None
    assert len(lab.delivered()) == 1


@pytest.mark.parametrize("one_way", [True, False])
@pytest.mark.parametrize("check", [True, False])
def test_g9_unknown_changes_nothing(lab: Lab, session: LabClient, check: bool, one_way: bool) -> None:
    half = lab.half()
    ended = lab.end(session, half, Resolution.UNKNOWN, check=check, one_way=one_way)
    assert ended.result in (None, DONE)
    assert len(lab.coordinator.table) == 1
    assert lab.ops() == []


def test_g35_hole2_the_same_commit_twice_delivers_once(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    assert [lab.commit(session, half).result for _ in range(3)] == [DONE] * 3
    assert len(lab.delivered()) == 1
    assert len(lab.ops()) == 1
    assert lab.coordinator.counts.repeated == 2


def test_g35_hole2_a_commit_after_a_rollback_is_refused(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.roll_back(session, half)
    ended = lab.commit(session, half)
    assert ended.result is Refusal.CONFLICT
    when = datetime.fromtimestamp(lab.ops()[0].store_timestamp / 1000, UTC)
    assert f"ROLLED_BACK since {when.isoformat(timespec='milliseconds')}" in ended.remark
    assert lab.delivered() == []
    assert lab.coordinator.counts.conflicts == 1


def test_g35_hole2_a_rollback_after_a_commit_is_refused(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.commit(session, half)
    assert lab.roll_back(session, half).result is Refusal.CONFLICT
    assert len(lab.delivered()) == 1


def test_decisions_that_come_while_the_first_waits_for_the_disk_wait_too(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.disk.hold()
    ends = [lab.commit(session, half), lab.commit(session, half), lab.roll_back(session, half)]
    assert [ended.result for ended in ends] == [None, None, None]
    lab.disk.release()
    assert [ended.result for ended in ends] == [
        DONE, DONE, Refusal.CONFLICT,
    ]  # fmt: skip
    assert len(lab.delivered()) == 1
    assert len(lab.ops()) == 1


def test_g39_a_decision_that_the_disk_refused_leaves_the_half_open(lab: Lab, session: LabClient) -> None:
    """G39: no duplicate, no loss."""
    half = lab.half()
    lab.disk.full = True
    ended = lab.commit(session, half)
    assert ended.result is Refusal.UNAVAILABLE
    assert len(lab.coordinator.table) == 1
    assert lab.delivered() == []
    lab.disk.full = False
    assert lab.commit(session, half).result is DONE
    assert len(lab.delivered()) == 1


def test_after_a_failed_decision_the_next_in_line_decides(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.disk.full = True
    queue_offset, log_offset = half.place
    first = lab.coordinator.table.at(queue_offset, log_offset)
    assert first is not None
    lab.disk.full = False
    lab.disk.hold()
    commit, rollback = lab.commit(session, half), lab.roll_back(session, half)
    lab.disk.release(OSError(5, "input/output error"))
    assert commit.result is not DONE
    assert rollback.result is not DONE  # the store takes no more writes after a failed sync
    assert len(lab.coordinator.table) == 1


def test_hole21_the_wrong_group_is_refused(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    stranger = lab.online("other")
    ended = lab.end(stranger, half, Resolution.COMMIT, group="other")
    assert ended.result is Refusal.FAILED
    assert "The producer group wrong" in ended.remark
    assert lab.delivered() == []


def test_g46_hole21_a_session_that_is_not_of_the_group_is_refused(lab: Lab) -> None:
    half = lab.half()
    ended = lab.commit(LabClient(), half)
    assert ended.result is Refusal.FAILED
    assert "heartbeat" in ended.remark
    assert lab.ops() == []
    assert lab.coordinator.counts.refused == 1


def test_the_connection_that_sent_a_half_may_end_it_before_its_first_heartbeat(lab: Lab) -> None:
    """Golden row 7: clients 4.9 send their first heartbeat a second after the first message."""
    session, other = LabClient(), LabClient("192.0.2.2:40000")
    half = lab.half(session)
    assert lab.commit(other, half).result is Refusal.FAILED
    assert lab.commit(session, half).result is DONE
    assert lab.commit(session, half).result is DONE, "and hears how it ended"
    assert lab.roll_back(session, half).result is Refusal.CONFLICT
    assert lab.commit(other, half).result is Refusal.FAILED, "a stranger hears nothing"


def test_g46_hole21_offsets_that_name_no_half_are_refused(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.commit(session, half)
    opened = lab.half()
    (final,) = lab.delivered()
    (op,) = lab.ops()
    queue_offset, log_offset = opened.place
    forged = [
        (queue_offset, log_offset + 1),
        (queue_offset + 1, log_offset),
        (half.place[0], log_offset),
        (queue_offset, half.place[1]),
        (final.queue_offset, final.log_offset),
        (op.queue_offset, op.log_offset),
        (-1, -1),
        (2**62, 2**62),
    ]
    before = lab.store.max_log_offset
    for place in forged:
        for resolution in (Resolution.COMMIT, Resolution.ROLLBACK):
            ended = lab.end(session, opened, resolution, place=place)
            assert ended.result is Refusal.FAILED, place
    assert lab.store.max_log_offset == before
    assert len(lab.coordinator.table) == 1


def test_hole21_a_record_inside_a_body_cannot_be_committed(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    stored = lab.store.read(half.place[1])
    assert stored is not None
    forged = b"x" * 40 + b"paid"
    (placed,) = lab.store.append(
        [NewRecord(topic=TOPIC, queue_id=0, body=forged, properties="", born_timestamp=0, born_host=HOST)]
    )
    lab.clock.run()
    ended = lab.end(session, half, Resolution.COMMIT, place=(half.place[0], placed.log_offset + 40))
    assert ended.result is Refusal.FAILED


def test_x4_a_commit_to_a_deleted_topic_is_refused_and_the_half_stays(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    config = lab.topics.pop(TOPIC)
    ended = lab.commit(session, half)
    assert ended.result is Refusal.TOPIC_UNKNOWN
    assert len(lab.coordinator.table) == 1
    lab.topics[TOPIC] = config
    assert lab.commit(session, half).result is DONE
    assert len(lab.delivered()) == 1


def test_x4_a_topic_with_fewer_queues_gets_the_message_where_it_is_read(lab: Lab, session: LabClient) -> None:
    """Half messages of the lab are for queue 1."""
    first, second = lab.half(), lab.half()
    lab.commit(session, first)
    lab.topics[TOPIC].read_queue_nums = 1
    lab.commit(session, second)
    assert (len(lab.delivered(queue_id=1)), len(lab.delivered(queue_id=0))) == (1, 1)


def test_a_deleted_topic_does_not_stop_a_rollback(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    lab.topics.clear()
    assert lab.roll_back(session, half).result is DONE


def test_hole23_a_late_decision_is_accepted(lab: Lab, session: LabClient) -> None:
    half = lab.half(CHECK_IMMUNITY_TIME_IN_SECONDS="3")
    lab.clock.advance(60)
    assert lab.commit(session, half).result is DONE
    assert len(lab.delivered()) == 1


def test_g50_a_committed_message_equals_what_was_sent(lab: Lab, session: LabClient) -> None:
    record = lab.message("K", b"\x78\x9c compressed", KEYS="a b", colour="green")
    record.flag, record.sys_flag, record.reconsume_times = 777, flags.PREPARED | flags.COMPRESSED, 3
    half = lab.half(key="K0")
    lab.coordinator.put_half(record, "PG_lab", "K", half.done)
    lab.clock.run()
    lab.commit(session, half, named="K")
    (final,) = lab.delivered()
    assert (final.body, final.flag, final.reconsume_times) == (b"\x78\x9c compressed", 777, 3)
    assert (final.born_timestamp, final.born_host) == (record.born_timestamp, "127.0.0.1:30911")
    assert final.sys_flag == flags.COMPRESSED | flags.COMMITTED
    assert properties.decode(final.properties_text) == properties.decode(record.properties) | {"__transactionId__": "K"}


def test_a_half_that_left_memory_is_committed_from_the_log(lab: Lab, session: LabClient) -> None:
    half = lab.half()
    assert half.stored is not None
    half.stored.record = None
    lab.commit(session, half)
    assert [final.body for final in lab.delivered()] == [b"paid"]


def test_the_time_of_an_old_decision_is_not_looked_for_without_end(lab: Lab, session: LabClient) -> None:
    old = lab.half()
    lab.commit(session, old)
    others = (op_record(number, Decision.ROLLED_BACK, lab.clock.wall, HOST) for number in range(1, 2_001))
    lab.store.append(list(others))
    lab.clock.run()
    assert "since an earlier time" in lab.roll_back(session, old).remark


def test_a_decision_in_line_whose_half_is_damaged_is_answered(lab: Lab, session: LabClient) -> None:
    """The first decision fails, and the second finds a half that the disk has lost meanwhile."""
    half = lab.half(body=b"x" * 100)
    assert half.stored is not None
    lab.disk.hold()
    first = lab.commit(session, half)
    second = lab.commit(session, half)
    half.stored.record = None
    with next((lab.root / "commitlog").iterdir()).open("r+b") as log:
        log.seek(half.place[1] + 100)
        log.write(b"damage")
    lab.disk.release(OSError(5, "input/output error"))
    assert first.result is Refusal.UNAVAILABLE
    assert second.result is Refusal.FAILED
    assert "no longer there" in second.remark


def test_a_decision_by_a_person_is_logged_with_who_and_why(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    session, half = lab.online(), lab.half()
    assert lab.end(session, half, Resolution.COMMIT, check=True, operator="ada: ticket 4711").result is DONE
    (said,) = [record.getMessage() for record in caplog.records if "ticket 4711" in record.getMessage()]
    assert said.startswith("COMMIT") and half.key in said and "ada" in said


@pytest.mark.parametrize("in_memory", [True, False])
def test_hole21_the_sender_may_end_on_another_connection_by_the_id_that_it_alone_has(lab: Lab, in_memory: bool) -> None:
    """Clients with the "VIP channel" send to the fast port, and the end to the other, before any heartbeat there."""
    other, elsewhere = LabClient(), LabClient("198.51.100.7:40000")
    half = lab.half(LabClient())
    assert half.stored is not None
    if not in_memory:
        half.stored.record = None
    assert lab.commit(elsewhere, half).result is Refusal.FAILED
    assert lab.commit(other, half, named="KEY").result is Refusal.FAILED
    assert lab.commit(other, half, named="").result is Refusal.FAILED
    assert lab.commit(other, half, check=True).result is Refusal.FAILED, "nobody asked there"
    assert lab.delivered() == []
    assert lab.commit(other, half).result is DONE
    assert len(lab.delivered()) == 1


def test_an_end_means_the_transaction_it_names_and_not_what_lies_in_its_place_now(lab: Lab) -> None:
    """The log lost its end, with a half whose sender is alive; the next one lies where it lay. Found by simulation."""
    session = lab.online()
    half = lab.half(session)
    for resolution in (Resolution.COMMIT, Resolution.ROLLBACK):
        ended = lab.end(session, half, resolution, named="the key of the lost one")
        assert ended.result is Refusal.FAILED and "no half message" in ended.remark
    assert lab.delivered() == [] and len(lab.coordinator.table) == 1
    assert lab.end(session, half, Resolution.COMMIT, named="").result is DONE, "names none: the place counts"
    assert len(lab.delivered()) == 1
