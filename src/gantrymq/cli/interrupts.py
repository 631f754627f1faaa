"""How the processes of ``--jobs`` begin and end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
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


def end_with_parent() -> None:
    """In a process of ``--jobs``: end at once when the command itself was killed, and not after the work at hand."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def wait() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=wait, name="parent", daemon=True).start()
