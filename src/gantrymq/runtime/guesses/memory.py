"""How much memory this process may have, and how much of its files is therefore most likely still in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

LEAST_CACHE_BYTES: Final = 256 << 20
CACHE_SHARE: Final = 10
"""A tenth of the memory: a machine that has less left for the page cache is about to run out of memory. Apache's broker
takes 40 % of it for what is in memory (accessMessageInMemoryMaxRatio)."""
_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container finds the limit of its memory, by version 2 and 1 of control groups."""


def memory_bytes(limits: Iterable[str] = _LIMITS) -> int:
    """The memory of the machine, or of the container where that has less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in limits:
        try:
            text = Path(path).read_text("ascii").strip()
        except OSError:
            continue
        if text.isdecimal():  # "max" is no limit
            found.append(int(text))
    return min(found)


@cache
def cache_bytes() -> int:
    """See ``Disk.cache_bytes``."""
    return max(LEAST_CACHE_BYTES, memory_bytes() // CACHE_SHARE)
