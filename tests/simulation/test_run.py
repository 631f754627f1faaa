"""Simulation by seeds: a cluster with faults keeps its guarantees, a seed repeats a run, and defects are found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gantrymq.simulation.judging.history import decode, encode
from gantrymq.simulation.run import DEFAULT, Plan, run
from gantrymq.simulation.shrink import shrink
from tests.simulation.mutations.run import MUTATIONS, SLOW_DISKS, broken, find
from tests.support.processes import group_of

HAPPENED = {
    "check ahead of time", "check answered by two producers", "clock stepped", "connection broken", "connection parted",
    "end sent again over a second connection",
    "end sent one-way", "frame late", "frame lost", "frame overtook another connection's", "frame reset",
    "lying answer", "power cut", "power cut in an operation", "process killed", "service died between row and end",
    "sync failed", "write failed", "write refused by a full disk",
}  # fmt: skip
"""Counted when they happen, not when they are planned. Which bytes bits turn over in differs from seed to seed."""


def gantry(*arguments: str, command: str = "simulate", file: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = [str(file)] if file is not None else arguments
    line = [sys.executable, "-m", "gantrymq.cli.main", command, *words]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=250)


@pytest.mark.slow
def test_seeds_keep_every_promise() -> None:
    """More with ``gantry simulate --seeds 0..100000 --jobs 2``."""
    done = gantry("--seeds", "2000..2040", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["seeds"] == 40 and figures["failed"] == []
    assert set(figures["faults"]) >= HAPPENED, "every kind of fault was met"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_history(tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.pure("the broker is broken while it runs")
def test_a_failing_seed_is_made_shorter() -> None:
    (mutation,) = [mutation for mutation in MUTATIONS if mutation.name == "a commit rolls back"]
    broken_run = find(mutation, range(10))
    assert broken_run is not None
    with broken(mutation):
        shorter = shrink(broken_run, run, tries=3)
    assert not shorter.good and shorter.plan.fault_count <= broken_run.plan.fault_count


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_stopping_it_leaves_no_process_and_no_traceback(sent: signal.Signals) -> None:
    command = [sys.executable, "-m", "gantrymq.cli.main", "simulate", "--seeds", "0..100000", "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        until(lambda: len(group_of(process.pid)) >= 4)
        until(lambda: stopped(process, sent))
        figures, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + sent and b"Traceback" not in errors
    # It may be stopped before it begins; from then on it tells what it has played.
    assert not figures or b"stopped before the other" in figures
    until(lambda: not group_of(process.pid))


def stopped(process: subprocess.Popen[bytes], sent: signal.Signals) -> bool:
    """Whether it has ended; asked to, as a shell does it, again when it was not heard at its very start."""
    if process.poll() is None:
        process.send_signal(sent) if sent is signal.SIGTERM else os.killpg(process.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)  # longer than a seed takes: a second one would not wait for its end
    return process.poll() is not None


@pytest.mark.slow
def test_a_second_signal_does_not_wait_for_the_end_of_a_long_run() -> None:
    command = [sys.executable, "-m", "gantrymq.cli.main", "simulate", "--seed", "1", "--orders", "20000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            until(lambda: listens(process.pid, signal.SIGTERM))
            until(lambda: again(process))
        finally:
            process.kill()


def listens(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for the signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (caught,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


def again(process: subprocess.Popen[bytes]) -> bool:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return process.poll() is not None


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_brokers_that_change_their_role_under_load_keep_every_promise() -> None:
    plan = replace(DEFAULT, faults=("role changed",), fault_count=5)
    for seed in range(33, 41):  # in 33 and 35 a sender that stayed connected once counted as lost
        result = run(seed, plan)
        assert result.good, f"gantry simulate --seed {seed} --faults 'role changed' --fault-count 5: {result}"
        assert result.injected["role changed"] > 0


def test_what_a_slow_sync_has_not_ended_counts_as_not_stored() -> None:
    happened = Counter[str]()
    for seed in range(12):
        result = run(seed, SLOW_DISKS)
        faults = ",".join(SLOW_DISKS.faults)
        assert result.good, f"gantry simulate --seed {seed} --faults '{faults}' --fault-count 12: {result}"
        happened += result.injected
    assert all(happened[name] for name in ("disk slow", "power cut", "process killed"))


@pytest.mark.slow
def test_check_history_judges_a_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(encode([{"event": "end", "tx": "a", "decision": "COMMIT", "confirmed": True}, {"event": "quiet"}]))
    done = gantry(command="check-history", file=path)
    assert done.returncode == 1 and "a: COMMIT was acknowledged and it never arrived [nothing lost]" in done.stdout
    assert '"decision": "COMMIT"' in done.stdout and "2 events, 1 violations" in done.stdout
    path.write_text("{}")
    assert gantry(command="check-history", file=path).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "says"), [
    ((), "give either --seed S or --seeds A..B"),
    (("--seeds", "5"), "write for example 0..1000"),
    (("--seed", "1", "--faults", "earthquake"), "no such fault: earthquake"),
])  # fmt: skip
def test_mistakes_are_explained(arguments: tuple[str, ...], says: str) -> None:
    done = gantry(*arguments)
    assert done.returncode == 2 and says in done.stderr
