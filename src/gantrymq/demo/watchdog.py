"""Ends the processes of the demo when the demo itself has ended, in whatever way (Ctrl-C, SIGKILL, a closed terminal).

It is a program of its own, in a session of its own. It reads lines ``watch PID`` and ``forget PID`` from a pipe whose
other end only the demo has open. The end of this input means that the demo has ended. Then the watchdog kills the
process groups that it still watches.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable


def kill_group(group: int) -> None:
    """Send SIGKILL to every process of a group. Nothing happens when there is none."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # macOS raises PermissionError for a group of zombies


def watch(lines: Iterable[str]) -> set[int]:
    """Read the lines to their end. Returns the groups that must then be killed."""
    groups: set[int] = set()
    for line in lines:
        verb, _, number = line.strip().partition(" ")
        if not number.isdigit():
            continue  # the demo was killed in the middle of a line
        if verb == "watch":
            groups.add(int(number))
        elif verb == "forget":
            groups.discard(int(number))
    return groups


def main() -> None:
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    for group in watch(sys.stdin):
        kill_group(group)


if __name__ == "__main__":
    main()
