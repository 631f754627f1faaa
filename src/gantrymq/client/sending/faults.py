"""Which brokers to avoid for a while, because they failed or answered slowly. No I/O: the caller passes the time.

Source: MQFaultStrategy of 5.1.4 and later; docs/protocol.md#slow-brokers.
"""

from __future__ import annotations

from typing import Final

PENALTIES_MS: Final = (
    (15_000, 30_000),
    (5_000, 10_000),
    (3_000, 6_000),
    (1_800, 5_000),
    (550, 2_000),
)
"""Pairs of times in milliseconds, slowest first: when an answer took at least the first, avoid the broker for the
second."""

ISOLATION_COUNTS_AS_MS: Final = 10_000
"""A failed call counts as one that took this long."""


def penalty_ms(latency_ms: float) -> int:
    """How long to avoid a broker that took ``latency_ms`` to answer, in milliseconds; 0 for a healthy one."""
    for slow_ms, avoid_ms in PENALTIES_MS:
        if latency_ms >= slow_ms:
            return avoid_ms
    return 0


class FaultTable:
    """Broker name to the instant (monotonic seconds) until which it is avoided."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def answered(self, broker_name: str, latency_ms: float, now: float) -> None:
        """Record an answer; a fast one ends the broker's penalty."""
        if latency_ms < PENALTIES_MS[-1][0] and not self._until:
            return
        penalty = penalty_ms(latency_ms)
        if penalty:
            self._until[broker_name] = now + penalty / 1000
        elif self._until:
            self._until.pop(broker_name, None)

    def failed(self, broker_name: str, now: float) -> None:
        """Record that a request could not be sent or was not answered."""
        self._until[broker_name] = now + penalty_ms(ISOLATION_COUNTS_AS_MS) / 1000

    def available(self, broker_name: str, now: float) -> bool:
        return not self._until or self._until.get(broker_name, 0.0) <= now

    def __bool__(self) -> bool:
        """Whether any broker is or was avoided."""
        return bool(self._until)
