"""One test that runs into its time limit does not fail the tests behind it."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

from tests.spark.interrupted import JOB_GROUPS

pytestmark = pytest.mark.spark


class TimeIsUp(BaseException):
    """What pytest-timeout raises is no Exception either, and its traceback is kept for the report."""


def interrupt(number: int, frame: object) -> None:
    raise TimeIsUp


def test_a_session_is_usable_after_an_interrupted_call(spark: Any) -> None:
    def never(batches: Any) -> Any:
        import time

        time.sleep(600)
        return batches

    waiting = spark.range(2).mapInArrow(never, "id long")
    timer = threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGUSR1))
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(TimeIsUp) as kept:
            timer.start()
            waiting.count()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert kept.traceback
    (groups,) = JOB_GROUPS
    groups.make_usable()
    assert spark.range(1000).count() == 1000
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
