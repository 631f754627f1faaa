"""How many files and connections this process may have open."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

ENOUGH: Final = 1 << 20
"""More is not asked for."""


def open_files_limit() -> int:
    """The limit, after it was raised as far as this process may raise it (``ulimit -n`` to ``ulimit -Hn``)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return ENOUGH if soft == resource.RLIM_INFINITY else soft
