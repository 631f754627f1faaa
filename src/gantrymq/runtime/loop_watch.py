"""How long the event loop of a server stood still: while one piece of work runs, every client waits.

A timer looks ten times in a second how late it comes. That costs nothing that can be measured, sees everything that
holds up the loop (a request, a file that is saved, a disk that hangs, a machine that has no time), and names the
request that was executed last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from gantrymq.runtime.clock import Clock, Timer

log = logging.getLogger("gantrymq")

INTERVAL_S: Final = 0.1
WINDOW_S: Final = 60.0
"""The longest turn is that of this time at least, and of twice this time at most."""
LOGGED_S: Final = 1.0
"""Longer turns are logged: clients give up after 3 s."""


class LoopWatch:
    """Watches the running event loop between ``start`` and ``stop``."""

    def __init__(
        self,
        clock: Clock,
        last_request: Callable[[], str] = lambda: "",
        *,
        interval_s: float = INTERVAL_S,
        working: Callable[[], float] | None = None,
    ) -> None:
        """``last_request``: which request was executed last, and from where. ``working``: seconds that this thread has
        worked so far, if they are to be measured, too (``longest_work_s``)."""
        self._clock = clock
        self._last_request = last_request
        self._interval_s = interval_s
        self._working = working
        self._timer: Timer | None = None
        self._looked_at = self._worked_s = 0.0
        self._window_began = 0.0
        self._longest = self._longest_before = 0.0
        self.longest_work_s = 0.0
        """Of one turn, without the time in which the thread waited; ``reset`` forgets it."""

    def start(self) -> None:
        """Begin to look."""
        self._looked_at = self._window_began = self._clock.monotonic()
        self._worked_s = 0.0 if self._working is None else self._working()
        self._timer = self._clock.call_later(self._interval_s, self._look)

    def stop(self) -> None:
        """Look no more. Harmless when it never looked."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def longest_s(self) -> float:
        """The longest time for which the loop stood still, within the last one or two minutes."""
        return max(self._longest, self._longest_before)

    def reset(self) -> None:
        """Forget what was measured."""
        self._longest = self._longest_before = self.longest_work_s = 0.0
        self._looked_at = self._clock.monotonic()
        self._worked_s = 0.0 if self._working is None else self._working()

    def _look(self) -> None:
        now = self._clock.monotonic()
        late = now - self._looked_at - self._interval_s
        self._looked_at = now
        if now - self._window_began >= WINDOW_S:
            self._window_began, self._longest_before, self._longest = now, self._longest, 0.0
        self._longest = max(self._longest, late)
        if self._working is not None:
            worked = self._working()
            self.longest_work_s = max(self.longest_work_s, worked - self._worked_s)
            self._worked_s = worked
        if late >= LOGGED_S:
            request = self._last_request()
            log.warning(
                "the event loop stood still for %.1f s, and every client waited%s; "
                "see gantry_event_loop_longest_turn_seconds in docs/metrics.md",
                late, f". The last request before: {request}" if request else "",
            )  # fmt: skip
        self._timer = self._clock.call_later(self._interval_s, self._look)
