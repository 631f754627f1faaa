"""Real signals at random times, from another thread: also while a call waits inside a C function."""

from __future__ import annotations

import random
import signal
import threading
from types import FrameType
from typing import Final

from tests.interrupts.points import Handler, interrupt, is_ours

MOST_PAUSE_S: Final = 0.001
"""Between two signals; a call takes about as long when nothing disturbs it."""
BURST_S: Final = 0.000_05
"""Between two signals of a burst: the second one comes while the first one is dealt with."""


class Storm:
    """Sends SIGUSR1 to the main thread again and again, as ``seed`` says, while what is within ``with`` runs.

    The handler does nothing outside of it.
    """

    def __init__(self, seed: int, handler: Handler = interrupt) -> None:
        self._random = random.Random(seed)
        self._handler = handler
        self._on = False
        self._over = threading.Event()
        self.fired = 0

    def __enter__(self) -> Storm:
        self._before = signal.signal(signal.SIGUSR1, self._signal)
        self._thread = threading.Thread(target=self._blow, daemon=True)
        self._thread.start()
        self._on = True
        return self

    def __exit__(self, *_: object) -> None:
        self._on = False
        self._over.set()
        self._thread.join()
        signal.signal(signal.SIGUSR1, self._before)

    def _blow(self) -> None:
        main = threading.main_thread().ident
        while not self._over.wait(self._random.random() * self._random.choice((MOST_PAUSE_S, BURST_S))):
            if main is not None and self._on:
                signal.pthread_kill(main, signal.SIGUSR1)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        # Not between two steps of the harness itself, which could be left with the storm still blowing.
        if self._on and frame is not None and not is_ours(frame):
            self.fired += 1
            self._handler()
