"""Simulation of consumer groups by seeds: every message is processed, whatever happens to the members.

More with ``gantry simulate --groups --seeds 0..10000 --jobs 2``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gantrymq.simulation.groups import run as groups
from gantrymq.simulation.groups.members import GROUPS
from gantrymq.simulation.judging.history import decode, encode
from gantrymq.simulation.run import Plan, Result
from tests.simulation.mutations.run import MUTATIONS, find
from tests.simulation.test_run import gantry

pytestmark = pytest.mark.pure("the simulation of groups puts itself between a broker and its consumer offsets")

HAPPENED = {
    "close cancelled", "commit cancelled", "connection broken", "connection parted", "exception in the loop",
    "frame late", "frame lost", "frame reset", "listener raised", "listener wants it later", "member joined",
    "member killed", "member killed during a rebalance", "member left", "member vanished", "poll cancelled",
    "power cut", "power cut in an operation", "process killed", "progress reset", "queue paused", "program cancelled",
    "result of a poll dropped", "slow message", "sought back",
}  # fmt: skip
SHOWN_SOON = ("what is polled counts at once", "what a listener refuses counts as consumed",
              "the result of an interrupted poll is not given back")  # fmt: skip
SEEDS = 20


def processed(result: Result) -> set[tuple[str, str]]:
    return {(event["group"], event["message"]) for event in result.events if event["event"] == "processed"}


@pytest.mark.slow
def test_groups_process_every_message() -> None:
    done = gantry("--groups", "--seeds", "3000..3040", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["seeds"] == 40 and figures["failed"] == []
    assert set(figures["faults"]) >= HAPPENED, "everything was met"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_history() -> None:
    assert groups.run(5).events == groups.run(5).events


def test_without_trouble_everybody_processes_everything() -> None:
    result = groups.run(7, Plan(orders=20, fault_count=0))
    assert result.good, [*map(str, result.violations), *result.errors]
    assert processed(result) == {(name, f"message-{number}") for name in GROUPS for number in range(20)}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN_SOON)
def test_a_broken_client_is_found(name: str) -> None:
    (mutation,) = [mutation for mutation in MUTATIONS if mutation.name == name]
    assert find(mutation, range(SEEDS)) is not None


@pytest.mark.slow
def test_a_history_of_groups_is_judged_from_a_file(tmp_path: Path) -> None:
    events = [*groups.run(1, Plan(orders=5, fault_count=0)).events]
    lost = [event for event in events if (event["event"], event.get("message")) != ("processed", "message-2")]
    path = tmp_path / "history.jsonl"
    for history, status in ((events, 0), (lost, 1)):
        path.write_text(encode(history))
        done = gantry(command="check-history", file=path)
        assert done.returncode == status, done.stdout
    assert "message-2: its send was acknowledged, and the group ordered never processed it" in done.stdout
    assert len(decode(path.read_text())) == len(lost)


@pytest.mark.slow
def test_a_fault_of_the_other_kind_of_run_is_not_known_here() -> None:
    done = gantry("--groups", "--seed", "1", "--faults", "lying checkers")
    assert done.returncode == 2 and "no such fault: lying checkers; there are join" in done.stderr
