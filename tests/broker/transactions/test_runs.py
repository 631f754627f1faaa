"""Many half messages in one append, and many commits: as if they came one by one, wherever the process dies."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from gantrymq.broker.refusal import Refused
from gantrymq.broker.transactions.end_many import ManyEnds
from gantrymq.errors import StoreError
from gantrymq.message.transaction import HalfEnd, Resolution
from gantrymq.store.config import FlushDiskType
from gantrymq.transactions.records.half import OP_BYTES_MAX
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.broker.test_transaction_crashes import cut_log, places, records_of
from tests.broker.transaction_lab import GROUP, TOPIC, Lab, LabClient

COMMON = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x01600\x02"
KEYS = ("K1", "K2", "K3", "K4")
Found = list[tuple[Sequence[OpenHalf], StoreError | None]]


def put(lab: Lab, session: LabClient, *keys: str) -> Found:
    """What the sender of a run hears; nothing when it was not taken as a run."""
    found: Found = []
    items = [(b"b-" + key.encode(), f"TAGS\x01t\x02UNIQ_KEY\x01{key}\x02{COMMON}", 0, key, None) for key in keys]
    birth = (1, session.host, 0, 4, 0)
    taken = lab.coordinator.put_run(
        TOPIC, 1, GROUP, items, COMMON, birth, lambda halves, error: found.append((halves, error))
    )
    lab.clock.run()
    assert taken or not found
    return found


def commit(lab: Lab, session: LabClient, ends: list[HalfEnd]) -> list[list[Refused | None]]:
    """The answers to a request."""
    found: list[list[Refused | None]] = []
    request = ManyEnds(GROUP, ends, Resolution.COMMIT)
    lab.coordinator.ends_many.end(session, request, lambda results: found.append(list(results)))
    lab.clock.run()
    return found


def opened(root: Path) -> Lab:
    """With a half queue, as only the first half message of a broker finds none."""
    lab = Lab(root)
    session = lab.online()
    lab.roll_back(session, lab.half())
    lab.offline(session)
    return lab


def ends_of(halves: Sequence[OpenHalf]) -> list[HalfEnd]:
    return [HalfEnd(*half.place, half.unique_key) for half in halves]


def test_a_run_has_the_life_of_single_half_messages(tmp_path: Path) -> None:
    lab = opened(tmp_path / "store")
    session = lab.online()
    ((halves, error),) = put(lab, session, *KEYS)
    assert (error, [half.state for half in halves]) == (None, [State.OPEN] * 4)
    assert lab.coordinator.counts.halves == 5
    assert put(lab, session, "K5", "K1") == []  # K1 is open: it is joined, one by one
    assert commit(lab, session, ends_of(halves)) == [[None] * 4]
    assert [message.body for message in lab.delivered()] == [b"b-" + key.encode() for key in KEYS]
    assert (len(lab.coordinator.table), lab.coordinator.counts.commits) == (0, 4)
    assert commit(lab, session, ends_of(halves)) == [[None] * 4]
    assert len(lab.delivered()) == 4


def test_halves_of_a_run_that_nobody_ends_are_asked_about_when_their_immunity_is_over(tmp_path: Path) -> None:
    lab = opened(tmp_path / "store")
    session = lab.online()
    put(lab, session, *KEYS)
    lab.clock.advance(599)
    assert session.checks() == []
    lab.clock.advance(2)
    assert sorted(check.unique_key for check, _ in session.checks()) == sorted(KEYS)


def test_a_half_message_that_is_named_twice_is_committed_once(tmp_path: Path) -> None:
    lab = opened(tmp_path / "store")
    session = lab.online()
    ((halves, _),) = put(lab, session, *KEYS)
    first, *rest = ends_of(halves)
    assert commit(lab, session, [first, *rest, first]) == [[None] * 5]
    assert len(lab.delivered()) == 4


def test_a_run_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    lab = opened(tmp_path / "store")
    session = lab.online()
    ((halves, _),) = put(lab, session, *KEYS)
    lab.disk.full = True
    ((none, error),) = put(lab, session, "K8", "K9")
    assert (isinstance(error, StoreError), [half.state for half in none]) == (True, [State.LOST] * 2)
    (refused,) = commit(lab, session, ends_of(halves))
    assert [each is not None and "still open" in each.remark for each in refused] == [True] * 4
    lab.disk.full = False
    assert [half.state for half in lab.coordinator.table] == [State.OPEN] * 4
    assert commit(lab, session, ends_of(halves)) == [[None] * 4]
    assert len(lab.delivered()) == 4


@pytest.mark.slow
def test_a_cut_at_any_place_of_a_run_of_commits_leaves_one_outcome_for_each(tmp_path: Path) -> None:
    lab = opened(tmp_path / "store")
    session = lab.online()
    ((halves, _),) = put(lab, session, *KEYS)
    ends = ends_of(halves)
    before = lab.store.max_log_offset
    lab.disk.hold()
    commit(lab, session, ends)
    end = lab.store.written
    lab.crash()
    delivered = set()
    for number, cut in enumerate(places(lab.root, before, end)):
        root = tmp_path / f"cut{number}"
        cut_log(lab.root, root, cut)
        again = Lab(root, flush=FlushDiskType.ASYNC_FLUSH)
        session = again.online()
        found = len(again.delivered())
        delivered.add(found)
        assert len(again.coordinator.table) == 4 - found, cut
        assert commit(again, session, ends) == [[None] * 4], cut
        assert sorted(message.body for message in again.delivered()) == [b"b-" + key.encode() for key in KEYS], cut
        again.crash()
        shutil.rmtree(root)
    assert delivered == {0, 1, 2, 3, 4}


@pytest.mark.slow
def test_a_cut_within_the_op_messages_of_a_long_run_leaves_one_outcome_for_each(tmp_path: Path) -> None:
    """All final messages are there, and their op messages are missing, or the second of them."""
    lab = opened(tmp_path / "store")
    session = lab.online()
    count = OP_BYTES_MAX // 16 + 2
    ((halves, _),) = put(lab, session, *[f"K{number}" for number in range(count)])
    ends = ends_of(halves)
    before = lab.store.max_log_offset
    lab.disk.hold()
    commit(lab, session, ends)
    end = lab.store.written
    lab.crash()
    *_, last, first_op, second_op = [record.log_offset for record in records_of(lab.root, before, end)]
    for cut, completed in ((last, count - 1), (first_op, count), (first_op + 300, count), (second_op, 2), (end, 0)):
        root = tmp_path / f"cut{cut}"
        cut_log(lab.root, root, cut)
        again = Lab(root, flush=FlushDiskType.ASYNC_FLUSH)
        assert again.coordinator.counts.completed_at_start == completed, cut
        assert [half.unique_key for half in again.coordinator.table] == [f"K{count - 1}"] * (cut == last)
        assert commit(again, again.online(), ends) == [[None] * count], cut
        assert len(again.delivered()) == count
        again.crash()


@pytest.mark.slow
def test_a_cut_at_any_place_of_a_run_leaves_whole_half_messages(tmp_path: Path) -> None:
    lab = opened(tmp_path / "store")
    session = lab.online()
    before = lab.store.max_log_offset
    lab.disk.hold()
    put(lab, session, *KEYS)
    end = lab.store.written
    lab.crash()
    kept = set()
    for number, cut in enumerate(places(lab.root, before, end)):
        root = tmp_path / f"cut{number}"
        cut_log(lab.root, root, cut)
        again = Lab(root)
        keys = [half.unique_key for half in again.coordinator.table]
        assert keys == list(KEYS[: len(keys)]), cut
        kept.add(len(keys))
        again.crash()
        shutil.rmtree(root)
    assert kept == {0, 1, 2, 3, 4}
