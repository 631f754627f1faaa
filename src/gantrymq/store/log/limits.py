"""How long senders wait for the confirmation of what they sent."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gantrymq.runtime.clock import Clock, Timer
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.conditions import Condition, Unconfirmed

Late: TypeAlias = Callable[[Any, Unconfirmed], None]
"""Called when a sender waits no longer, with what it gave."""


class Limits:
    """Tells senders, in the order they came, that every condition holds or was given up before all of them held."""

    def __init__(
        self,
        commit_log: CommitLog,
        clock: Clock,
        parts: Sequence[Condition],
        ends: deque[int],
        safe: Callable[[], int],
    ) -> None:
        """``ends``: where writes end that are not safe yet; ``safe``: the position that is."""
        self._log = commit_log
        self._clock = clock
        self._parts = parts
        self._ends = ends
        self._safe = safe
        self._waiting: deque[tuple[int, float, Late, Any]] = deque()
        """Log offset, monotonic seconds of the begin, whom to tell, and what it gave."""
        self._timer: Timer | None = None
        self._due = math.inf
        """When the timer ends, in monotonic seconds."""

    def __len__(self) -> int:
        return len(self._waiting)

    def change(self, parts: Sequence[Condition]) -> None:
        """These conditions count from now on. Nobody waits at the moment."""
        self._parts = parts

    def add(self, end: int, late: Late, item: Any) -> None:
        """Call ``late(item, error)`` at most once, unless everything before log offset ``end`` is safe by then."""
        self._waiting.append((end, self._clock.monotonic(), late, item))
        if len(self._waiting) == 1:
            self.look()

    def taken_back(self, position: int) -> None:
        """What lies behind ``position`` will not be stored: its senders are told that by others."""
        self._waiting = deque(item for item in self._waiting if item[0] <= position)

    def look(self) -> None:
        """Something changed, or it is time: tell whoever waits no longer; come back when the next one may."""
        now = self._clock.monotonic()
        while self._waiting:  # read anew each time: whoever was told may have appended, and that may have failed
            end, since, late, item = self._waiting[0]
            if end > self._safe():
                given_up = self._given_up(end, since, now)
                if not isinstance(given_up, Unconfirmed):
                    if given_up is not None:
                        self._come_back(given_up, now)
                    return
                self._waiting.popleft()
                late(item, given_up)
            else:
                self._waiting.popleft()

    def _come_back(self, seconds: float, now: float) -> None:
        """Look again then, or sooner: a timer that is there looks, and goes on. A new one for each look is what
        costs, as a pair has several looks for each batch, and what they wait for comes in time."""
        if self._timer is not None:
            if self._due <= now + seconds:
                return
            self._timer.cancel()
        self._due = now + seconds
        self._timer = self._clock.call_later(seconds, self._is_due)

    def _is_due(self) -> None:
        self._timer = None
        self.look()

    def give_up(self) -> None:
        """Tell everyone now whose record is stored here and waits for a condition with a limit."""
        waiting, self._waiting = self._waiting, deque()
        for end, since, late, item in waiting:
            given_up = self._given_up(end, since, math.inf) if end > self._safe() else None
            if isinstance(given_up, Unconfirmed):
                late(item, given_up)

    def cancel(self) -> None:
        """Look no more by time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _given_up(self, end: int, since: float, now: float) -> Unconfirmed | float | None:
        """What a sender is told when every condition holds or was given up: the last one that was, as in Apache's
        broker. Else the seconds until that may be so; None: no time decides it."""
        if end > self._log.written:
            return None
        end = next((place for place in self._ends if place >= end), end)
        missing: Condition | None = None
        wait_s = 0.0
        for part in self._parts:
            if part.position >= end:
                continue
            if part.available:
                limit_ms = part.limit_ms
                if limit_ms is None:
                    return None
                wait_s = max(wait_s, since + limit_ms / 1000 - now)
            missing = part
        if wait_s or missing is None:
            return wait_s or None
        return _unconfirmed(missing)


def _unconfirmed(part: Condition) -> Unconfirmed:
    if part.available:
        status, how = part.expired, f" within {part.limit_ms} ms"
    else:
        status, how = part.absent, ", which is not there"
    return Unconfirmed(
        status, f"{status.name}: it is stored here and was not confirmed by {part.name}{how}; it counts once it is"
    )
