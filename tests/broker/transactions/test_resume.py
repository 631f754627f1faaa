"""The operation that opens a parked transaction again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.client import Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.resume import ResumeOperation
from gantrymq.message.system_topics import PARKED
from gantrymq.transactions.table.decisions import Cause
from tests.broker.transaction_lab import DONE, Ended, Half, Lab, LabClient

ANN = Operator("ann: ticket 7")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store")


def parked(lab: Lab, half: Half) -> int:
    """Parks a half; the log offset of its parked copy."""
    assert half.stored is not None
    lab.coordinator._endings.park(half.stored, None, Cause.TOO_OLD)
    lab.clock.run()
    return lab.records(PARKED, 0)[-1].log_offset


def resume(lab: Lab, log_offset: int, operator: Operator | None = ANN) -> Ended:
    ended = Ended()
    try:
        ResumeOperation(lab.store, lab.coordinator).resume(LabClient(), log_offset, operator, ended.done)
    except Refused as refused:
        ended.done(refused)
    lab.clock.run()
    return ended


def test_a_parked_transaction_is_open_again_when_it_is_durable(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    half = lab.half()
    place = parked(lab, half)
    lab.disk.hold()
    resumed = resume(lab, place)
    assert resumed.result is None
    lab.disk.release()
    assert resumed.result is DONE
    (again,) = lab.coordinator.table
    assert (again.unique_key, again.queue_offset) == (half.key, 1)
    assert f"half message {half.key} of group PG_lab is open again by operator: ann: ticket 7" in caplog.text


def test_one_that_is_open_already_is_refused(lab: Lab) -> None:
    place = parked(lab, lab.half())
    assert resume(lab, place, None).result is DONE
    again = resume(lab, place)
    assert again.result is Refusal.FAILED and "was resumed before" in again.remark


def test_only_what_is_parked_can_be_resumed(lab: Lab) -> None:
    half = lab.half()
    for log_offset in (half.place[1], half.place[1] + 1, 1 << 40):
        refused = resume(lab, log_offset)
        assert refused.result is Refusal.FAILED and "no parked half message" in refused.remark


def test_what_the_disk_refuses_is_not_resumed(lab: Lab) -> None:
    place = parked(lab, lab.half())
    lab.disk.hold()
    resumed = resume(lab, place)
    lab.disk.release(OSError(5, "input/output error"))
    assert resumed.result is Refusal.FAILED
    assert len(lab.coordinator.table) == 0
