"""A tied child is the program itself, and ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.tied import tied

PARENT = """
import subprocess, sys, time
from tests.support.tied import tied
child = subprocess.Popen(tied(["sleep", "600"]), start_new_session=True)
while open(f"/proc/{child.pid}/comm").read() != "sleep\\n":
    time.sleep(0.01)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_its_parent() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 20
    while runs(child):
        assert time.monotonic() < end, "the child goes on"
        time.sleep(0.01)


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_arguments_output_and_status_are_those_of_the_program() -> None:
    done = subprocess.run(tied(["sh", "-c", 'echo "$0"; exit 3', "a  b"]), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "a  b\n")


def test_a_program_that_is_not_there_is_named() -> None:
    done = subprocess.run(tied(["no-such-program"]), capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("no-such-program cannot be run: ")


def test_its_id_is_the_programs() -> None:
    with subprocess.Popen(tied(["sleep", "600"], signal.SIGTERM)) as child:
        child.terminate()
        assert child.wait(20) == -signal.SIGTERM
