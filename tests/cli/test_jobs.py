"""The processes of ``--jobs`` end with the command that started them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def workers(pid: int) -> list[int]:
    """Those that play: a tracker of multiprocessing ends by itself."""
    return [child for child in children(pid) if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


PROGRAM = """
import multiprocessing, time
from gantrymq.cli import {module}

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2, {module}.{begin}) as pool:
        pool.map(time.sleep, [600, 600])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("module", "begin"), [("simulate", "_leave_quietly"), ("crash_points", "_begin")])
def test_a_killed_command_leaves_no_processes(module: str, begin: str, tmp_path: Path) -> None:
    path = tmp_path / "command.py"
    path.write_text(PROGRAM.format(module=module, begin=begin))
    process = subprocess.Popen([sys.executable, str(path)])
    started: list[int] = []
    try:
        until(lambda: len(workers(process.pid)) == 2, "two processes")
        started = workers(process.pid)
        time.sleep(2)  # now they sleep
        process.kill()
        process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), "they end")
    finally:
        process.kill()
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
