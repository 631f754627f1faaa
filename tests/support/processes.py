"""Groups of processes."""

from __future__ import annotations

import contextlib
from pathlib import Path


def group_of(leader: int) -> list[int]:
    """The processes of a process group that are not dead."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _parent, group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                members.append(int(stat.parent.name))
    return members
