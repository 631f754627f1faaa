"""Processes of the demo: events, logs, ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.demo.ports import free_port
from gantrymq.demo.processes import Child, DemoFailed, Watchdog, is_listening

PATIENCE_SECONDS = 30


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    dog = Watchdog()
    yield dog
    dog.close()


def child(code: str, tmp_path: Path, watchdog: Watchdog) -> Child:
    return Child("tester", [sys.executable, "-c", code], tmp_path / "tester.log", watchdog)


def next_event(process: Child) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if events := process.events():
            return events[0]
        time.sleep(0.01)
    raise AssertionError("no event came")


def test_json_lines_become_events_and_the_rest_goes_to_the_log(tmp_path: Path, watchdog: Watchdog) -> None:
    code = "import sys; print('{\"event\": \"hello\"}'); print('plain'); print('[1]'); print('bad', file=sys.stderr)"
    process = child(code, tmp_path, watchdog)
    assert next_event(process) == {"event": "hello"}
    assert process.wait(PATIENCE_SECONDS)
    process.kill()
    log = (tmp_path / "tester.log").read_text()
    assert all(word in log for word in ("[1]", "bad", "plain"))  # the two streams may meet within a line
    assert "hello" not in log


class SlowlyRead(Child):
    """On a busy machine the reader comes late."""

    def _read(self, log_fd: int) -> None:
        time.sleep(0.3)
        super()._read(log_fd)


def test_whoever_sees_the_end_has_the_last_words(tmp_path: Path, watchdog: Watchdog) -> None:
    child = SlowlyRead("brief", [sys.executable, "-c", 'print(\'{"event": "last"}\')'], tmp_path / "log", watchdog)
    deadline = time.monotonic() + 30
    while child.exit_status is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert child.events() == [{"event": "last"}]
    child.end(0)


def test_it_takes_lines_until_it_is_gone(tmp_path: Path, watchdog: Watchdog) -> None:
    code = "import json; print(json.dumps({'event': input()}))"
    process = child(code, tmp_path, watchdog)
    process.say("ping")
    assert next_event(process) == {"event": "ping"}
    assert process.wait(PATIENCE_SECONDS)
    process.say("too late")
    process.kill()
    process.say("much too late")


def test_end_kills_what_does_not_end(tmp_path: Path, watchdog: Watchdog) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'print(\'{"event": "up"}\'); time.sleep(600)'
    )
    process = child(code, tmp_path, watchdog)
    next_event(process)
    process.end(0.2)
    assert process.exit_status == -signal.SIGKILL


def test_a_kill_takes_the_children_of_the_process_too(tmp_path: Path, watchdog: Watchdog) -> None:
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        'print(\'{"event": "up", "pid": %d}\' % p.pid); time.sleep(600)'
    )
    process = child(code, tmp_path, watchdog)
    grandchild = next_event(process)["pid"]
    process.kill()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while runs(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(grandchild)


def runs(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


def test_an_end_nobody_asked_for_is_an_error_with_the_end_of_the_log(tmp_path: Path, watchdog: Watchdog) -> None:
    process = child("import sys; sys.exit('no room in the shop')", tmp_path, watchdog)
    assert process.wait(PATIENCE_SECONDS)
    with pytest.raises(DemoFailed, match=r"tester: ended with status 1(?s:.)*tester\.log(?s:.)*no room in the shop"):
        process.check_alive()
    process.kill()


def test_a_free_port_is_nobodys() -> None:
    assert not is_listening(free_port())
