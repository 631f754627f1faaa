"""Ctrl-C while the processes of ``--jobs`` are started."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker


@contextlib.contextmanager
def ctrl_c_deferred() -> Iterator[None]:
    """Hold a Ctrl-C back until the processes are started, and hide it from them.

    A terminal sends the signal to all processes; this one must stop the others."""
    resource_tracker.ensure_running()  # which lets Ctrl-C through when it starts
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
