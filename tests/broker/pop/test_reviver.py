"""When messages become visible again, also when the store refuses the first write."""

from __future__ import annotations

from pathlib import Path

from gantrymq.protocol.files.groups import Group
from tests.broker.pop.lab import GROUP, TOPIC, PopLab

RETRY = f"%RETRY%{GROUP}_{TOPIC}"
OTHER = "CG_other"


def test_messages_come_back_when_they_are_due_and_not_before(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    for name in ("late", "soon"):
        lab.send(name)
        lab.pop(1, 5_000 if name == "late" else 1_000)
    lab.clock.advance(0.9)
    assert lab.bodies(RETRY) == []
    lab.clock.advance(0.2)
    assert lab.bodies(RETRY) == ["soon"]
    lab.clock.advance(4.0)
    assert lab.bodies(RETRY) == ["soon", "late"]


def test_a_full_disk_makes_them_late_and_not_double(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    lab.send("a")
    lab.pop(1, 1_000)
    lab.disk.full = True
    lab.clock.advance(5.0)
    lab.disk.full = False
    lab.clock.advance(20.0)
    assert lab.bodies(RETRY) == ["a"]
    assert len(lab.consumption.revive_log.ledger) == 0


def test_what_retention_removed_cannot_come_back_and_is_not_waited_for(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    lab.send("a")
    lab.pop(1, 1_000)
    lab.store.delete_topic(TOPIC, lambda error: None)
    lab.clock.advance(2.0)
    assert (lab.bodies(RETRY), len(lab.consumption.revive_log.ledger)) == ([], 0)


def test_a_closed_reviver_brings_nothing_back(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store")
    lab.send("a")
    lab.pop(1, 1_000)
    lab.consumption.close()
    lab.clock.advance(2.0)
    assert lab.bodies(RETRY) == []


def test_what_came_back_to_another_group_has_not_come_back_to_this_one(tmp_path: Path) -> None:
    """A start once took the copy of another group for the one that a power cut had cut from its acknowledgement: the
    message was lost for this group."""
    lab = PopLab(tmp_path / "store", queues=1)
    lab.send("a")
    lab.groups.update(Group(group_name=OTHER))
    assert [one.body for one in lab.pop(invisible_ms=60_000).messages] == ["a"]
    assert [one.body for one in lab.pop(invisible_ms=100, group=OTHER).messages] == ["a"]
    lab.clock.advance(1.0)
    assert lab.bodies(f"%RETRY%{OTHER}_{TOPIC}") == ["a"]
    lab.crash()
    lab.open()
    lab.clock.advance(120.0)
    assert [one.body for one in lab.pop().messages] == ["a"]


def test_a_torn_write_is_completed_also_when_another_group_has_a_copy_behind_it(tmp_path: Path) -> None:
    lab = PopLab(tmp_path / "store", queues=1)
    lab.send("a")
    lab.groups.update(Group(group_name=OTHER))
    (item,) = lab.pop(invisible_ms=100).messages
    lab.pop(invisible_ms=5_000, group=OTHER)
    lab.clock.advance(1.0)
    assert lab.bodies(RETRY) == ["a"]
    # The acknowledgement is cut off, and what follows is written after the next start.
    copy = lab.store.entry(RETRY, 0, 0)
    assert copy is not None
    end = copy.log_offset + copy.size
    lab.crash()
    for log in sorted((lab.root / "commitlog").glob("0*")):
        data = log.read_bytes()
        log.write_bytes(data[:end] + bytes(len(data) - end))
    for name in ("checkpoint", "abort"):
        (lab.root / name).unlink(missing_ok=True)
    (lab.root / "abort").touch()
    lab.open()
    lab.clock.advance(120.0)
    assert lab.bodies(RETRY) == ["a"]
    assert item.body == "a"
