"""The pace at which orders are paid: evenly, and not beyond the middle before Spark has started."""

from __future__ import annotations

SLOWEST_PACE = 25.0
"""Orders a second; 500 orders then take 20 s, in which Spark starts and reads along."""

LONGEST_PAYING_SECONDS = 60.0
"""Larger runs go faster, as fast as this time asks for and the machine allows."""


class Pace:
    """The number of orders that may be paid by now. Instants are monotonic seconds."""

    def __init__(self, orders: int, half_way: int, now: float) -> None:
        self._orders = orders
        self._half_way = half_way
        self._per_second = max(SLOWEST_PACE, orders / LONGEST_PAYING_SECONDS)
        self._last = now
        self._paying_seconds = 0.0
        self.waits = False
        """Half of the orders are paid, and the other half may not begin."""

    def limit(self, now: float, *, beyond_half: bool) -> int:
        """Orders with a lower number may be paid now. While it waits, its time stands still."""
        self.waits = not beyond_half and self._paying_seconds * self._per_second >= self._half_way
        if not self.waits:
            self._paying_seconds += now - self._last
        self._last = now
        limit = min(self._orders, int(self._paying_seconds * self._per_second))
        return limit if beyond_half else min(limit, self._half_way)
