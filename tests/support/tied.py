"""Child processes that do not outlive the process that started them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
PROGRAM = f"""\
import ctypes, os, sys
number, parent, user, *command = sys.argv[1:]
if user:
    import pwd
    account = pwd.getpwnam(user)
    os.initgroups(user, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, int(number))
if os.getppid() != int(parent):
    sys.exit("its parent is gone")
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(f"{{command[0]}} cannot be run: {{error}}")
"""


def tied(command: Sequence[str | Path], by: signal.Signals = signal.SIGKILL, user: str | None = None) -> list[str]:
    """``command``, which gets the signal ``by`` when the thread that starts it ends: by a crash, a kill or Ctrl-C.
    It runs as ``user``, where one is named (that account need not be able to read our Python).

    The process sets that for itself and then becomes ``command``. A function that runs in the child between (Popen's
    ``preexec_fn``) would need a fork of a process with threads, which may stand still: grpcio has handlers for forks,
    and other threads may hold locks.
    """
    return [sys.executable, "-I", "-S", "-c", PROGRAM, str(int(by)), str(os.getpid()), user or "", *map(str, command)]
