"""A disk whose syncs take long, under all tests of a run: ``run.py test tests -- --slow-disk 0.1 tests/broker``.

Disks of other machines stand still for seconds once in a while. Tests with short limits fail on such a disk; what is
looked for is a test that never ends, because something waits for a sync that nobody begins any more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def make_slow(seconds: float) -> None:
    """From now on each sync of this process takes so much longer."""

    def slow(sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def later(descriptor: Any) -> None:
            time.sleep(seconds)
            sync(descriptor)

        return later

    for name in ("fsync", "fdatasync"):
        setattr(os, name, slow(getattr(os, name)))
