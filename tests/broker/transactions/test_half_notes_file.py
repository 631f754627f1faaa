"""The file of half notes: a start with the file, even if it is damaged, finds the same table as a start without it."""

from __future__ import annotations

import shutil
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.broker.refusal import Refusal
from gantrymq.broker.transactions.half_notes_file import NOTES_PER_TURN, HalfNotesFile
from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import Resolution
from gantrymq.store.config import FlushDiskType
from gantrymq.transactions.rebuild import Rebuilt, rebuild
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.broker.transaction_lab import DONE, GROUP, TOPIC, Half, Lab
from tests.support.halves import half_record

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["half", "commit", "roll back"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["wait", "stop", "kill", "cut", "keep a copy"]), st.integers(0, 9)),
    ),
    min_size=5,
    max_size=40,
)
FATES = st.sampled_from(["kept", "torn", "flipped", "older", "foreign", "gone", "without decisions"])


def facts(half: OpenHalf) -> tuple[Any, ...]:
    return (
        half.queue_offset, half.log_offset, half.group, half.unique_key, half.real_topic, half.real_queue_id,
        half.stored_at, half.immunity_ms, half.own_immunity_ms, half.state, half.copies,
    )  # fmt: skip


def all_facts(found: Rebuilt) -> list[tuple[Any, ...]]:
    return [facts(half) for half in found.table]


def notes_path(lab: Lab) -> Path:
    return lab.root / "gantry" / "open-halves"


class Life:
    """Steps on a lab, with a copy of the notes as they once were."""

    def __init__(self, root: Path) -> None:
        self.lab = Lab(root, flush=FlushDiskType.ASYNC_FLUSH, timeout_ms=3_600_000)
        self.session = self.lab.online()
        self.halves: list[Half] = []
        self.older = b""

    def step(self, what: str, number: int) -> None:
        lab = self.lab
        if what == "half":
            more = {"CHECK_IMMUNITY_TIME_IN_SECONDS": str(number)} if number > 6 else {}
            self.halves += [lab.half(**more) for _ in range(number + 1)]
        elif what in ("commit", "roll back"):
            for half in self.halves[number::4]:
                resolution = Resolution.COMMIT if what == "commit" else Resolution.ROLLBACK
                lab.end(self.session, half, resolution)
        elif what == "wait":
            lab.clock.advance(1.5 * number)
        elif what == "keep a copy":
            self.older = notes_path(lab).read_bytes() if notes_path(lab).exists() else b""
        else:
            self.restart(what, number)

    def restart(self, how: str, number: int) -> None:
        lab = self.lab
        if how == "stop":
            lab.coordinator.close()
            lab.crash()
        elif how == "cut":
            lab.power_cut(number / 9)
        else:
            lab.crash()
        lab.open()
        self.session = lab.online()

    def treat_notes(self, fate: str, place: int) -> None:
        path = notes_path(self.lab)
        data = bytearray(path.read_bytes()) if path.exists() else bytearray()
        if fate == "torn":
            del data[place % (len(data) + 1) :]
        elif fate == "flipped" and data:
            data[place % len(data)] ^= 1 << place % 8
        elif fate == "older":
            data = bytearray(self.older)
        elif fate == "foreign":
            data = bytearray(foreign_notes())
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        if fate == "gone":
            path.unlink()
        if fate == "without decisions":
            (path.parent / "decisions").unlink(missing_ok=True)


def foreign_notes() -> bytes:
    with tempfile.TemporaryDirectory() as other:
        lab = Lab(Path(other) / "store")
        for _ in range(7):
            lab.half()
        lab.coordinator.close()
        return notes_path(lab).read_bytes()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(STEPS, FATES, st.integers(0, 10_000))
def test_the_table_is_the_same_with_and_without_the_file(steps: list[tuple[str, int]], fate: str, place: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        life = Life(Path(scratch) / "store")
        for what, number in steps:
            life.step(what, number)
        life.lab.crash()
        life.treat_notes(fate, place)
        life.lab.open()
        without = rebuild(life.lab.store, life.lab.config)
        assert [facts(half) for half in life.lab.coordinator.table] == all_facts(without)
        # And what the broker does to the file from now on is as good.
        life.session = life.lab.online()
        life.step("half", 3)
        life.lab.clock.advance(11)
        life.step("kill", 0)
        assert [facts(half) for half in life.lab.coordinator.table] == all_facts(
            rebuild(life.lab.store, life.lab.config)
        )
        life.lab.crash()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store", timeout_ms=3_600_000)


def fill(lab: Lab, number: int) -> None:
    """Halves straight into the log, many in one append."""
    for first in range(0, number, 500):
        keys = [f"{key:032X}" for key in range(first, min(first + 500, number))]
        lab.store.append([half_record(lab.message(key), TOPIC, 1, key) for key in keys])
        lab.clock.run()


def found_at_start(lab: Lab) -> Rebuilt:
    """What the coordinator finds now, with its private files."""
    notes = HalfNotesFile(lab.disk, lab.clock, lab.store)
    return rebuild(lab.store, lab.config, lab.coordinator._files.decisions(), notes.blocks())


def restart(lab: Lab) -> None:
    lab.crash()
    lab.open()


def test_no_half_is_read_after_an_orderly_stop(lab: Lab) -> None:
    fill(lab, 3 * NOTES_PER_TURN)
    restart(lab)
    lab.coordinator.close()
    found = found_at_start(lab)
    assert (len(found.table), found.read) == (3 * NOTES_PER_TURN, 0)


def test_after_a_kill_only_the_halves_of_the_last_seconds_are_read(lab: Lab) -> None:
    fill(lab, 2 * NOTES_PER_TURN)
    restart(lab)
    lab.clock.advance(12)
    young = 17
    for _ in range(young):
        lab.half()
    lab.clock.advance(4)
    restart(lab)
    found = found_at_start(lab)
    assert (len(found.table), found.read) == (2 * NOTES_PER_TURN + young, young)


def test_a_half_that_is_decided_soon_is_never_noted(lab: Lab) -> None:
    session = lab.online()
    for _ in range(20):
        lab.commit(session, lab.half())
        lab.clock.advance(1)
    assert not notes_path(lab).exists()


def test_the_file_is_written_anew_when_most_of_it_is_over(lab: Lab) -> None:
    lab.coordinator._files._notes._rewrite_from = 10
    session = lab.online()
    halves = [lab.half() for _ in range(40)]
    lab.clock.advance(12)
    full = notes_path(lab).stat().st_size
    for half in halves[3:]:
        lab.commit(session, half)
    lab.clock.advance(12)
    assert 0 < notes_path(lab).stat().st_size < full / 5
    restart(lab)
    assert [half.queue_offset for half in lab.coordinator.table] == [0, 1, 2]
    assert found_at_start(lab).read == 0
    for half in halves[:3]:
        assert lab.commit(lab.online(), half).result is DONE


def test_a_full_disk_costs_only_the_next_start(lab: Lab) -> None:
    for _ in range(5):
        lab.half()
    lab.clock.advance(5)
    lab.disk.full = True
    lab.clock.advance(6)
    lab.disk.full = False
    lab.clock.advance(6)
    assert found_at_start(lab).read == 0
    assert len(found_at_start(lab).table) == 5


def test_damage_of_a_noted_half_is_found_when_it_is_used(lab: Lab) -> None:
    """Not at the start, as without the notes; it is neither checked nor delivered all the same."""
    lab.half()
    half = lab.half(body=b"precious")
    lab.half()
    lab.coordinator.close()
    lab.crash()
    (log,) = (lab.root / "commitlog").iterdir()
    data = bytearray(log.read_bytes())
    data[data.index(b"precious", half.place[1])] ^= 1
    log.write_bytes(bytes(data))
    lab.open()
    session = lab.online()
    lab.clock.advance(3_700)
    assert {check.queue_offset for check, _ in session.checks()} == {0, 2}
    assert [open_half.queue_offset for open_half in lab.coordinator.table] == [0, 2]
    assert lab.coordinator.counts.quarantined == 1
    assert lab.commit(session, half).result is Refusal.FAILED
    assert lab.delivered() == []


@pytest.mark.slow
def test_an_open_half_needs_less_than_a_kib(lab: Lab) -> None:
    number = 5_000
    fill(lab, number)
    lab.crash()
    tracemalloc.start()
    try:
        lab.open()
        used, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(lab.coordinator.table) == number
    assert used / number < 1024
    assert peak / number < 1536, "the start itself needs little beside"


def test_a_check_writes_at_most_64_bytes(tmp_path: Path) -> None:
    """Nothing to the log, and a line to the private history. Apache's broker writes the whole half again."""
    lab = Lab(tmp_path / "store", timeout_ms=6_000)
    session = lab.online()
    halves = [lab.half(body=bytes(2048)) for _ in range(300)]
    lab.clock.advance(5)  # the notes of the halves are written
    lab.clock.advance(5.5)
    asked = len(session.checks())
    before, log_before = private_bytes(lab), lab.store.max_log_offset
    lab.clock.advance(31)
    checks = len(session.checks()) - asked
    assert checks >= 300
    assert lab.store.max_log_offset == log_before
    assert private_bytes(lab) - before <= 64 * checks
    assert lab.store.queue_range(HALF, 0)[1] == len(halves)


def private_bytes(lab: Lab) -> int:
    return sum(path.stat().st_size for path in (lab.root / "gantry").rglob("*") if path.is_file())


def test_two_stores_do_not_share_notes(tmp_path: Path) -> None:
    """The notes of another store at the same places are not believed."""
    first, second = Lab(tmp_path / "a"), Lab(tmp_path / "b")
    second.clock.wall += 1
    for each in (first, second):
        for _ in range(5):
            each.half()
        each.coordinator.close()
        each.crash()
    shutil.copy(notes_path(first), notes_path(second))
    second.open()
    assert [half.stored_at for half in second.coordinator.table] == [second.clock.wall] * 5
    assert [half.group for half in second.coordinator.table] == [GROUP] * 5
