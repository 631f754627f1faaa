"""Seeds: a cluster with faults keeps its promises; the same seed tells the same story; a broken broker is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.testing.history import decode
from gantrymq.testing.shrink import shrink
from gantrymq.testing.simulation import Plan, run

HAPPENED = {
    "check ahead of time", "check answered by two producers", "clock stepped", "connection broken", "connection parted",
    "end sent again over a second connection",
    "end sent one-way", "frame late", "frame lost", "frame overtook another connection's", "frame reset",
    "lying answer", "power cut", "power cut in an operation", "process killed", "service died between row and end",
    "sync failed", "write failed", "write refused by a full disk",
}  # fmt: skip
"""Counted when they happen, not when they are planned. Which bytes bits turn over in differs from seed to seed."""


def gantry(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gantrymq.cli.main", "simulate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)


def test_seeds_keep_every_promise() -> None:
    """More with ``gantry simulate --seeds 0..100000 --jobs 2``."""
    done = gantry("--seeds", "2000..2040", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["seeds"] == 40 and figures["failed"] == []
    assert set(figures["faults"]) >= HAPPENED, "every kind of fault was met"


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    texts = []
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        assert gantry("--seed", "56", "--history", str(path)).returncode == 0
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    kinds = {event["event"] for event in decode(texts[0])}
    assert {"half", "row", "end", "delivered", "fault", "quiet"} <= kinds


def test_without_faults_everything_arrives() -> None:
    result = run(7, Plan(fault_count=0))
    assert result.good, [*map(str, result.violations), *result.errors]
    rows = {event["tx"] for event in result.events if event["event"] == "row" and event["state"] == "committed"}
    assert rows <= {event["tx"] for event in result.events if event["event"] == "delivered"}


def test_a_broker_that_forgets_its_op_messages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """More such brokers: tests/testing/test_mutations.py."""
    monkeypatch.setattr("gantrymq.transactions.rebuild._apply_ops", lambda *facts: None)
    broken = next((result for seed in range(50) if not (result := run(seed)).good), None)
    assert broken is not None
    shorter = shrink(broken, run, tries=2)
    assert not shorter.good and shorter.plan.fault_count <= broken.plan.fault_count


@pytest.mark.parametrize(("arguments", "says"), [
    ((), "give either --seed S or --seeds A..B"),
    (("--seeds", "5"), "write for example 0..1000"),
    (("--seed", "1", "--faults", "earthquake"), "no such fault: earthquake"),
])  # fmt: skip
def test_mistakes_are_explained(arguments: tuple[str, ...], says: str) -> None:
    done = gantry(*arguments)
    assert done.returncode == 2 and says in done.stderr
