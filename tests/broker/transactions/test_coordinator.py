"""Half messages are stored, repeated ones are joined, and all are known again after a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gantrymq.broker.refusal import Refusal
from gantrymq.errors import DiskFull, MessageIllegal, StoreUnavailable
from gantrymq.message.system_topics import HALF, OP
from tests.broker.transaction_lab import DONE, GROUP, Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store")


def restart(lab: Lab, *, decisions_file: bool = True) -> None:
    """Kill the process, and start it again."""
    lab.coordinator.close()
    saved = lab.root / "gantry" / "decisions"
    if not decisions_file:
        saved.unlink(missing_ok=True)
    lab.crash()
    lab.open()


def test_g1_a_half_is_answered_when_it_is_durable_and_no_consumer_sees_it(lab: Lab) -> None:
    """G1 to G3."""
    lab.disk.hold()
    half = lab.half()
    assert half.answered == 0
    lab.disk.release()
    assert half.answered == 1
    assert half.error is None
    assert half.place == (0, lab.halves()[0].log_offset)
    assert lab.delivered() == []
    assert len(lab.coordinator.table) == 1


def test_a_half_that_the_disk_refused_is_no_half(lab: Lab) -> None:
    lab.disk.full = True
    half = lab.half()
    assert isinstance(half.error, DiskFull)
    assert len(lab.coordinator.table) == 0
    lab.disk.full = False
    again = lab.half(key=half.key)
    assert again.error is None
    assert again.place[0] == 0


def test_a_store_that_takes_no_writes_refuses_a_half_at_once(lab: Lab) -> None:
    lab.disk.hold()
    lab.half()
    lab.disk.release(OSError(5, "input/output error"))
    with pytest.raises(StoreUnavailable):
        lab.half()
    assert len(lab.coordinator.table) == 0


def test_g43_hole15_a_retried_half_joins_the_first_one(lab: Lab) -> None:
    """G43: two sends with one key, one delivery."""
    session = lab.online()
    first = lab.half(key="K")
    again = lab.half(key="K")
    assert again.place == first.place
    assert len(lab.halves()) == 1
    lab.commit(session, again)
    assert len(lab.delivered()) == 1
    assert lab.coordinator.counts.joined == 1


@pytest.mark.parametrize("in_memory", [True, False])
def test_hole15_another_message_under_the_key_of_an_open_one_is_refused(lab: Lab, in_memory: bool) -> None:
    """Joined it would be lost, and its commit would deliver the other one."""
    half = lab.half(key="K", body=b"first")
    assert half.stored is not None
    if not in_memory:
        half.stored.record = None
    with pytest.raises(MessageIllegal, match="still open"):
        lab.half(key="K", body=b"other")
    with pytest.raises(MessageIllegal, match="still open"):
        lab.coordinator.put_half(replace(lab.message("K", b"first"), topic="Elsewhere"), GROUP, "K", half.done)
    assert lab.half(key="K", body=b"first").place == half.place
    assert len(lab.coordinator.table) == len(lab.halves()) == 1


def test_hole15_a_retry_joins_a_half_that_is_not_durable_yet(lab: Lab) -> None:
    lab.disk.hold()
    first = lab.half(key="K")
    again = lab.half(key="K")
    assert (first.answered, again.answered) == (0, 0)
    lab.disk.release()
    assert again.place == first.place
    assert len(lab.halves()) == 1


def test_hole15_when_the_first_half_fails_its_retries_fail_with_it(lab: Lab) -> None:
    lab.disk.hold()
    first = lab.half(key="K")
    again = lab.half(key="K")
    lab.disk.release(OSError(5, "input/output error"))
    assert first.error is not None
    assert again.error is not None
    assert len(lab.coordinator.table) == 0


def test_after_the_decision_the_same_key_is_a_new_transaction(lab: Lab) -> None:
    """A client that sends a message object again reuses its key; its message must not be swallowed."""
    session = lab.online()
    lab.disk.hold()
    first = lab.half(key="K")
    lab.disk.release()
    lab.disk.hold()
    lab.commit(session, first)
    second = lab.half(key="K")  # while the first commit still waits for the disk
    lab.disk.release()
    assert second.place != first.place
    lab.commit(session, second)
    third = lab.half(key="K")
    lab.commit(session, third)
    assert len(lab.delivered()) == 3


def test_the_same_key_of_another_group_is_another_transaction(lab: Lab) -> None:
    lab.half(key="K")
    results = []
    lab.coordinator.put_half(lab.message("K"), "other", "K", lambda half, error: results.append(half))
    lab.clock.run()
    assert len(lab.halves()) == 2
    assert len(lab.coordinator.table) == 2


def test_halves_without_a_key_never_join(lab: Lab) -> None:
    for _ in range(2):
        lab.coordinator.put_half(lab.message(""), GROUP, "", lambda half, error: None)
    lab.clock.run()
    assert len(lab.coordinator.table) == 2


@pytest.mark.parametrize("decisions_file", [True, False])
def test_open_halves_and_decisions_survive_a_restart(lab: Lab, decisions_file: bool) -> None:
    session = lab.online()
    committed, rolled_back, still_open = lab.half(), lab.half(), lab.half()
    lab.commit(session, committed)
    lab.roll_back(session, rolled_back)
    restart(lab, decisions_file=decisions_file)
    assert [half.queue_offset for half in lab.coordinator.table] == [still_open.place[0]]
    assert lab.commit(session, committed).result is DONE
    assert lab.roll_back(session, committed).result is Refusal.CONFLICT
    assert lab.commit(session, rolled_back).result is Refusal.CONFLICT
    assert lab.commit(session, still_open).result is DONE
    assert len(lab.delivered()) == 2


def test_g38_an_orderly_stop_right_after_a_commit_leads_to_no_check(lab: Lab) -> None:
    session = lab.online()
    lab.commit(session, lab.half())
    restart(lab)
    lab.clock.advance(1_000)
    assert session.checks() == []
    assert len(lab.delivered()) == 1


def test_a_damaged_decisions_file_costs_time_and_nothing_else(lab: Lab) -> None:
    session = lab.online()
    half = lab.half()
    lab.commit(session, half)
    lab.coordinator.close()
    saved = lab.root / "gantry" / "decisions"
    saved.write_bytes(saved.read_bytes()[:-1])
    lab.crash()
    lab.open()
    assert lab.roll_back(session, half).result is Refusal.CONFLICT
    assert not saved.exists()


def test_the_decisions_file_of_another_store_is_not_believed(lab: Lab, tmp_path: Path) -> None:
    """Hole 12: the store was put back to an earlier copy; its halves are open whatever newer files say."""
    session = lab.online()
    half = lab.half()
    lab.commit(session, half)
    lab.coordinator.close()
    newer = (lab.root / "gantry" / "decisions").read_bytes()
    other = Lab(tmp_path / "other")
    undecided = other.half()
    other.coordinator.close()
    (other.root / "gantry" / "decisions").write_bytes(newer)
    other.crash()
    other.open()
    assert undecided.place[0] in other.coordinator.table


def test_the_decisions_are_written_while_the_broker_runs(lab: Lab) -> None:
    session = lab.online()
    lab.commit(session, lab.half())
    lab.clock.advance(61)
    assert (lab.root / "gantry" / "decisions").exists()
    lab.crash()  # killed: no close
    lab.open()
    assert len(lab.coordinator.table) == 0


def test_g5_offsets_for_an_apache_broker_follow_the_oldest_open_half(lab: Lab) -> None:
    session = lab.online()
    halves = [lab.half() for _ in range(4)]
    lab.commit(session, halves[0])
    lab.commit(session, halves[1])
    lab.commit(session, halves[3])
    lab.clock.advance(5)
    assert lab.offsets.committed[HALF] == 2
    # The ops of halves 0, 1 and 3 all lie behind half 2 in the log, so all may be needed.
    assert lab.offsets.committed[OP] == 0
    lab.roll_back(session, halves[2])
    lab.clock.advance(5)
    assert lab.offsets.committed == {HALF: 4, OP: 4}


def test_g44_retention_stops_at_the_oldest_open_half(lab: Lab) -> None:
    session = lab.online()
    assert lab.coordinator.oldest_open_log_offset() is None
    first, second = lab.half(), lab.half()
    assert lab.coordinator.oldest_open_log_offset() == first.place[1]
    lab.commit(session, first)
    assert lab.coordinator.oldest_open_log_offset() == second.place[1]
    lab.roll_back(session, second)
    assert lab.coordinator.oldest_open_log_offset() is None
