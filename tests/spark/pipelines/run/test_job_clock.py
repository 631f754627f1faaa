"""The time of a job passes only while it runs, and never goes back, so no row is behind the watermark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.pipelines.run.job_clock import JobClock, resume

HOUR = 3_600_000


def batch(checkpoint: Path, number: int, now_ms: int) -> None:
    """What Spark writes when it plans a batch."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    facts = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": {}}
    (checkpoint / "offsets" / str(number)).write_text(f"v1\n{json.dumps(facts)}\n{{}}")


def test_a_pause_does_not_count(tmp_path: Path) -> None:
    first = resume(str(tmp_path), HOUR, OsDisk())
    assert (first.at(HOUR), first.at(2 * HOUR)) == (HOUR, 2 * HOUR)
    batch(tmp_path, 9, 2 * HOUR)
    batch(tmp_path, 10, 3 * HOUR)
    second = resume(str(tmp_path), 50 * HOUR, OsDisk())
    assert (second.at(50 * HOUR), second.at(51 * HOUR)) == (3 * HOUR, 4 * HOUR)
    # Batch 10 was not complete and runs again, with the time that Spark has stored.
    assert second.at(3 * HOUR) == 3 * HOUR
    third = resume(str(tmp_path), 70 * HOUR, OsDisk())  # the second run ended before its first batch
    assert third.at(70 * HOUR) == 3 * HOUR
    batch(tmp_path, 11, 71 * HOUR)
    assert resume(str(tmp_path), 90 * HOUR, OsDisk()).at(90 * HOUR) == 4 * HOUR


def test_a_clock_that_was_set_back_between_two_runs(tmp_path: Path) -> None:
    resume(str(tmp_path), 10 * HOUR, OsDisk())
    batch(tmp_path, 0, 11 * HOUR)
    clock = resume(str(tmp_path), 2 * HOUR, OsDisk())
    assert (clock.at(2 * HOUR), clock.at(3 * HOUR)) == (11 * HOUR, 12 * HOUR)


def test_a_clock_that_is_set_back_during_a_run() -> None:
    assert JobClock(resumed_ms=5 * HOUR).at(HOUR) == 5 * HOUR


@pytest.mark.parametrize("text", ["", "v1\n", "v1\nnot json\n{}"])
def test_a_checkpoint_of_another_kind(tmp_path: Path, text: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(StoreFormatUnknown, match="is it Spark's checkpoint"):
        resume(str(tmp_path), HOUR, OsDisk())
