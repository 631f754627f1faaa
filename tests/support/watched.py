"""What ``tools/checks.py`` can say of a run that fails or takes too long: which test runs, which failed, and where a
test stood that went on behind its time limit.

That limit raises in the test. A test may survive it: the error may come in a callback of an event loop, which logs it
and goes on. Then nothing ends the test, and its process is missing for the rest of the run.
"""

from __future__ import annotations

import faulthandler
import os
import time
from pathlib import Path
from typing import IO, Final

RUNNING_TESTS: Final = "GANTRY_RUNNING_TESTS"
"""Names the directory for all this; without it nothing is written, and nothing is ended."""
BEHIND_SECONDS: Final = 60.0
"""A test that goes on for so long behind its limit ends its process."""

_stacks: IO[str] | None = None


def _place(ending: str = "") -> Path | None:
    place = os.environ.get(RUNNING_TESTS)
    if place is None or not Path(place).is_dir():
        return None
    return Path(place, os.environ.get("PYTEST_XDIST_WORKER", "pytest") + ending)


def begins(test: str) -> None:
    """Note what this process runs."""
    if (place := _place()) is not None:
        place.write_text(f"it was running {test} since {time.strftime('%H:%M:%S')}\n")


def limited(test: str, seconds: float) -> None:
    """When the test is not over then, write where each thread stands, and end this process. 0: no limit."""
    global _stacks
    if not seconds or (place := _place(".stuck")) is None:
        return
    if _stacks is None:
        _stacks = place.open("w")
    _stacks.seek(0)
    _stacks.truncate()
    _stacks.write(f"{test} went on behind its time limit:\n")
    _stacks.flush()
    faulthandler.dump_traceback_later(seconds + BEHIND_SECONDS, file=_stacks, exit=True)


def over() -> None:
    """The test ended; the file stays empty for the next one."""
    if _stacks is not None:
        faulthandler.cancel_dump_traceback_later()
        _stacks.seek(0)
        _stacks.truncate()


def failed(test: str, place: str) -> None:
    """Note a test that failed, with the last line of code that it reached."""
    if (file := _place(".failed")) is not None:
        with file.open("a") as notes:
            notes.write(f"{time.strftime('%H:%M:%S')} {test} failed at {place}\n")
