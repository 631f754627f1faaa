"""What happened to timer messages since the broker started, counted for metrics. By the hash of the real topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gantrymq.broker.delivery.timer_rules import delay_s, is_order
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.observability.metrics import Histogram
from gantrymq.store.timer_log import Unit

DELAY_BOUNDS_S: Final = (60, 600, 3_600, 43_200, 86_400, 259_200)
"""Buckets of the times that senders let messages wait. Source: DefaultStoreMetricsManager.getMetricsView."""


@dataclass(frozen=True, slots=True)
class TimerCounts:
    """Orders to withdraw a message do not count."""

    enqueued: Counter[int] = field(default_factory=Counter)
    """Messages that were noted in the timer log."""
    dequeued: Counter[int] = field(default_factory=Counter)
    """Messages that were delivered."""
    delays: dict[int, Histogram] = field(default_factory=dict)
    """For how long (s) messages were to wait. Each counts once: one that is rolled is noted several times."""

    def noted(self, waiting: Iterable[tuple[StoredMessage, Unit]]) -> None:
        for message, unit in waiting:
            if is_order(unit):
                continue
            self.enqueued[unit.topic_hash] += 1
            if properties.find(message.properties_text, properties.TIMER_ROLL_TIMES) is None:
                self._delays_of(unit.topic_hash).observe(delay_s(message))

    def _delays_of(self, topic_hash: int) -> Histogram:
        found = self.delays.get(topic_hash)
        if found is None:
            found = self.delays[topic_hash] = Histogram(DELAY_BOUNDS_S)
        return found

    def delivered(self, units: Iterable[Unit]) -> None:
        self.dequeued.update(unit.topic_hash for unit in units if not is_order(unit))
