"""How long the event loop of a server stood still: of brokers and name servers."""

from __future__ import annotations

from typing import Final

from gantrymq.observability.metrics import Metric, MetricKind, Metrics, single
from gantrymq.runtime.loop_watch import LoopWatch

LONGEST_TURN: Final[Metric] = Metric(
    "gantry_event_loop_longest_turn_seconds", MetricKind.GAUGE, "seconds", (),
    "Longest time of the last one to two minutes in which the server did one thing and every client waited.",
)  # fmt: skip


def declare_event_loop(metrics: Metrics, watch: LoopWatch) -> None:
    """Declare the metric of this module."""
    metrics.declare(LONGEST_TURN, single(watch.longest_s))
