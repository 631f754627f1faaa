"""A power cut at every place of the log: one half never gives two final messages, and nothing acknowledged is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gantrymq.broker.refusal import Refusal
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.stored_message import scan
from gantrymq.store.config import FlushDiskType
from tests.broker.transaction_lab import DONE, Lab

STEP_BYTES = 37
"""Between two cuts inside of records; the borders of records are always among them."""


def cut_log(root: Path, target: Path, end: int) -> None:
    """A copy of a killed store whose log holds nothing behind ``end``."""
    shutil.copytree(root, target)
    (log,) = (target / "commitlog").iterdir()
    data = bytearray(log.read_bytes())
    data[end:] = bytes(len(data) - end)
    log.write_bytes(bytes(data))


def records_of(root: Path, first: int, last: int) -> list[StoredMessage]:
    """What lies between two places of the log."""
    (log,) = (root / "commitlog").iterdir()
    return list(scan(log.read_bytes()[first:last]))


def places(root: Path, first: int, last: int) -> list[int]:
    """Borders of records, and places inside of them."""
    borders = {record.log_offset for record in records_of(root, first, last)} | {last}
    return sorted(borders | set(range(first, last, STEP_BYTES)))


@pytest.mark.parametrize("decision", ["commit", "roll_back"])
def test_g37_a_cut_at_any_place_of_a_decision_leaves_one_outcome(tmp_path: Path, decision: str) -> None:
    """G37: after the restart the decision is repeated, as a client without an answer does."""
    lab = Lab(tmp_path / "store")
    session = lab.online()
    half, other = lab.half(), lab.half()
    before = lab.store.max_log_offset
    lab.disk.hold()
    getattr(lab, decision)(session, half)
    end = lab.store.written
    lab.crash()
    outcomes = set()
    for number, cut in enumerate(places(lab.root, before, end)):
        root = tmp_path / f"cut{number}"
        cut_log(lab.root, root, cut)
        again = Lab(root)
        session = again.online()
        left_open = len(again.coordinator.table) == 2
        outcomes.add(left_open)
        assert len(again.delivered()) == (0 if left_open or decision == "roll_back" else 1)
        assert getattr(again, decision)(session, half).result is DONE, cut
        opposite = again.roll_back if decision == "commit" else again.commit
        assert opposite(session, half).result is Refusal.CONFLICT
        assert len(again.delivered()) == (1 if decision == "commit" else 0), cut
        assert len(again.ops()) == 1
        assert [left.queue_offset for left in again.coordinator.table] == [other.place[0]]
        again.crash()
        shutil.rmtree(root)
    assert outcomes == {True, False}, "some cuts lose the decision, some keep it"


def test_a_cut_at_any_place_of_a_half_leaves_a_whole_half_or_none(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "store")
    lab.half()
    before = lab.store.max_log_offset
    lab.disk.hold()
    second = lab.half()
    end = lab.store.written
    lab.crash()
    for number, cut in enumerate(places(lab.root, before, end)):
        root = tmp_path / f"cut{number}"
        cut_log(lab.root, root, cut)
        again = Lab(root)
        kept = [left.queue_offset for left in again.coordinator.table]
        assert kept == ([0, 1] if cut == end else [0])
        assert again.half(key=second.key).place == (1, before)
        assert len(again.halves()) == 2
        again.crash()
        shutil.rmtree(root)


def test_hole12_a_decisions_file_that_is_newer_than_the_log_is_not_believed(tmp_path: Path) -> None:
    """A power cut took the tail of the log, but not the file: the half is open again, and is checked."""
    lab = Lab(tmp_path / "store", flush=FlushDiskType.ASYNC_FLUSH)
    session = lab.online()
    half = lab.half()
    lab.disk.hold()
    before = lab.store.max_log_offset
    lab.commit(session, half)
    lab.coordinator.close()
    lab.crash()
    root = tmp_path / "cut"
    cut_log(lab.root, root, before)
    again = Lab(root)
    assert [left.queue_offset for left in again.coordinator.table] == [half.place[0]]
    session = again.online()
    again.clock.advance(6)
    assert len(session.checks()) == 1
