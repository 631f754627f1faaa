"""The pace at which orders are paid: evenly, and not more than half of them before Spark has started."""

from __future__ import annotations

SLOWEST_PACE = 25.0
"""Orders per second. 500 orders then take 20 s, in which Spark starts and reads the first messages."""

LONGEST_PAYING_SECONDS = 60.0
"""Larger runs pay faster, so that they take this long, if the machine is fast enough."""


class Pace:
    """The number of orders that may be paid by now. Instants are monotonic seconds."""

    def __init__(self, orders: int, half_way: int, now: float) -> None:
        self._orders = orders
        self._half_way = half_way
        self._per_second = max(SLOWEST_PACE, orders / LONGEST_PAYING_SECONDS)
        self._last = now
        self._paying_seconds = 0.0
        self.waits = False
        """Whether half of the orders are paid and the other half may not begin yet."""

    def limit(self, now: float, *, beyond_half: bool) -> int:
        """Orders with a number below this may be paid now. Waiting time does not count."""
        self.waits = not beyond_half and self._paying_seconds * self._per_second >= self._half_way
        if not self.waits:
            self._paying_seconds += now - self._last
        self._last = now
        limit = min(self._orders, int(self._paying_seconds * self._per_second))
        return limit if beyond_half else min(limit, self._half_way)
