"""How long something has waited, whatever the wall clock does meanwhile.

What waits for hours is stored with the time by the wall clock at which its wait ends: another process, or another
broker, reads it. A process that compares that time with the wall clock again and again would let a message wait too
long when the clock is set back, and too short when it is set forward. ``SteadyTime`` is the wall clock at the start of
the process, and from then on runs evenly. It knows how far the wall clock was away from it when a stored time was
written, so it can say when the wait is over. Over a restart only the wall clock can be asked how much time has passed.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.broker")

STEP_MS: Final = 200
"""A difference below this is no step of the wall clock: the two clocks cannot be read at one moment."""
KEPT_STEPS: Final = 1000
"""Of a clock that steps all the time only the last ones are remembered."""


class SteadyTime:
    """Milliseconds since 1970 that never step; see above."""

    def __init__(self, clock: Clock, position: Callable[[], int] = lambda: 0) -> None:
        """``position``: where in the log the next stored time is going to lie."""
        self._clock = clock
        self._position = position
        self._wall_at_start = clock.wall_ms()
        self._began = clock.elapsed()
        self._start = position()
        self._places: list[int] = [self._start]
        self._skews: list[int] = [0]
        """How far the wall clock was ahead, for times that lie at ``_places`` or behind them."""
        self.steps = 0
        """How often the wall clock has stepped since the start."""

    def now_ms(self) -> int:
        """The steady time."""
        return self._wall_at_start + int((self._clock.elapsed() - self._began) * 1000)

    def wall_ms(self) -> int:
        """The wall clock, for a time that is about to be stored. Whether it has stepped is noticed here."""
        wall = self._clock.wall_ms()
        skew = wall - self.now_ms()
        if abs(skew - self._skews[-1]) >= STEP_MS:
            self._stepped(skew)
        return wall

    def skew_ms(self) -> int:
        """How far the wall clock is ahead now."""
        return self.wall_ms() - self.now_ms()

    def _stepped(self, skew: int) -> None:
        log.warning(
            "the wall clock was set %s by %.1f s; what waits is not affected",
            "forward" if skew > self._skews[-1] else "back", abs(skew - self._skews[-1]) / 1000,
        )  # fmt: skip
        self.steps += 1
        self._places.append(self._position())
        self._skews.append(skew)
        del self._places[1:-KEPT_STEPS], self._skews[1:-KEPT_STEPS]

    def ends_ms(self, place: int, stored_ms: int, wait_ms: int) -> int:
        """When a wait ends, by the steady time.

        ``place``: of the record in the log. ``stored_ms``: the end by the wall clock, as it was stored. ``wait_ms``:
        the whole wait. It never lasts longer than that from now on, or from the start of this process if it began
        before.
        """
        if place < self._start:
            ends, latest = stored_ms, self._wall_at_start + wait_ms
        else:
            ends = stored_ms - self._skews[bisect_right(self._places, place) - 1]
            latest = self.now_ms() + wait_ms
        return latest if ends > latest + STEP_MS else ends
