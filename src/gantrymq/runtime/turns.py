"""How much the requests of all clients may do in one turn of the event loop.

Requests are executed where they are read. Many of them at once, from one client or from a thousand, would hold up
everything else: answers, timers, and whoever sends a small request just now. After a while the rest waits in a queue,
in the order of arrival, and the loop goes round once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from gantrymq.runtime.clock import Clock

TURN_S: Final = 0.010
"""After so long the rest waits for the next turn."""
_PAUSE_S: Final = 0.0005
"""The loop did something else, or waited, when nothing was executed for so long."""


class Turns:
    """Shares out the turns of one server. Time comes as an argument where it is known already."""

    __slots__ = ("_began", "_clock", "_last", "_scheduled", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = self._last = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self._scheduled = False

    def hold(self) -> None:
        """Execute nothing until ``release``: whatever comes waits."""
        self._scheduled = True  # so that no turn begins
        self._waiting.append(_nothing)

    def release(self) -> None:
        """Go on with what waits."""
        self._scheduled = False
        self._schedule()

    def must_wait(self, now: float) -> bool:
        """Whether what has just come has to wait: others wait already, or this turn was long enough."""
        if self._waiting:
            return True
        if now - self._last > _PAUSE_S:
            self._began = now
        self._last = now
        return now - self._began >= TURN_S

    @property
    def ends(self) -> float:
        """What is not executed at this time has to wait. A number, because it is compared behind every request."""
        return self._began + TURN_S

    def executed(self, now: float) -> None:
        """Requests were executed until now."""
        self._last = now

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in a turn that comes, behind those that wait already."""
        self._waiting.append(go_on)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._began = self._last = self._clock.monotonic()
        for _ in range(len(self._waiting)):  # not those that come to wait again meanwhile
            self._waiting.popleft()()
            if self._last >= self.ends:
                break
        if self._waiting:
            self._schedule()


def _nothing() -> None:
    """Stands in the queue while nothing may be executed."""
