"""Metrics of POP. Source: PopMetricsManager, PopMetricsConstant of 5.5.0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.broker.pop.ledger import CHECK_POINT
from gantrymq.broker.pop.revive_log import ReviveLog
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Reading

WRITTEN: Final[Metric] = Metric(
    "rocketmq_pop_revive_in_message_total", MetricKind.COUNTER, "messages",
    ("consumer_group", "topic", "revive_message_type", "put_status"),
    "Check points (CK) and acknowledgements (ACK) that were written because of pops.",
)  # fmt: skip
REVIVED: Final[Metric] = Metric(
    "rocketmq_pop_revive_out_message_total", MetricKind.COUNTER, "messages",
    ("consumer_group", "topic", "queue_id", "revive_message_type"),
    "Check points whose time was over before all their messages were acknowledged.",
)  # fmt: skip
RETURNED: Final[Metric] = Metric(
    "rocketmq_pop_revive_retry_messages_total", MetricKind.COUNTER, "messages",
    ("consumer_group", "topic", "put_status"),
    "Popped messages that were not acknowledged in time and are in a retry topic.",
)  # fmt: skip
BEHIND: Final[Metric] = Metric(
    "rocketmq_pop_revive_lag_milliseconds", MetricKind.GAUGE, "messages", ("queue_id",),
    "Popped messages whose time is over and that did not come back yet. The unit in the name is Apache's mistake.",
)  # fmt: skip
LATENCY: Final[Metric] = Metric(
    "rocketmq_pop_revive_latency_milliseconds", MetricKind.GAUGE, "milliseconds", ("queue_id",),
    "For how long the time of the first of those messages is over; 0 when there is none.",
)  # fmt: skip
_STATUS: Final = {True: "PUT_OK", False: "UNKNOWN_ERROR"}
"""Source: PutMessageStatus."""


def declare_pop(metrics: Metrics, revive_log: ReviveLog) -> None:
    """Declare the metrics of this module."""
    counts = revive_log.counts

    def written() -> list[Reading]:
        return [
            ((group, topic, kind, _STATUS[stored]), number)
            for (topic, group, kind, stored), number in counts.written.items()
        ]

    def revived() -> list[Reading]:
        return [
            ((group, topic, str(queue_id), CHECK_POINT), number)
            for (topic, group, queue_id), number in counts.revived.items()
        ]

    def returned() -> list[Reading]:
        return [((group, topic, _STATUS[True]), number) for (topic, group), number in counts.returned.items()]

    metrics.declare(WRITTEN, written)
    metrics.declare(REVIVED, revived)
    metrics.declare(RETURNED, returned)
    metrics.declare_table((BEHIND, LATENCY), lambda: _behind(revive_log, revive_log.now_ms()))


def _behind(revive_log: ReviveLog, now_ms: int) -> Iterator[tuple[tuple[str, ...], tuple[int, int]]]:
    found = {queue_id: (0, 0) for queue_id in sorted(revive_log.ledger.revive_queues())}
    for opened in revive_log.ledger:
        late_ms = now_ms - opened.due_at
        if late_ms > 0 and opened.pending:
            messages, longest = found.get(opened.revive_queue, (0, 0))
            found[opened.revive_queue] = messages + len(opened.pending), max(longest, late_ms)
    for queue_id, figures in found.items():
        yield (str(queue_id),), figures
