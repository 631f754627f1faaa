"""The processor time of programs that start other programs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.processes import parse_cpu_s


def parents() -> dict[int, int]:
    """Of each process of the machine, the id of its parent."""
    found: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return found


def descendants(pid: int, parents: Mapping[int, int]) -> set[int]:
    """The processes that ``pid`` has started, and those that they have started."""
    found: set[int] = set()
    young = {pid}
    while young:
        young = {child for child, parent in parents.items() if parent in young} - found
        found |= young
    return found


def descendants_cpu_s(pid: int) -> float:
    """The processor seconds used so far by the processes that ``pid`` has started, also by those that have ended."""
    total = ended_s(Path(f"/proc/{pid}/stat").read_text())
    for child in descendants(pid, parents()):
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{child}/stat").read_text()
            total += parse_cpu_s(stat) + ended_s(stat)
    return total


def ended_s(stat: str) -> float:
    """The processor seconds of the children of a process that have ended. ``stat``: the text of /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
