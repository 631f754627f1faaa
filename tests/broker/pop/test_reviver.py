"""When messages become visible again, also when the store refuses the first write."""

from __future__ import annotations

from pathlib import Path

from tests.broker.pop.lab import GROUP, TOPIC, PopLab

RETRY = f"%RETRY%{GROUP}_{TOPIC}"


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
