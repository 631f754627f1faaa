"""Counters of what happened to transactions since the broker started; ``broker/metrics/transactions.py`` names them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gantrymq.observability.metrics import Histogram

LATENCY_BOUNDS_MS: Final = (5_000, 60_000, 600_000, 3_600_000, 43_200_000, 86_400_000)
"""5 s, 1 min, 10 min, 1 h, 12 h and 24 h, as Apache's broker has them."""


@dataclass(slots=True)
class TransactionCounts:
    """Counters only go up. The number of open halves is the table's length."""

    halves: int = 0
    joined: int = 0
    """Retried halves that were answered with the first one's place."""
    commit_latency: dict[str, Histogram] = field(default_factory=dict)
    """By topic: ms from the storing of the half to its commit; the number of values is the number of commits."""
    rolled_back: dict[str, int] = field(default_factory=dict)
    """By topic."""
    decided_by_check: int = 0
    """Of both, those that answered a check-back."""
    unknowns: int = 0
    repeated: int = 0
    """The same decision again; no effect."""
    conflicts: int = 0
    """Ends that contradict an earlier decision and were refused."""
    refused: int = 0
    """Ends that named no half, the wrong group, or came from a stranger."""
    failed: int = 0
    """Decisions that the store could not take; the half stayed open."""
    checks_sent: int = 0
    early_checks: int = 0
    """Of these, those about a half with decisive checkers whose immunity had not ended and whose sender was gone."""
    checks_unanswered: int = 0
    """Of the checks sent, those without any answer when the next one was due."""
    nobody_online: int = 0
    """Halves that were due while no producer of their group was connected."""
    parked: int = 0
    completed_at_start: int = 0
    """Transactions found without their op message when the broker started."""
    quarantined: int = 0

    def committed(self, topic: str, after_ms: int) -> None:
        """A half was committed so long after it was stored."""
        self._latency_of(topic).observe(after_ms if after_ms > 0 else 0)  # the clock may have been set back

    def committed_all(self, topic: str, after_ms: list[int]) -> None:
        """``committed`` of several halves."""
        if min(after_ms) < 0:
            after_ms = [max(one, 0) for one in after_ms]
        self._latency_of(topic).observe_all(after_ms)

    def _latency_of(self, topic: str) -> Histogram:
        latency = self.commit_latency.get(topic)
        if latency is None:
            latency = self.commit_latency[topic] = Histogram(LATENCY_BOUNDS_MS)
        return latency

    @property
    def commits(self) -> int:
        return sum(sum(latency.counts) for latency in self.commit_latency.values())

    @property
    def rollbacks(self) -> int:
        return sum(self.rolled_back.values())
