"""The demo as a person runs it, without Spark (``tools/demo_without_java.py`` runs the whole of it)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gantrymq.demo.watchdog import kill_group

PATIENCE_SECONDS = 60
pytestmark = pytest.mark.kill


def demo_command(directory: Path, orders: int) -> list[str]:
    command = [sys.executable, "-m", "gantrymq.cli.main", "demo", "--no-spark", "--orders", str(orders), "--seed", "7"]
    return [*command, "--dir", str(directory / "run"), "--json", str(directory / "out.json")]


def test_failures_on_purpose_lose_double_and_invent_nothing(tmp_path: Path) -> None:
    done = subprocess.run(demo_command(tmp_path, 80), capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["missing"], result["doubled"], result["phantom"]) == (0, 0, 0)
    assert result["paid"] + result["rolled_back"] == result["orders"] == 80
    assert result["delivered"] == result["paid"]
    assert (result["broker_kills"], result["producer_kills"]) == (1, 3)
    assert result["decided_by_check_back"] >= 13  # ten payments that hang and three killed producers
    assert result["open"] == 0
    assert "missing" in done.stdout and str(tmp_path / "run") in done.stdout
    assert not processes_naming(tmp_path)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that has begun to pay orders."""
    demo = subprocess.Popen(
        demo_command(tmp_path, 5_000), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_until(lambda: len(processes_naming(tmp_path)) >= 5)  # demo, server, three workers
        yield demo
    finally:
        kill_group(demo.pid)
        demo.wait()
        if demo.stdout is not None:
            demo.stdout.close()


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_is_ended_nothing_is_left_running(
    running: subprocess.Popen[bytes], tmp_path: Path, way: signal.Signals
) -> None:
    os.kill(running.pid, way)
    status = running.wait(PATIENCE_SECONDS)
    assert status == (-signal.SIGKILL if way is signal.SIGKILL else 130)
    wait_until(lambda: not processes_naming(tmp_path))


def test_a_used_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "orders.db").write_text("")
    done = subprocess.run(demo_command(tmp_path, 20), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "choose another --dir" in " ".join(done.stdout.split())


def processes_naming(directory: Path) -> list[str]:
    """Command lines of living processes that mention the directory."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "stat=,command="], capture_output=True, text=True, check=True)
    lines = [line.strip() for line in listed.stdout.splitlines() if str(directory) in line]
    return [line for line in lines if not line.startswith("Z")]


def wait_until(holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.spark
def test_an_interrupt_ends_sparks_processes_too(tmp_path: Path) -> None:
    command = [word for word in demo_command(tmp_path, 500) if word != "--no-spark"]
    demo = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "java" in programs_of(sessions_naming(tmp_path)), 150)
        sessions = sessions_naming(tmp_path)
        os.kill(demo.pid, signal.SIGINT)
        assert demo.wait(PATIENCE_SECONDS) == 130
        wait_until(lambda: not programs_of(sessions))
    finally:
        kill_group(demo.pid)
        demo.wait()


def sessions_naming(directory: Path) -> set[str]:
    """Sessions with a process whose command line mentions the directory; each process of the demo leads one."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "sess=,command="], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines() if str(directory) in line}


def programs_of(sessions: set[str]) -> set[str]:
    """Names of the living programs of sessions; Spark's workers are in process groups of their own, but in these."""
    listed = subprocess.run(["ps", "-A", "-o", "sess=,stat=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return {Path(row[2]).name for row in rows if row[0] in sessions and not row[1].startswith("Z")}
