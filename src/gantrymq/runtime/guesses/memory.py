"""How much memory this process may have, and how much of its files is therefore most likely still in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

LEAST_CACHE_BYTES: Final = 256 << 20
CACHE_SHARE: Final = 10
"""A tenth of the memory: a machine that has less left for the page cache is about to run out of memory. Apache's broker
takes 40 % of it for what is in memory (accessMessageInMemoryMaxRatio)."""
_GROUPS: Final = "/proc/self/cgroup"
"""The control groups of this process: ``0::/system.slice/gantry.service`` (version 2), or ``9:memory:/a/b``."""
_ROOT: Final = "/sys/fs/cgroup"


def memory_bytes(groups: str = _GROUPS, root: str = _ROOT) -> int:
    """The memory of the machine, or of the innermost control group where it or one around it has less.

    In a container the path of the group is often ``/``, or one that does not exist there; then its root counts.
    """
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _limits(groups, root):
        try:
            text = Path(path).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal():  # "max" is no limit
            found.append(int(text))
    return min(found)


def _limits(groups: str, root: str) -> Iterator[str]:
    """The files with limits that may count: of each group, from the innermost one to the root."""
    try:
        lines = Path(groups).read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    for line in ("0::/", ":memory:/", *lines):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (f"{root}/memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield "/".join((base, *parts[:depth], name))


@cache
def cache_bytes() -> int:
    """See ``Disk.cache_bytes``."""
    return max(LEAST_CACHE_BYTES, memory_bytes() // CACHE_SHARE)
