"""Metrics of timer messages. Source: DefaultStoreMetricsManager, DefaultStoreMetricsConstant of 5.5.0."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final

from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.metrics.labels import STORAGE, STORAGE_LABELS
from gantrymq.broker.registries.topics import Topics
from gantrymq.message.tags import java_hash
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Read, Reading, Value

BY_TOPIC: Final = (*STORAGE_LABELS, "topic")
BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""Seconds. Source: MessageStoreConfig.timerMetricsBounds (as a running 5.5.0 shows them)."""

WAITING: Final[Metric] = Metric(
    "rocketmq_timing_messages",
    MetricKind.GAUGE,
    "messages",
    BY_TOPIC,
    "Timer messages of a topic that wait for their time.",
)
ENQUEUED: Final[Metric] = Metric(
    "rocketmq_timer_enqueue_total", MetricKind.COUNTER, "messages", BY_TOPIC,
    "Timer messages of a topic that were noted in the timer log since the broker started.",
)  # fmt: skip
DEQUEUED: Final[Metric] = Metric(
    "rocketmq_timer_dequeue_total", MetricKind.COUNTER, "messages", BY_TOPIC,
    "Timer messages of a topic whose time came since the broker started.",
)  # fmt: skip
ENQUEUE_BEHIND: Final[Metric] = Metric(
    "rocketmq_timer_enqueue_lag", MetricKind.GAUGE, "messages", STORAGE_LABELS,
    "Timer messages that are not noted in the timer log yet.",
)  # fmt: skip
ENQUEUE_LATENCY: Final[Metric] = Metric(
    "rocketmq_timer_enqueue_latency_milliseconds", MetricKind.GAUGE, "milliseconds", STORAGE_LABELS,
    "For how long the first of those messages waits; 0 when there is none.",
)  # fmt: skip
DEQUEUE_BEHIND: Final[Metric] = Metric(
    "rocketmq_timer_dequeue_lag", MetricKind.GAUGE, "messages", STORAGE_LABELS,
    "Timer messages whose time has come and that are not delivered yet.",
)  # fmt: skip
DEQUEUE_LATENCY: Final[Metric] = Metric(
    "rocketmq_timer_dequeue_latency_milliseconds", MetricKind.GAUGE, "milliseconds", STORAGE_LABELS,
    "For how long the first of those messages is due; 0 when there is none.",
)  # fmt: skip
DELAYS: Final[Metric] = Metric(
    "rocketmq_delay_message_latency_seconds", MetricKind.HISTOGRAM, "seconds", BY_TOPIC,
    "For how long timer messages of a topic were to wait, from their birth. Each counts once, when it is noted.",
)  # fmt: skip
WITHIN: Final[Metric] = Metric(
    "rocketmq_timer_message_snapshot", MetricKind.GAUGE, "messages", (*STORAGE_LABELS, "timer_bound_s"),
    "Timer messages whose time comes within so many seconds.",
)  # fmt: skip


def declare_timer(metrics: Metrics, timer: TimedDelivery, topics: Topics) -> None:
    """Declare the metrics of this module."""

    def by_topic(values: Mapping[int, Value]) -> Iterator[Reading]:
        names = {java_hash(name): name for name in topics.names()} if values else {}
        return (((*STORAGE, names[number]), value) for number, value in values.items() if number in names)

    def numbers(count: Callable[[], Counter[int]]) -> Read:
        return lambda: by_topic({number: max(0, value) for number, value in count().items()})

    metrics.declare(WAITING, numbers(lambda: timer.waiting))
    metrics.declare(ENQUEUED, numbers(lambda: timer.counts.enqueued))
    metrics.declare(DEQUEUED, numbers(lambda: timer.counts.dequeued))
    metrics.declare_table((ENQUEUE_BEHIND, ENQUEUE_LATENCY), lambda: ((STORAGE, timer.not_noted()),))
    metrics.declare_table(
        (DEQUEUE_BEHIND, DEQUEUE_LATENCY), lambda: ((STORAGE, overdue(timer.by_slot, timer.now_ms())),)
    )
    metrics.declare(DELAYS, lambda: by_topic(timer.counts.delays))
    metrics.declare(WITHIN, lambda: within(timer.by_slot, timer.now_ms()))


def overdue(by_slot: Counter[int], now_ms: int) -> tuple[int, int]:
    """How many messages wait in slots that are over, and since when (ms ago) the first of these is."""
    late = {slot: count for slot, count in by_slot.items() if slot < now_ms and count > 0}
    return sum(late.values()), now_ms - min(late) if late else 0


def within(by_slot: Counter[int], now_ms: int) -> Iterator[Reading]:
    """For each bound how many messages wait in slots up to it."""
    counts = [0] * (len(BOUNDS_S) + 1)
    for slot, count in by_slot.items():
        counts[bisect_left(BOUNDS_S, (slot - now_ms) / 1000)] += count
    for bound, count in zip(BOUNDS_S, accumulate(counts), strict=False):
        yield (*STORAGE, str(bound)), max(0, count)
