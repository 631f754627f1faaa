"""The free ports of two processes."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest

from gantrymq.demo import ports
from tests.support.tied import tied

OTHER = """
import sys
from itertools import cycle
from gantrymq.demo import ports
ports._candidates = cycle(range(int(sys.argv[1]), ports._PORTS.stop, ports._PORTS.step))
print(ports.free_port(), flush=True)
sys.stdin.read()
"""


def other(first: int) -> subprocess.Popen[str]:
    """A process that has looked for a port, and tried this one first."""
    command = tied([sys.executable, "-c", OTHER, str(first)])
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_a_port_whose_server_is_down_is_no_other_process_s() -> None:
    mine = ports.free_port()
    with other(mine) as process:
        theirs = answer(process)
        assert theirs > mine
        with other(mine) as third:  # not the port of a process that still runs
            assert answer(third) > theirs
            third.communicate()
        process.communicate()
    with other(theirs) as process:  # the port of a process that has ended
        assert answer(process) == theirs
        process.communicate()


def test_a_process_gives_back_its_oldest_port() -> None:
    oldest = ports.free_port()
    for _ in range(ports._KEPT):
        ports.free_port()
    with other(oldest) as process:
        assert answer(process) == oldest
        process.communicate()
    assert len(ports._reserved) == ports._KEPT


def test_a_file_system_without_locks_is_no_reason_to_have_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every port was called taken, and the person was told to end servers."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(ports.fcntl, "lockf", no_locks)
    assert ports.free_port()
